"""Plugins of a host: requests, texts for people, and consent."""

from __future__ import annotations

import asyncio
import io
import json
import shlex
import tempfile
import zipfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote, urlencode

from bollard.cli.client.documents import Resource
from bollard.cli.client.host_client import HostClient, problem_of_failure
from bollard.cli.client.http_client import BadAnswer, ConnectionLost, Unreachable
from bollard.cli.errors import HostProblem, HostRefusal, UsageProblem
from bollard.cli.language import Text
from bollard.cli.limits import RECONNECT_WAIT_S
from bollard.cli.shell import Shell
from bollard.cli.terminal.columns import Column, printable
from bollard.cli.terminal.progress_bar import uploading
from bollard.host.errors import HostError
from bollard.host.plugins.code_store import CodeStore
from bollard.host.plugins.description import Description
from bollard.wire.plugin_files import plugin_files

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

# Packs a plugin into an archive: a folder, a Python file, a zip or a wheel. Runs no code of it.


ARCHIVE: Final = "application/zip"
_ARCHIVES: Final = frozenset({".zip", ".whl"})
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The time of every file, so that equal plugins give equal archives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedPlugin:
    """A packed plugin."""

    described: Description
    digest: str
    data: bytes
    source: str


def pack_plugin(path: Path) -> PackedPlugin:
    """Pack a plugin and check it like the host. Raises `UsageProblem`."""
    if not path.exists():
        raise UsageProblem("error.no_path", "hint.plugin_source", path=path)
    try:
        data = _zipped(path) if path.is_dir() or path.suffix not in _ARCHIVES else path.read_bytes()
        with tempfile.TemporaryDirectory() as place:
            shelf = CodeStore(Path(place, "plugins"))
            shelf.open()
            shelved = shelf.add_archive(io.BytesIO(data))
            shelf.sweep(set())
    except HostError as error:
        raise UsageProblem.of(error, "error.pack", path=path) from error
    except OSError as error:
        raise UsageProblem("error.plugin_read", "hint.plugin_source", path=path, detail=error) from error
    return PackedPlugin(described=shelved.described, digest=shelved.digest, data=data, source=path.resolve().name)


def _zipped(path: Path) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, file in sorted(plugin_files(path)):
            if file.is_symlink():
                raise UsageProblem("error.plugin_link", "hint.plugin_link", path=name)
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o100644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, file.read_bytes())
    return out.getvalue()


PLUGINS: Final = Resource(path="/api/v1/plugins", key="plugin_id")
Consenting = Callable[[dict[str, Any]], bool]
"""Shows the details of a refusal; returns whether the person consents."""


def one(plugin_id: str, rest: str = "") -> str:
    """The API path of a plugin. Raises `UsageProblem` if the id is not `author/name`."""
    author, slash, name = plugin_id.partition("/")
    if not (author and slash and name) or "/" in name:
        raise UsageProblem("error.plugin_id", "hint.plugin_id", word=plugin_id)
    return PLUGINS.one(author, f"/{quote(name, safe='')}{rest}")


async def with_consent(asked: Callable[[str | None], Awaitable[JsonObject]], consenting: Consenting) -> JsonObject:
    """Send a request. If the host needs consent, ask the person and repeat the request. Raises `HostProblem`."""
    try:
        return await asked(None)
    except HostRefusal as refusal:
        if refusal.code != "consent_needed" or not consenting(refusal.details):
            raise
        consent = str(refusal.details["consent"])
    return await asked(consent)


async def install(
    client: HostClient, source: str, consenting: Consenting, *, package: bool, workers: int
) -> JsonObject:
    """Raises `CliError`."""
    if package:
        body: JsonObject = {"package": source, "workers": workers}
        return await with_consent(lambda consent: client.post(PLUGINS.path, _agreed(body, consent)), consenting)
    packed = pack_plugin(Path(source))
    return await with_consent(lambda consent: _send(client, "POST", PLUGINS.path, packed, consent, workers), consenting)


