"""What `bollard doctor` knows about a host, its data and its machine, and what is wrong with it. Pure: from facts to
findings, whose sentences are in the catalogue."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from bollard.cli.operate.store_options import size_text


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFacts:
    """The settings, or the `problem` with them."""

    host: str
    port: int
    connections: int
    problem: str | None = None
    hint: str = ""
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFacts:
    """The data directory. Where it is absent, the rest is about the nearest folder above it."""

    path: str
    there: bool
    is_folder: bool
    writable: bool
    owner: int
    me: int
    mode: int
    free_bytes: int
    total_bytes: int
    holder: int | None
    """The process that holds its lock."""
    exposed: tuple[str, ...] = ()
    """Files with keys or tokens that others can read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFacts:
    """The listener at the host's port."""

    taken: bool
    by: str | None
    """The name of the process, where it can be known."""
    pid: int | None = None
    is_host: bool
    """Whether a Bollard host answers there."""
    refused: str | None = None
    """Why else nobody could listen there: it is not allowed, or the address is not this machine's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFacts:
    name: str
    status: str
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    """An agent and the models that its configuration asks for and nobody offers."""

    agent_id: str
    models: tuple[str, ...]
    """Fields of its configuration, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """The state of a running host."""

    address: str
    ready: bool
    version: str | None
    reasons: tuple[str, ...] = ()
    plugins: tuple[PluginFacts, ...] = ()
    agents: tuple[AgentFacts, ...] | None = None
    """Nothing where it does not tell us, because we have no token that it accepts."""
    only_demo: bool = False
    """Whether the built-in model is the only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """The database."""

    name: str
    problem: str | None = None
    """Why it cannot be read."""
    revision: str | None = None
    known: tuple[str, ...] = ()
    newest_ms: int | None = None
    """When the newest record was made."""
    fault: str | None = None
    """What is wrong with the newest records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxFacts:
    """The sandbox of programs on this machine."""

    level: str | None
    """Nothing where programs are refused."""
    problem: str = ""
    """Why they are."""
    hint: str = ""

    landlock: int
    """The version of Landlock; 0 where there is none."""
    user_namespaces: bool
    bubblewrap: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All facts."""

    settings: SettingsFacts
    data: DataFacts
    port: PortFacts
    store: StoreFacts
    sandbox: SandboxFacts
    now_ms: int
    files: int
    """Files that a host started here may have open."""
    host: HostFacts | None = None
    drift_s: float | None = None
    """How much further the wall clock went than the steady one since the running host's start."""


