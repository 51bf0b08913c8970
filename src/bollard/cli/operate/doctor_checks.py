"""The checks of `bollard doctor`: pure functions from facts about a host, its data and its machine to findings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from bollard.cli.operate.store_options import size_text
from bollard.host.errors import ExplainedError, HostError
from bollard.host.workers.bounds import GroupBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFacts:
    """The settings, or the `problem` with them."""

    host: str
    port: int
    connections: int
    problem: HostError | None = None
    field: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFacts:
    """The data directory. If it is absent, the other fields describe the nearest folder above it."""

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
    """The name of the process, if this user may read it."""
    pid: int | None = None
    is_host: bool
    """Whether a Bollard host answers there."""
    refused: OSError | None = None
    """Another error of listening there: not permitted, or not an address of this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFacts:
    name: str
    """`author/name`, or the name of its folder or file."""
    status: str
    problem: Mapping[str, object] | None
    """The sentence and the details of the problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    """An agent that the host warns about."""

    agent_id: str
    reason: str
    details: Mapping[str, str]
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """The state of a running host."""

    address: str
    ready: bool
    version: str | None
    reasons: tuple[Mapping[str, object], ...] = ()
    """The reasons why it is not ready, as problems with details."""
    plugins: tuple[PluginFacts, ...] = ()
    agents: tuple[AgentFacts, ...] | None = None
    """`None` without a token that the host accepts."""
    only_demo: bool = False
    """Whether the built-in model is the only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """The database."""

    name: str
    problem: HostError | None = None
    """Why it cannot be read."""
    revision: str | None = None
    known: tuple[str, ...] = ()
    newest_ms: int | None = None
    """Time of the newest record."""
    fault: ExplainedError | None = None
    """The fault in the newest records."""
    shares_role: bool = False
    """Whether the knowledge process has the host's role of PostgreSQL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxFacts:
    """The sandbox of programs on this machine."""

    level: str | None
    """`None` if programs are refused."""
    problem: str = ""
    """Why programs are refused."""
    hint: str = ""
    missing: str = ""
    """The type of the problem."""

    landlock: int
    """The version of Landlock; 0 without Landlock."""
    user_namespaces: bool
    bubblewrap: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFacts:
    """The confinement of plugin workers and MCP servers on this machine."""

    demand: str
    level: str
    problem: str = ""
    """What the full level lacks."""
    hint: str = ""
    missing: str = ""
    """The type of the problem."""
    landlock: int = 0
    controllers: tuple[str, ...] = ()
    """What control groups limit."""
    workspace: GroupBounds | None = None
    """The limits of one workspace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All facts."""

    settings: SettingsFacts
    data: DataFacts
    port: PortFacts
    store: StoreFacts
    sandbox: SandboxFacts
    workers: WorkerFacts
    now_ms: int
    files: int
    """The limit of open files of a host that is started here."""
    host: HostFacts | None = None
    drift_s: float | None = None
    """Difference between the wall clock and the steady clock since the running host's start."""


