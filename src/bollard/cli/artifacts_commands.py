"""`bollard artifacts …`: what is known of an artifact, its content in a file, and its end."""

import hashlib
import os
import sys
from pathlib import Path
from typing import Annotated, Any, BinaryIO, cast
from urllib.parse import quote

import typer

from bollard.cli.app import Command, Group
from bollard.cli.columns import printable
from bollard.cli.errors import HostProblem, UsageProblem
from bollard.cli.host_client import HostClient, TokenOption, UrlOption, find_host
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(cls=Group, help="artifacts", no_args_is_help=True, rich_markup_mode=None, add_completion=False)

ArtifactId = Annotated[str, typer.Argument(metavar="ID", help="artifacts.id")]


@app.command("show", cls=Command, help="artifacts.show")
def show(ctx: typer.Context, artifact: ArtifactId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    found = asyncio.run(find_host(url, token, os.environ).get(_path(artifact)))
    if shell.for_programs:
        shell.print_json(found)
    else:
        for name, value in found.items():
            shell.print(f"{name}: {printable(str(value))}")
    return 0


@app.command("get", cls=Command, help="artifacts.get")
def get(
    ctx: typer.Context,
    artifact: ArtifactId,
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="artifacts.file")],
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell: Shell = ctx.obj
    client = find_host(url, token, os.environ)
    if file == "-":
        asyncio.run(_fetch(client, artifact, sys.stdout.buffer))
        return 0
    size = asyncio.run(_keep(client, artifact, Path(file)))
    return shell.tell(
        {"artifact_id": artifact, "file": file, "bytes": size}, shell.text("artifacts.kept", file=file, size=size)
    )


@app.command("remove", cls=Command, help="artifacts.remove")
def remove(ctx: typer.Context, artifact: ArtifactId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    answer = asyncio.run(find_host(url, token, os.environ).delete(_path(artifact)))
    return shell.tell(answer, shell.text("artifacts.removed", artifact=artifact))


def _path(artifact: str, rest: str = "") -> str:
    return f"/api/v1/artifacts/{quote(artifact, safe='')}{rest}"


async def _keep(client: HostClient, artifact: str, path: Path) -> int:
    """Whole or not at all: what is cut off on the way leaves no file."""
    fresh = path.with_name(f".{path.name}.part")
    try:
        with fresh.open("wb") as sink:
            size = await _fetch(client, artifact, sink)
        fresh.replace(path)
    except OSError as error:
        raise UsageProblem("error.write", "hint.write", path=path, detail=error.strerror or error) from error
    finally:
        fresh.unlink(missing_ok=True)
    return size


async def _fetch(client: HostClient, artifact: str, sink: BinaryIO) -> int:
    """Returns how many bytes it was. Raises `HostProblem` where they are not those that the host knows."""
    known = cast("dict[str, Any]", await client.get(_path(artifact)))
    digest, size = hashlib.sha256(), 0
    async with client.content(_path(artifact, "/content")) as pieces:
        async for piece in pieces:
            sink.write(piece)
            digest.update(piece)
            size += len(piece)
    sink.flush()
    if digest.hexdigest() != known["sha256"]:
        raise HostProblem("error.content", "hint.content", artifact=artifact)
    return size