Severity = Literal["error", "warning", "note"]
GIB: Final = 1 << 30
DISK_ERROR_BYTES: Final = 64 << 20
"""Space below which a host takes nothing new."""
DISK_WARNING_BYTES: Final = GIB
DISK_WARNING_SHARE: Final = 0.05
FUTURE_MS: Final = 60_000
"""How far ahead of the clock a record may be without a word: machines differ a little."""
DRIFT_S: Final = 30.0
"""A jump of the clock that is worth a word."""
SPARE_FILES: Final = 256
"""Files that a host needs besides its connections."""
_OTHERS: Final = 0o077


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was found: `doctor.<check>` says what, `.why` why it matters, `.fix` what to do."""

    check: str
    severity: Severity
    fields: dict[str, object] = field(default_factory=dict[str, object])


def examine(facts: Facts) -> list[Finding]:
    """All findings, errors first."""
    found = [finding for check in CHECKS for finding in check(facts)]
    order: tuple[Severity, ...] = ("error", "warning", "note")
    return sorted(found, key=lambda finding: order.index(finding.severity))


def settings(facts: Facts) -> Iterator[Finding]:
    told = facts.settings
    if told.problem is None:
        return
    if told.field == "host":
        yield Finding(check="public_bind", severity="error", fields={"host": told.host})
    else:
        yield Finding(check="settings", severity="error", fields={"problem": told.problem, "advice": told.hint})


def data(facts: Facts) -> Iterator[Finding]:
    told = facts.data
    fields: dict[str, object] = {"path": told.path}
    if told.there and not told.is_folder:
        yield Finding(check="data_no_folder", severity="error", fields=fields)
        return
    if told.there and told.owner != told.me:
        yield Finding(check="data_owner", severity="error", fields={**fields, "owner": told.owner, "me": told.me})
    if not told.writable:
        yield Finding(check="data_unwritable", severity="error", fields=fields)
    elif not told.there:
        yield Finding(check="data_absent", severity="note", fields=fields)
    elif told.mode & _OTHERS:
        yield Finding(check="data_open", severity="warning", fields={**fields, "mode": f"{told.mode:03o}"})
    for name in told.exposed:
        yield Finding(check="key_readable", severity="error", fields={"file": name})


def disk(facts: Facts) -> Iterator[Finding]:
    told = facts.data
    fields: dict[str, object] = {"path": told.path, "free": size_text(told.free_bytes)}
    if told.free_bytes < DISK_ERROR_BYTES:
        yield Finding(check="disk_full", severity="error", fields=fields)
    elif told.free_bytes < min(DISK_WARNING_BYTES, told.total_bytes * DISK_WARNING_SHARE):
        yield Finding(check="disk_low", severity="warning", fields=fields)


def port(facts: Facts) -> Iterator[Finding]:
    told = facts.port
    by = "?" if told.by is None else f"{told.by} ({told.pid})"
    fields: dict[str, object] = {"port": facts.settings.port, "by": by}
    holder = facts.data.holder
    ours = told.is_host and holder is not None and told.pid in (None, holder)
    if told.refused is not None:
        refused: dict[str, object] = {"host": facts.settings.host, "problem": told.refused, **fields}
        yield Finding(check="port_refused", severity="error", fields=refused)
    if told.taken and not told.is_host:
        yield Finding(check="port_taken", severity="error", fields=fields)
    elif told.is_host and not ours:
        yield Finding(check="port_other_host", severity="error", fields={**fields, "path": facts.data.path})
    if holder is not None and not ours:
        busy: dict[str, object] = {"path": facts.data.path, "pid": holder, **fields}
        yield Finding(check="data_busy", severity="error", fields=busy)


def host(facts: Facts) -> Iterator[Finding]:
    told = facts.host
    if told is None:
        if not facts.port.taken and facts.data.holder is None:
            yield Finding(check="not_running", severity="note", fields={"port": facts.settings.port})
        return
    if not told.ready:
        reasons = "; ".join(told.reasons) or "?"
        yield Finding(check="not_ready", severity="error", fields={"address": told.address, "reasons": reasons})
    for plugin in told.plugins:
        if plugin.problem is not None:
            fields: dict[str, object] = {"plugin": plugin.name, "problem": plugin.problem}
            yield Finding(check="plugin_quarantined", severity="error", fields=fields)
    if told.agents is None:
        yield Finding(check="no_token", severity="note", fields={"address": told.address})
    if told.only_demo:
        yield Finding(check="only_demo", severity="note", fields={"address": told.address})
    for agent in told.agents or ():
        fields = {"agent": agent.agent_id, "models": ", ".join(agent.models)}
        yield Finding(check="no_model", severity="error", fields=fields)


def store(facts: Facts) -> Iterator[Finding]:
    told = facts.store
    if told.problem is not None:
        yield Finding(check="store_unreachable", severity="error", fields={"store": told.name, "problem": told.problem})
        return
    if told.revision is not None and told.revision != told.known[-1]:
        fields: dict[str, object] = {"current": told.revision, "needed": told.known[-1]}
        if told.revision in told.known:
            yield Finding(check="schema_older", severity="note", fields=fields)
        else:
            yield Finding(check="schema_newer", severity="error", fields=fields)
    if told.fault is not None:
        yield Finding(check="chain_broken", severity="error", fields={"problem": told.fault})


def clock(facts: Facts) -> Iterator[Finding]:
    newest = facts.store.newest_ms
    if newest is not None and newest > facts.now_ms + FUTURE_MS:
        ahead = f"{(newest - facts.now_ms) / 1000:.0f}"
        yield Finding(check="record_future", severity="error", fields={"seconds": ahead})
    if facts.drift_s is not None and abs(facts.drift_s) > DRIFT_S:
        yield Finding(check="clock_jump", severity="warning", fields={"seconds": f"{facts.drift_s:+.0f}"})


def files(facts: Facts) -> Iterator[Finding]:
    wanted = facts.settings.connections + SPARE_FILES
    if facts.files < wanted:
        yield Finding(check="files_low", severity="warning", fields={"limit": facts.files, "wanted": wanted})


def sandbox(facts: Facts) -> Iterator[Finding]:
    told = facts.sandbox
    fields: dict[str, object] = {
        "landlock": told.landlock,
        "namespaces": told.user_namespaces,
        "bubblewrap": told.bubblewrap,
    }
    if told.level is None:
        fields |= {"problem": told.problem, "advice": told.hint}
        yield Finding(check="sandbox_missing", severity="note", fields=fields)
    else:
        yield Finding(check="sandbox", severity="note", fields={**fields, "level": told.level})


CHECKS: Final[tuple[Callable[[Facts], Iterator[Finding]], ...]] = (
    settings,
    port,
    data,
    disk,
    store,
    clock,
    host,
    files,
    sandbox,
)
"""Every check, the most urgent first."""
