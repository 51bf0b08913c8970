"""`bollard artifacts …`: shows, downloads and deletes artifacts."""

import hashlib
import sys
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, cast

import typer

from bollard.cli.client.documents import Resource
from bollard.cli.client.host_client import HostClient
from bollard.cli.command import CommandGroup
from bollard.cli.errors import HostProblem
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import field_lines
from bollard.cli.terminal.export_file import whole_file

ARTIFACTS: Final = Resource(path="/api/v1/artifacts", key="artifact_id")
ArtifactId = Annotated[str, typer.Argument(metavar="ID", help="artifacts.id")]

app = CommandGroup("artifacts")
app.add_show(ARTIFACTS, ("artifact", ArtifactId), field_lines)


@app.command("get")
def get(
    shell: HostShell,
    artifact: ArtifactId,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="artifacts.file")],
) -> int:
    if file == "-":
        shell.run(_fetch(shell.client, artifact, sys.stdout.buffer))
        return 0
    with whole_file(Path(file)) as sink:  # an interrupted download leaves no file
        size = shell.run(_fetch(shell.client, artifact, sink))
    return shell.tell(
        {"artifact_id": artifact, "file": file, "bytes": size}, shell.text("artifacts.kept", file=file, size=size)
    )


app.add_delete(ARTIFACTS, ("artifact", ArtifactId), "remove")


async def _fetch(client: HostClient, artifact: str, sink: BinaryIO) -> int:
    """The number of bytes. Raises `HostProblem` if they differ from the digest that the host knows."""
    known = cast("dict[str, Any]", await client.get(ARTIFACTS.one(artifact)))
    digest, size = hashlib.sha256(), 0
    async with client.content(ARTIFACTS.one(artifact, "/content")) as pieces:
        async for piece in pieces:
            sink.write(piece)
            digest.update(piece)
            size += len(piece)
    sink.flush()
    if digest.hexdigest() != known["sha256"]:
        raise HostProblem("error.content", "hint.content", artifact=artifact)
    return size
