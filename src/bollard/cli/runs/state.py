"""`bollard state purge`: finds and deletes state by its writer."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from bollard.cli.command import CommandGroup
from bollard.cli.errors import UsageProblem
from bollard.cli.language import Text
from bollard.cli.options import actor_of, given_values
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import printable

app = CommandGroup("state")


@app.command("purge")
def purge(
    shell: HostShell,
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="state.run")] = None,
    actor: Annotated[str | None, typer.Option("--actor", metavar="TYPE:ID", help="state.actor")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="AGENT", help="state.agent")] = None,
    source: Annotated[str | None, typer.Option("--source", metavar="SOURCE", help="state.source")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="state.dry_run")] = False,
) -> int:
    who = None if actor is None else actor_of(actor)
    body = given_values({"run_id": run, "agent_id": agent, "source": source, "actor": who})
    if not body:
        raise UsageProblem("error.purge", "hint.purge")
    answer = shell.post("/api/v1/state/purge", {**body, "dry_run": dry_run})
    return shell.show(answer, _purged_lines(answer, shell.text))


def _purged_lines(answer: dict[str, Any], text: Text) -> Iterator[str]:
    """The values that a dry run would delete, or the number of deleted ones, and the number of values with an unknown
    writer."""
    if answer["dry_run"]:
        items = answer["items"]
        for item in items:
            yield f"{item['scope']}  {printable(item['key'])}  {item['run_id']}"
        if answer["matched"] > len(items):
            yield text("state.more", more=answer["matched"] - len(items))
        yield text("state.found", matched=answer["matched"])
    else:
        yield text("state.purged", deleted=answer["deleted"])
        if answer["kept"]:
            yield text("state.kept", kept=answer["kept"])
    if answer["unknown"]:
        yield text("state.unknown", unknown=answer["unknown"])
