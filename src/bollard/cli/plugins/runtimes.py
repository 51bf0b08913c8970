"""`bollard runtimes …`: the enrolled runtimes of a host. `bollard runtime` is the other side: it serves a plugin of
this machine to a host."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from bollard.cli.client.credentials import credentials_path
from bollard.cli.client.documents import Resource
from bollard.cli.command import CommandGroup, single_command
from bollard.cli.errors import UsageProblem, WorkerProblem, writing
from bollard.cli.language import Text
from bollard.cli.options import given_values
from bollard.cli.shell import HostShell, Shell
from bollard.cli.terminal.columns import Column, printable
from bollard.cli.terminal.times import day_of

if TYPE_CHECKING:
    from bollard.protocol import JsonObject
    from bollard.runtime.remote_host import HostAddress
    from bollard.wire import WireError

RUNTIMES: Final = Resource(path="/api/v1/runtimes", key="runtime_id")
Name = Annotated[str, typer.Argument(metavar="NAME", help="runtimes.name")]
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")


def _status(runtime: dict[str, Any], text: Text) -> str:
    return text(f"runtimes.status.{runtime['status']}")


def _plugin(runtime: dict[str, Any], text: Text) -> str:
    del text
    there: dict[str, Any] = runtime["presence"] or {}
    brought = there.get("plugin") or runtime["consented"]
    return "" if brought is None else f"{brought['plugin_id']} {brought['version']}"


def _since(runtime: dict[str, Any], text: Text) -> str:
    del text
    return day_of(runtime["presence"]["connected_at"]) if runtime["presence"] else ""


def _ping(presence: dict[str, Any] | None) -> str:
    ping_ms = (presence or {}).get("ping_ms")
    return "" if ping_ms is None else f"{ping_ms:g} ms"


def runtime_lines(item: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of one server."""
    from bollard.cli.plugins.host_plugins import asked_lines

    yield text("runtimes.head", name=item["runtime_id"], status=text(f"runtimes.status.{item['status']}"))
    if item["problem"]:
        yield text("plugins.problem", problem=printable(text.quote(item["problem"])))
    yield text("runtimes.key", key=item["public_key"])
    yield text("runtimes.enrolled", by=printable(item["enrolled_by"]), at=day_of(item["enrolled_at"]))
    if item["only_plugin"]:
        yield text("runtimes.only", plugin=item["only_plugin"])
    there = item["presence"]
    if there:
        seen, since = day_of(there["last_seen_at"]), day_of(there["connected_at"])
        yield text("runtimes.there", since=since, seen=seen, ping=_ping(there), runs=there["runs"])
        if there["worker"]:
            worker = {name: printable(value) for name, value in there["worker"].items()}
            yield text("runtimes.worker", **worker)
        if there["plugin"]:
            plugin = there["plugin"]
            version, digest = printable(plugin["version"]), plugin["digest"] or ""
            yield text("runtimes.brings", plugin=plugin["plugin_id"], version=version, digest=digest)
            yield from (f"  {line}" for line in asked_lines(there["asks"], text))
    if item["consented"]:
        agreed = item["consented"]
        yield text(
            "runtimes.agreed",
            plugin=agreed["plugin_id"],
            version=printable(agreed["version"]),
            digest=agreed["digest"][:12],
            by=printable(agreed["by"]),
            at=day_of(agreed["at"]),
        )


app = CommandGroup("runtimes")
app.add_list(
    RUNTIMES,
    (
        Column("name", "runtime_id"),
        Column("status", _status),
        Column("plugin", _plugin),
        Column("since", _since),
        Column("ping", lambda runtime, _: _ping(runtime["presence"])),
        Column("runs", lambda runtime, _: str(runtime["presence"]["runs"]) if runtime["presence"] else ""),
    ),
    none="runtimes.none",
)


@app.command("enroll")
def enroll(
    shell: HostShell,
    name: Name,
    plugin: Annotated[str | None, typer.Option("--plugin", metavar="AUTHOR/NAME", help="runtimes.plugin")] = None,
) -> int:
    made = shell.post(RUNTIMES.path, given_values({"name": name, "plugin": plugin}))
    dialled = shell.client.address.replace("http", "ws", 1)
    return shell.tell(
        made,
        shell.text("runtimes.enrolling", name=name, until=day_of(made["expires_at"])),
        shell.text("runtimes.command", url=dialled, code=made["code"]),
        shell.text("runtimes.once", name=name),
    )


app.add_show(RUNTIMES, ("name", Name), runtime_lines)


@app.command("consent")
def consent(
    shell: HostShell, name: Name, yes: Annotated[bool, typer.Option("--yes", "-y", help="plugins.yes")] = False
) -> int:
    from bollard.cli.plugins.host_plugins import consenting, with_consent

    async def asked(given: str | None) -> "JsonObject":
        return await shell.client.post(RUNTIMES.one(name, "/consent"), given_values({"consent": given}))

    changed = shell.run(with_consent(asked, consenting(shell, yes=yes, remote=True)))
    return shell.tell(changed, shell.text("runtimes.consented", name=name))


