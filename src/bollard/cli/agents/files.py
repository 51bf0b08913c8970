"""`bollard files …`: the files of a workspace, which can be given to agents."""

import mimetypes
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import typer

from bollard.cli.client.documents import Resource
from bollard.cli.command import CommandGroup
from bollard.cli.errors import UsageProblem
from bollard.cli.limits import FILE_BYTES
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import Column, field_lines, printable

FILES: Final = Resource(path="/api/v1/files", key="file_id")
FileId = Annotated[str, typer.Argument(metavar="ID", help="files.id")]

app = CommandGroup("files")
app.add_list(
    FILES,
    (Column("file", "file_id"), Column("name", "name"), Column("type", "mime_type"), Column("size", "size_bytes")),
    none="files.none",
)


@app.command("add")
def add(
    shell: HostShell,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="files.path")],
    name: Annotated[str | None, typer.Option("--name", metavar="NAME", help="files.name")] = None,
    media_type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="files.type")] = None,
) -> int:
    content = _read(path)
    called = name or path.name
    guessed = mimetypes.guess_type(called, strict=False)[0] or "application/octet-stream"
    made = _send(shell, called, media_type or guessed, content)
    return shell.tell(
        made,
        shell.text("files.added", file=made["file_id"], name=printable(made["name"]), size=made["size_bytes"]),
        shell.text("files.next", file=made["file_id"]),
    )


app.add_show(FILES, ("file", FileId), field_lines)
app.add_delete(FILES, ("file", FileId), "remove")


def _read(path: Path) -> bytes:
    """Read a file completely. Raises `UsageProblem`."""
    try:
        if path.is_file() and path.stat().st_size > FILE_BYTES:
            raise UsageProblem("error.file_large", "hint.file_large", path=path, most=FILE_BYTES)
        return path.read_bytes()
    except OSError as error:
        raise UsageProblem("error.file", "hint.file", path=path, detail=error) from error


def _send(shell: HostShell, name: str, media_type: str, content: bytes) -> dict[str, Any]:
    from bollard.cli.terminal.progress_bar import uploading

    with uploading(len(content)) as sent:
        path = f"{FILES.path}?{urlencode({'name': name})}"
        return shell.run(shell.client.upload("POST", path, content, media_type, sent))