Severity = Literal["error", "warning", "note"]
GIB: Final = 1 << 30
DISK_ERROR_BYTES: Final = 64 << 20
"""Free space below which a host accepts no new work."""
DISK_WARNING_BYTES: Final = GIB
DISK_WARNING_SHARE: Final = 0.05
FUTURE_MS: Final = 60_000
"""Tolerated distance of a record ahead of the clock; clocks of machines differ."""
DRIFT_S: Final = 30.0
"""A jump of the clock that is reported."""
SPARE_FILES: Final = 256
"""Files that a host needs besides its connections."""
_OTHERS: Final = 0o077


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One finding. The text `doctor.<check>` names the problem, `.why` its effect, `.fix` the remedy."""

    check: str
    severity: Severity
    fields: dict[str, object]


def examine(facts: Facts) -> list[Finding]:
    """All findings, errors first."""
    found = [finding for check in CHECKS for finding in check(facts)]
    order: tuple[Severity, ...] = ("error", "warning", "note")
    return sorted(found, key=lambda finding: order.index(finding.severity))


def _error(check: str, **fields: object) -> Finding:
    return Finding(check=check, severity="error", fields=fields)


def _warning(check: str, **fields: object) -> Finding:
    return Finding(check=check, severity="warning", fields=fields)


def _note(check: str, **fields: object) -> Finding:
    return Finding(check=check, severity="note", fields=fields)


def settings(facts: Facts) -> Iterator[Finding]:
    read = facts.settings
    if read.problem is None:
        return
    if read.field == "host":
        yield _error("public_bind", host=read.host)
    else:
        yield _error("settings", problem=read.problem)


def data(facts: Facts) -> Iterator[Finding]:
    folder, path = facts.data, facts.data.path
    if folder.there and not folder.is_folder:
        yield _error("data_no_folder", path=path)
        return
    if folder.there and folder.owner != folder.me:
        yield _error("data_owner", path=path, owner=folder.owner, me=folder.me)
    if not folder.writable:
        yield _error("data_unwritable", path=path)
    elif not folder.there:
        yield _note("data_absent", path=path)
    elif folder.mode & _OTHERS:
        yield _warning("data_open", path=path, mode=f"{folder.mode:03o}")
    for name in folder.exposed:
        yield _error("key_readable", file=name)


def disk(facts: Facts) -> Iterator[Finding]:
    folder, free = facts.data, size_text(facts.data.free_bytes)
    if folder.free_bytes < DISK_ERROR_BYTES:
        yield _error("disk_full", path=folder.path, free=free)
    elif folder.free_bytes < min(DISK_WARNING_BYTES, folder.total_bytes * DISK_WARNING_SHARE):
        yield _warning("disk_low", path=folder.path, free=free)


def port(facts: Facts) -> Iterator[Finding]:
    listener, holder, path = facts.port, facts.data.holder, facts.data.path
    by = "?" if listener.by is None else f"{listener.by} ({listener.pid})"
    fields: dict[str, object] = {"port": facts.settings.port, "by": by}
    ours = listener.is_host and holder is not None and listener.pid in (None, holder)
    if listener.refused is not None:
        yield _error("port_refused", host=facts.settings.host, problem=listener.refused, **fields)
    if listener.taken and not listener.is_host:
        yield _error("port_taken", **fields)
    elif listener.is_host and not ours:
        yield _error("port_other_host", **fields, path=path)
    if holder is not None and not ours:
        yield _error("data_busy", path=path, pid=holder, **fields)


def host(facts: Facts) -> Iterator[Finding]:
    running = facts.host
    if running is None:
        if not facts.port.taken and facts.data.holder is None:
            yield _note("not_running", port=facts.settings.port)
        return
    for reason in () if running.ready else running.reasons:
        yield _error("not_ready", address=running.address, problem=reason)
    for plugin in running.plugins:
        if plugin.problem is not None:
            # A plugin whose workers never started has no id, and commands cannot name it.
            check = "plugin_quarantined" if "/" in plugin.name else "plugin_unstarted"
            yield _error(check, plugin=plugin.name, problem=plugin.problem)
    if running.agents is None:
        yield _note("no_token", address=running.address)
    lacks_default = any(agent.reason == "default_missing" for agent in running.agents or ())
    if running.only_demo and not lacks_default:
        yield _note("only_demo", address=running.address)
    for agent in running.agents or ():
        if agent.reason == "missing_models":
            yield _error("no_model", agent=agent.agent_id, models=agent.details["id"])
        else:
            yield _warning("agent_lacks", agent=agent.agent_id, warning=agent)


def store(facts: Facts) -> Iterator[Finding]:
    database = facts.store
    if database.problem is not None:
        yield _error("store_unreachable", store=database.name, problem=database.problem)
        return
    if database.revision is not None and database.revision != database.known[-1]:
        is_older = database.revision in database.known
        found = _note if is_older else _error
        yield found(
            "schema_older" if is_older else "schema_newer", current=database.revision, needed=database.known[-1]
        )
    if database.fault is not None:
        yield _error("chain_broken", problem=database.fault)
    if database.shares_role:
        yield _note("knowledge_role")


def clock(facts: Facts) -> Iterator[Finding]:
    newest = facts.store.newest_ms
    if newest is not None and newest > facts.now_ms + FUTURE_MS:
        yield _error("record_future", seconds=f"{(newest - facts.now_ms) / 1000:.0f}")
    if facts.drift_s is not None and abs(facts.drift_s) > DRIFT_S:
        yield _warning("clock_jump", seconds=f"{facts.drift_s:+.0f}")


def files(facts: Facts) -> Iterator[Finding]:
    wanted = facts.settings.connections + SPARE_FILES
    if facts.files < wanted:
        yield _warning("files_low", limit=facts.files, wanted=wanted)


def sandbox(facts: Facts) -> Iterator[Finding]:
    tried = facts.sandbox
    fields: dict[str, object] = {
        "landlock": tried.landlock,
        "namespaces": tried.user_namespaces,
        "bubblewrap": tried.bubblewrap,
    }
    if tried.level is None:
        yield _note("sandbox_missing", **fields, problem=tried.problem, advice=tried.hint, missing=tried.missing)
    else:
        yield _note("sandbox", **fields, level=tried.level)


def worker_limits(facts: Facts) -> Iterator[Finding]:
    bounds = facts.workers.workspace
    if bounds is None or not facts.workers.controllers:
        return
    limits = {"memory": bounds.memory_mib, "processors": bounds.processors, "processes": bounds.processes}
    yield _note("worker_limits", **{name: "∞" if bound is None else f"{bound:g}" for name, bound in limits.items()})


def workers(facts: Facts) -> Iterator[Finding]:
    tried = facts.workers
    if tried.demand == "none":
        yield _warning("workers_unconfined")
        return
    if tried.level == "full":
        yield _note("workers", landlock=tried.landlock, controllers=", ".join(tried.controllers))
        return
    fields = {"level": tried.level, "problem": tried.problem, "advice": tried.hint, "missing": tried.missing}
    if tried.demand == "strict":
        yield _error("workers_refused", **fields)
    else:
        yield _warning("workers_bare" if tried.level == "none" else f"workers_{tried.level}", **fields)


CHECKS: Final = (settings, port, data, disk, store, clock, host, files, sandbox, workers, worker_limits)
"""Every check, the most urgent first."""