@app.command("enable")
def enable(shell: HostShell, name: Name) -> int:
    changed = shell.patch(RUNTIMES.one(name), {"enabled": True})
    return shell.tell(changed, shell.text("runtimes.enabled", name=name))


@app.command("disable")
def disable(shell: HostShell, name: Name) -> int:
    changed = shell.patch(RUNTIMES.one(name), {"enabled": False})
    return shell.tell(changed, shell.text("runtimes.disabled", name=name))


app.add_delete(RUNTIMES, ("name", Name), "revoke")


@single_command("runtime")
def runtime(
    shell: Shell,
    words: Annotated[list[str], typer.Argument(metavar="PATH | -- CMD", help="runtime.words")],
    connect: Annotated[str | None, typer.Option("--connect", metavar="URL", help="runtime.connect")] = None,
    enroll: Annotated[str | None, typer.Option("--enroll", metavar="CODE", help="runtime.enroll")] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="FILE", help="runtime.key")] = None,
) -> int:
    """Enrol the plugin if a code is given, then replace this process by the worker."""
    from bollard.runtime.remote_host import read_address
    from bollard.wire import WireError

    options = {"--connect": connect, "--enroll": enroll, "--key": None if key is None else str(key)}
    words, options = _with_trailing_options(words, options)
    url, enroll = options["--connect"], options["--enroll"]
    if url is None:
        raise UsageProblem("error.no_connect", "hint.no_connect")
    path, command = _served(words)
    try:
        address = read_address(url)
        file = Path(options["--key"]) if options["--key"] is not None else _key_path(address, path)
        if enroll is not None:
            _enrol(shell, address, enroll, file)
        elif not file.exists():
            raise UsageProblem("error.not_enrolled", "hint.not_enrolled", path=file)
    except WireError as error:
        raise _problem_of(error) from error
    _become_worker(command or [str(path)], url, file, is_command=bool(command))


def _with_trailing_options(words: list[str], options: dict[str, str | None]) -> tuple[list[str], dict[str, str | None]]:
    """Read options behind a command, as in `-- node worker.mjs --connect URL`, unless they stand before it."""
    rest, given = list(words), dict(options)
    if given["--connect"] is None:
        while len(rest) > 2 and rest[-2] in given and given[rest[-2]] is None:
            given[rest[-2]] = rest[-1]
            del rest[-2:]
    return rest, given


def _served(words: list[str]) -> tuple[Path, list[str]]:
    """The code of the worker, and its command; the command is empty for a plugin."""
    from bollard.runtime import PluginLoadError
    from bollard.runtime.program import code_of

    path = Path(words[0])
    if len(words) == 1 and (path.is_dir() or path.suffix == ".py"):
        if not path.exists():
            raise UsageProblem("error.no_path", "hint.plugin_path", path=path)
        return path, []
    try:
        return code_of(words, Path()), words
    except PluginLoadError as error:
        if len(words) == 1:
            raise UsageProblem("error.no_path", "hint.runtime_path", path=path) from error
        raise UsageProblem("error.no_program", "hint.no_program", program=words[0]) from error


def _key_path(address: "HostAddress", plugin: Path) -> Path:
    """A key for each host and plugin, so that two hosts never know the same key."""
    folder = credentials_path(os.environ).parent / "runtimes" / _ODD.sub("-", address.authority)
    return folder / f"{_ODD.sub('-', plugin.resolve().stem)}.json"


def _enrol(shell: Shell, address: "HostAddress", code: str, file: Path) -> None:
    """The key is on disk before it is sent to the host: a lost answer must not lose the key."""
    from dataclasses import replace

    from bollard.runtime.remote_host import enrol, load_key, make_key, save_key

    key = load_key(file) if file.exists() else make_key()
    if key.host_id is not None:  # it was enrolled before: that key is not trusted again
        key = make_key()
    with writing(file):
        save_key(file, key)
        name, host_id = enrol(address, code, key)
        save_key(file, replace(key, host_id=host_id))
    sys.stderr.write(shell.text("runtime.enrolled", name=name, path=file) + "\n")


def _problem_of(error: "WireError") -> WorkerProblem:
    from bollard.wire.errors import HandshakeRefused, IncompatiblePeer

    if not isinstance(error, IncompatiblePeer):
        return WorkerProblem("error.runtime", "hint.runtime.reach", detail=str(error))
    problem = WorkerProblem("error.runtime", "hint.runtime", detail=error.problem, advice=error.hint)
    if isinstance(error, HandshakeRefused):
        problem.code, problem.details = error.code, error.details
    return problem


def _become_worker(words: list[str], url: str, key: Path, *, is_command: bool) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    arguments = ["-P", "-m", "bollard.runtime", "--connect", url, "--key", str(key)]
    arguments += ["--", *words] if is_command else words
    os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 -- the worker gets the signals
