"""Plugins of a host: requests, texts for people, and consent."""

from __future__ import annotations

import asyncio
import io
import json
import shlex
import tempfile
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
from bollard.host.plugins.packing import zip_of_plugin
from bollard.wire.plugin_files import PluginFileError

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

# Packs a plugin into an archive: a folder, a Python file, a zip or a wheel. Runs no code of it.


ARCHIVE: Final = "application/zip"
_ARCHIVES: Final = frozenset({".zip", ".whl"})


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
        data = zip_of_plugin(path) if path.is_dir() or path.suffix not in _ARCHIVES else path.read_bytes()
        with tempfile.TemporaryDirectory() as place:
            shelf = CodeStore(Path(place, "plugins"))
            shelf.open()
            shelved = shelf.add_archive(io.BytesIO(data))
            shelf.sweep(set())
    except PluginFileError as error:
        raise UsageProblem("error.plugin_link", "hint.plugin_link", path=error.name) from error
    except HostError as error:
        raise UsageProblem.of(error, "error.pack", path=path) from error
    except OSError as error:
        raise UsageProblem("error.plugin_read", "hint.plugin_source", path=path, detail=error) from error
    return PackedPlugin(described=shelved.described, digest=shelved.digest, data=data, source=path.resolve().name)


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


async def install_item(client: HostClient, ref: str, consenting: Consenting, *, update_of: str | None) -> JsonObject:
    """Install a plugin of the catalogue, or update the installed one with this id. Raises `CliError`."""
    body: JsonObject = {"catalogue": ref}
    if update_of is not None:
        path = one(update_of)
        return await with_consent(lambda consent: client.call("PUT", path, _agreed(body, consent)), consenting)
    return await with_consent(lambda consent: client.post(PLUGINS.path, _agreed(body, consent)), consenting)


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


def _origin(plugin: dict[str, Any], text: Text) -> str:
    return text.known(f"plugins.origin.{plugin['origin']}", plugin["origin"])


def _status(plugin: dict[str, Any], text: Text) -> str:
    return text.known(f"plugins.status.{plugin['status']}", plugin["status"])


def plugin_lines(plugin: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of one plugin."""
    yield text(
        "plugins.head", plugin=plugin["plugin_id"], version=plugin["version"] or "", origin=_origin(plugin, text)
    )
    yield text("plugins.status", status=_status(plugin, text), processes=_processes(plugin["processes"], text))
    yield from problem_lines(plugin, text)
    if plugin["digest"]:
        yield text("plugins.digest", digest=plugin["digest"], source=printable(plugin["source"]))
    if plugin["asks"] is not None:
        yield from asked_lines(plugin["asks"], text)
        if plugin["origin"] != "remote":
            yield from sandbox_lines(plugin["asks"].get("sandbox", {}), text)
    yield from confinement_lines(plugin.get("confinement"), text)
    yield text("plugins.crashes", crashes=plugin["crashes"], recent=plugin["recent_crashes"])
    if plugin["leaving_runs"]:
        yield text("plugins.leaving", count=plugin["leaving_runs"])
    for version in plugin["earlier"]:
        yield text("plugins.earlier", version=version["version"], digest=_short(version["digest"]))


def confinement_lines(confinement: dict[str, Any] | None, text: Text) -> Iterator[str]:
    """The level of its workers, and the limits of each. A host of an earlier version sends none."""
    if confinement is None:
        return
    yield text(f"plugins.level.{confinement['level']}")
    for key, bounds in (("plugins.limits", confinement), ("plugins.workspace_limits", confinement.get("workspace"))):
        if limits := _limits(bounds or {}, text):
            yield text(key, limits=limits)
    if confinement["level"] != "none" and confinement["network"] == "none":
        yield text("plugins.limit.network")


def _limits(bounds: dict[str, Any], text: Text) -> str:
    names = [name for name in ("memory_mib", "cpu", "processes") if bounds.get(name) is not None]
    return ", ".join(text(f"plugins.limit.{name}", count=f"{bounds[name]:g}") for name in names)


def problem_lines(plugin: dict[str, Any], text: Text) -> Iterator[str]:
    """The parts of a plugin that cannot be used, and what explains them."""
    sentences = [plugin["problem"], *plugin["problems"]]
    details = [plugin["problem_details"], *plugin["problems_details"]]
    problems = [{"problem": said, **known} for said, known in zip(sentences, details, strict=True) if said]
    for problem in problems:
        yield text("plugins.problem", problem=printable(text.problem(problem)))
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


def sandbox_lines(sandbox: dict[str, Any], text: Text) -> Iterator[str]:
    """The requested network, files, memory and processors."""
    network = sandbox.get("network", "none")
    if isinstance(network, list):
        yield text("plugins.network.names", names=", ".join(cast("list[str]", network)))
    else:
        yield text(f"plugins.network.{network}")
    for key in ("read", "write"):
        if paths := sandbox.get(key):
            yield text(f"plugins.{key}", paths=printable(", ".join(paths)))
    for key in ("memory_mib", "cpu"):
        if (count := sandbox.get(key)) is not None:
            yield text(f"plugins.{key}", count=f"{count:g}")


def _claims(claims: str, text: Text) -> Iterator[str]:
    """The claims of a tool, such as `low, never sends_out`, in the reader's language."""
    for claim in claims.split(", "):
        never, _, bit = claim.partition("never ")
        if bit and not never:
            yield text("plugins.never", bit=text.known(f"plugins.bit.{bit}", bit))
        else:
            yield text.known(f"capabilities.risk.{claim}", claim)


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


def consenting(shell: Shell, *, yes: bool, remote: bool = False) -> Consenting:
    """Show the requested access. Ask for consent on a terminal; elsewhere require `--yes`. The host does not confine
    the workers of a remote runtime."""

    def asked(details: dict[str, Any]) -> bool:
        plugin = details["plugin"]
        if not shell.for_programs:
            shell.print(shell.text("plugins.asks", plugin=plugin, version=details["version"]))
            asks = details["asks"]
            needs = () if remote else sandbox_lines(asks.get("sandbox", {}), shell.text)
            for line in (*asked_lines(asks, shell.text), *needs):
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
    """The number of requested permissions, variables and tools, of the program, and of the needs of its sandbox."""
    permissions = sum(1 + len(names) for names in asks["runners"].values())
    sandbox = cast("dict[str, list[str] | str | float]", asks.get("sandbox", {}))
    needs = sum(len(need) if isinstance(need, list) else 1 for need in sandbox.values())
    return permissions + len(asks["env"]) + len(asks["tools"]) + bool(asks.get("command")) + needs


PLUGIN_COLUMNS: Final = (
    Column("plugin", "plugin_id"),
    Column("version", "version"),
    Column("origin", _origin),
    Column("status", _status),
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
