"""What `bollard doctor` knows about a host, its data and its machine: plain values, found by `doctor_probing`."""

from dataclasses import dataclass

__all__ = [
    "AgentFacts",
    "DataFacts",
    "Facts",
    "HostFacts",
    "PluginFacts",
    "PortFacts",
    "SandboxFacts",
    "SettingsFacts",
    "StoreFacts",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFacts:
    """What was configured; `problem` where it cannot work."""

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
    """Who listens where the host would."""

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
    """What a running host says of itself."""

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
    """How programs of runs are confined on this machine, and what it has for that."""

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
    """Everything that was found out."""

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