async def update(client: HostClient, source: str, consenting: Consenting, *, package: str | None) -> JsonObject:
    """Update a plugin; `source` is its id if `package` names a package. Raises `CliError`."""
    if package is not None:
        path, body = one(source), cast("JsonObject", {"package": package})
        return await with_consent(lambda consent: client.call("PUT", path, _agreed(body, consent)), consenting)
    packed = pack_plugin(Path(source))
    path = one(packed.described.plugin_id)
    return await with_consent(lambda consent: _send(client, "PUT", path, packed, consent, None), consenting)


def _agreed(body: JsonObject, consent: str | None) -> JsonObject:
    return body if consent is None else {**body, "consent": consent}


async def _send(
    client: HostClient, method: str, path: str, packed: PackedPlugin, consent: str | None, workers: int | None
) -> JsonObject:
    query = {"source": packed.source[:256]}
    if consent is not None:
        query["consent"] = consent
    if workers is not None:
        query["workers"] = str(workers)
    with uploading(len(packed.data)) as sent:
        return await client.upload(method, f"{path}?{urlencode(query)}", packed.data, ARCHIVE, sent)


_DIGEST_SHOWN = 12


def plugin_lines(plugin: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of one plugin."""
    yield text("plugins.head", plugin=plugin["plugin_id"], version=plugin["version"] or "", origin=plugin["origin"])
    yield text("plugins.status", status=plugin["status"], processes=_processes(plugin["processes"], text))
    yield from problem_lines(plugin, text)
    if plugin["digest"]:
        yield text("plugins.digest", digest=plugin["digest"], source=printable(plugin["source"]))
    if plugin["asks"] is not None:
        yield from asked_lines(plugin["asks"], text)
    yield text("plugins.crashes", crashes=plugin["crashes"], recent=plugin["recent_crashes"])
    if plugin["leaving_runs"]:
        yield text("plugins.leaving", count=plugin["leaving_runs"])
    for version in plugin["earlier"]:
        yield text("plugins.earlier", version=version["version"], digest=_short(version["digest"]))


def problem_lines(plugin: dict[str, Any], text: Text) -> Iterator[str]:
    """The parts of a plugin that cannot be used, and what explains them."""
    problems = [problem for problem in (plugin["problem"], *plugin["problems"]) if problem]
    for problem in problems:
        yield text("plugins.problem", problem=printable(problem))
    if problems:
        yield text("hint", hint=text("hint.plugin_problems", plugin=plugin["plugin_id"]))


def asked_lines(asks: dict[str, Any], text: Text) -> Iterator[str]:
    """The requested access: a line for each runner, then variables and tools."""
    for name, permissions in asks["runners"].items():
        yield text("plugins.runner", name=name, what=", ".join(permissions) or text("rights.none"))
    if command := asks.get("command"):
        yield text("plugins.command", command=printable(shlex.join(command)))
    if asks["env"]:
        yield text("plugins.env", names=", ".join(asks["env"]))
    for name, claims in asks["tools"].items():
        yield text("plugins.tool", name=name, risk=", ".join(_claims(claims, text)))


def _claims(claims: str, text: Text) -> Iterator[str]:
    """The claims of a tool, such as `low, never sends_out`, in the reader's language."""
    for claim in claims.split(", "):
        never, _, bit = claim.partition("never ")
        yield claim if never or not bit else text("plugins.never", bit=bit)


def change_lines(change: dict[str, Any]) -> Iterator[str]:
    """Added and removed access, marked as in a patch."""
    yield from (f"  + {printable(line)}" for line in change["added"])
    yield from (f"  - {printable(line)}" for line in change["removed"])


def log_line(line: dict[str, Any]) -> str:
    """One log line with its time, its source and its fields."""
    at = datetime.fromtimestamp(line["at_ms"] / 1000, tz=UTC).strftime("%H:%M:%S")
    message = printable(line["text"])
    mark = line["kind"] if line["kind"] != "log" else line["level"]
    shown: dict[str, Any] = {**({"run": line["run_id"]} if line.get("run_id") else {}), **(line.get("fields") or {})}
    if "rule" in shown:  # a problem of the loader; its details are for programs
        shown.pop("details", None)
    fields = "".join(f" · {printable(name)}: {printable(_plain(value))}" for name, value in shown.items())
    return f"{at} {mark:<7} {message}{fields}"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _processes(processes: Iterable[dict[str, Any]], text: Text) -> str:
    shown: list[str] = []
    for each in processes:
        name = text("plugins.elsewhere") if each["pid"] is None else str(each["pid"])
        shown.append(f"{name} ({each['runs']})" if each["runs"] else name)
    return ", ".join(shown) or text("rights.none")


def _short(digest: str | None) -> str:
    return "" if digest is None else digest[:_DIGEST_SHOWN]


def consenting(shell: Shell, *, yes: bool) -> Consenting:
    """Show the requested access. Ask for consent on a terminal; elsewhere require `--yes`."""

    def asked(details: dict[str, Any]) -> bool:
        plugin = details["plugin"]
        if not shell.for_programs:
            shell.print(shell.text("plugins.asks", plugin=plugin, version=details["version"]))
            for line in asked_lines(details["asks"], shell.text):
                shell.print(f"  {line}")
            if details["change"]["removed"] or len(details["change"]["added"]) < _requested_count(details["asks"]):
                shell.print(shell.text("plugins.change"))
                for line in change_lines(details["change"]):
                    shell.print(line)
        if yes:
            return True
        if not shell.has_person:
            raise UsageProblem("error.consent", "hint.consent", plugin=plugin, version=details["version"])
        if not shell.confirm("plugins.question"):
            raise UsageProblem("error.refused", "hint.refused", plugin=plugin)
        return True

    return asked


def _requested_count(asks: dict[str, Any]) -> int:
    """The number of requested permissions, variables and tools, and the program."""
    permissions = sum(1 + len(names) for names in asks["runners"].values())
    return permissions + len(asks["env"]) + len(asks["tools"]) + bool(asks.get("command"))


PLUGIN_COLUMNS: Final = (
    Column("plugin", "plugin_id"),
    Column("version", "version"),
    Column("origin", "origin"),
    Column("status", "status"),
    Column("digest", lambda plugin, _: _short(plugin["digest"])),
)


# Prints the log of a plugin: existing lines, and with `--follow` new ones until Ctrl-C.


async def print_logs(shell: Shell, client: HostClient, plugin_id: str, *, lines: int, follow: bool) -> int:
    """Raises `HostProblem`."""
    path = one(plugin_id, "/logs")
    page = cast("dict[str, Any]", await client.get(f"{path}?limit={lines}"))["items"]
    if shell.for_programs and not follow:
        shell.print_json({"items": page})
        return 0

    def on_line(line: dict[str, Any]) -> None:
        shell.print(json.dumps(line, ensure_ascii=False) if shell.for_programs else log_line(line))

    for line in page:
        on_line(line)
    if follow:
        await follow_lines(client, plugin_id, page[-1]["number"] if page else 0, on_line)
    return 0


async def follow_lines(
    client: HostClient, plugin_id: str, after: int, on_line: Callable[[dict[str, Any]], None]
) -> None:
    """Call `on_line` with every line after a number. Resumes a broken stream; raises if the host refuses."""
    tries = 0
    while True:
        try:
            path = f"{one(plugin_id)}/logs/stream?after={after}"
            async with client.events("GET", path) as (_, events):
                async for event in events:
                    tries = 0
                    line = json.loads(event.data)
                    after = line["number"]
                    on_line(line)
        except (Unreachable, ConnectionLost):
            after = 0 if tries else after  # a restarted host numbers its lines anew
        except BadAnswer as error:
            raise problem_of_failure(error) from error
        except HostProblem:
            if tries == 0:
                raise
        await asyncio.sleep(RECONNECT_WAIT_S[min(tries, len(RECONNECT_WAIT_S) - 1)])
        tries += 1
