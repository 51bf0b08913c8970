"""`bollard runtime`: serves a plugin on this machine to a host on another. Enrols it where a code is given, and then
becomes the worker process itself."""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from bollard.cli.app import Command
from bollard.cli.credentials import credentials_path
from bollard.cli.errors import UsageProblem, WorkerProblem
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.runtime.host_address import HostAddress
    from bollard.wire import WireError

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")


@app.command("runtime", cls=Command, help="runtime")
def runtime(
    ctx: typer.Context,
    path: Annotated[Path, typer.Argument(metavar="PATH", help="plugin.path")],
    connect: Annotated[str, typer.Option("--connect", metavar="URL", help="runtime.connect")],
    enroll: Annotated[str | None, typer.Option("--enroll", metavar="CODE", help="runtime.enroll")] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="FILE", help="runtime.key")] = None,
) -> int:
    from bollard.runtime.host_address import read_address
    from bollard.wire import WireError

    shell: Shell = ctx.obj
    if not path.exists():
        raise UsageProblem("error.no_path", "hint.plugin_path", path=path)
    try:
        address = read_address(connect)
        file = key or _key_path(address, path)
        if enroll is not None:
            _enrol(shell, address, enroll, file)
        elif not file.exists():
            raise UsageProblem("error.not_enrolled", "hint.not_enrolled", path=file)
    except WireError as error:
        raise _told(error) from error
    _become_worker(path, connect, file)


def _key_path(address: "HostAddress", plugin: Path) -> Path:
    """A key for each host and plugin, so that none is known to two hosts."""
    folder = credentials_path(os.environ).parent / "runtimes" / _ODD.sub("-", address.authority)
    return folder / f"{_ODD.sub('-', plugin.resolve().stem)}.json"


def _enrol(shell: Shell, address: "HostAddress", code: str, file: Path) -> None:
    """The key is on disk before the host hears of it: an answer that is lost must not lose the key."""
    from dataclasses import replace

    from bollard.runtime.key_file import load_key, make_key, save_key
    from bollard.runtime.remote_door import enrol

    key = load_key(file) if file.exists() else make_key()
    if key.host_id is not None:  # it was enrolled before; whatever ended that, the key is not trusted again
        key = make_key()
    try:
        save_key(file, key)
        name, host_id = enrol(address, code, key)
        save_key(file, replace(key, host_id=host_id))
    except OSError as error:
        raise UsageProblem("error.write", "hint.write", path=file, detail=error.strerror or error) from error
    sys.stderr.write(shell.text("runtime.enrolled", name=name, path=file) + "\n")


def _told(error: "WireError") -> WorkerProblem:
    problem, _, hint = str(error).partition("\nhint: ")
    return WorkerProblem("error.runtime", "hint.runtime" if hint else "hint.runtime.reach", detail=problem, advice=hint)


def _become_worker(path: Path, url: str, key: Path) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    arguments = ["-P", "-m", "bollard.runtime", str(path), "--connect", url, "--key", str(key)]
    os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 -- signals and the exit code are the worker's
