"""`bollard people …`: exports the data of one person, and erases a person."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from bollard.cli.client.host_client import HostClient
from bollard.cli.command import CommandGroup
from bollard.cli.errors import UsageProblem
from bollard.cli.language import Text
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import printable
from bollard.cli.terminal.export_file import whole_file

Person = Annotated[str, typer.Argument(metavar="ACTOR_OR_USER", help="people.person")]
app = CommandGroup("people")


@app.command("export")
def export(
    shell: HostShell, person: Person, out: Annotated[Path, typer.Option("--out", metavar="FILE", help="people.out")]
) -> int:
    path = f"/api/v1/people/export?{urlencode({'person': person})}"
    records = shell.run(_export(shell.client, path, out))
    return shell.tell({"file": str(out), "records": records}, shell.text("people.exported", file=out, records=records))


async def _export(client: HostClient, path: str, out: Path) -> int:
    """Write the file atomically. Returns the number of records."""
    records = 0
    with whole_file(out) as sink:
        async with client.content(path) as pieces:
            async for piece in pieces:
                records += piece.count(b"\n")
                sink.write(piece)
    return records


@app.command("erase")
def erase(
    shell: HostShell, person: Person, yes: Annotated[bool, typer.Option("--yes", "-y", help="people.yes")] = False
) -> int:
    if not yes and not shell.has_person:
        raise UsageProblem("error.erase_yes", "hint.erase_yes")
    if not yes and not shell.confirm("people.question"):
        raise UsageProblem("error.erase_declined", "hint.erase_yes")
    erased = shell.post("/api/v1/people/erase", {"person": person})
    return shell.show(erased, _erased_lines(erased, shell.text))


def _erased_lines(erased: dict[str, Any], text: Text) -> Iterator[str]:
    yield text("people.erased", person=printable(erased["person"]), count=sum(erased["records"].values()))
    counted = ("runs", "state", "artifacts", "files", "documents", "schedules")
    yield text("people.also", **{name: erased[name] for name in counted})
    if erased["segments"]:
        yield text("people.segments", count=erased["segments"])
    for backup in erased["backups"]:
        yield text("people.backup", file=printable(backup))
