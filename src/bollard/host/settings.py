"""The host's settings: one frozen value, read once from options, the environment (`BOLLARD_*`) and `bollard.toml`."""

import operator
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from bollard.confine.limits import SHARED_BYTES, SHARED_PROCESSES, SHARED_PROCESSORS
from bollard.confine.order import DEMANDS, WORKER_DEMANDS, Demand, WorkerDemand
from bollard.host.errors import SettingsError, caused_by
from bollard.host.exposure import check_exposure, is_loopback
from bollard.host.limits import (
    CONNECTIONS,
    CONNECTIONS_PER_ADDRESS,
    EVENT_BYTES,
    MIB,
    REQUESTS_AT_ONCE,
    REQUESTS_PER_MINUTE,
    RUN_OUTPUT_MIB,
    RUN_OUTPUT_MIB_MAX,
    RUNS_AT_ONCE,
)

_PREFIX: Final = "BOLLARD_"
_COLLECTOR: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""The standard OpenTelemetry variable for the collector's address."""
_LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_GRACE_MAX_S: Final = 3600.0
_DAYS_MAX: Final = 36_500
_SWITCH: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_RANGES: Final = {
    "port": (0, 65535),
    "workers": (1, 64),
    "runs_at_once": (1, 10_000),
    "run_output_mib": (1, RUN_OUTPUT_MIB_MAX),
    "workspace_memory_mib": (0, 1 << 24),
    "workspace_cpu": (0, 1024),
    "workspace_processes": (0, 1 << 22),
    "calls_per_day": (0, 1_000_000_000),
    "tokens_per_day": (0, 1_000_000_000_000),
    "connections": (1, 1_000_000),
    "connections_per_address": (1, 1_000_000),
    "requests_per_minute": (1, 1_000_000_000),
    "requests_at_once": (1, 1_000_000),
    "event_bytes": (1024, 1 << 30),
    "otel_ratio": (0, 1),
    "cost_per_day": (0, 1_000_000),
}
"""Least and most of a setting."""
_HIDDEN: Final = frozenset({"database", "knowledge_database", "proxy", "proxy_login", "witness_token"})
"""Settings that may hold a password: errors do not repeat their value."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting with its default: SQLite in `./data`, loopback only."""

    data: Path = Path("data")
    """The directory for all durable data: the database, the blobs and the keys. The first start creates it, readable by
    its owner only. One process uses it at a time (`lock`)."""
    database: str = ""
    """Empty selects SQLite in the data directory. A URL such as `postgresql://user@host/name` selects PostgreSQL, which
    needs `bollard[postgres]`. The keys stay in the data directory."""
    knowledge_database: str = ""
    """With PostgreSQL: the URL by which the knowledge process reaches its tables, with a
    [role of its own](../guides/operate.md#a-role-for-knowledge-bases). It does not start if that role can use a table
    of others. Empty selects `database`, with all its rights."""
    host: str = "127.0.0.1"
    """The address to listen on. An address other than loopback needs `tls_cert` and `tls_key`, or `origins` with the
    `https://…` address of a TLS proxy."""
    port: int = 8420
    """`0` selects a free port; the first line that `bollard up` prints names it."""
    tls_cert: str = ""
    """A PEM file with the host's certificate and its chain. With it the host accepts only TLS."""
    tls_key: str = ""
    """A PEM file with the private key of `tls_cert`, without a password."""
    origins: tuple[str, ...] = ()
    """Origins from which browsers may send requests, in addition to the host's own address, such as
    `https://bollard.example.org`. Separated by `,` in the environment."""
    allowed_hosts: tuple[str, ...] = ()
    """Names accepted in the `Host` header, in addition to those of loopback, `host` and `origins`. Separated by `,` in
    the environment."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks whose `X-Forwarded-For` and `X-Forwarded-Proto` headers are trusted. Separated by `,` in
    the environment."""
    egress_allow: tuple[str, ...] = ()
    """Private destinations that tools, channels and saved models may reach: a name or an address, with or without a
    port (`127.0.0.1:9000`, `chat.internal`), or a network (`10.1.0.0/16`). Separated by `,` in the environment."""
    proxy: str = ""
    """The [proxy](proxies.md) for requests that leave the host: `http://HOST:PORT` for HTTP CONNECT, or
    `socks5://HOST:PORT`. It may be inside your network. Models and channels may have their own."""
    proxy_login: str = ""
    """`user:password` for `proxy`."""
    no_proxy: tuple[str, ...] = ()
    """Destinations that are reached without `proxy`, in addition to loopback: a name, a domain with all names below it
    (`.example.org`), an address or a network. Separated by `,` in the environment."""
    proxy_resolves: bool = False
    """Whether proxies resolve the names of destinations. The host cannot check their addresses then, so the proxies
    must refuse private destinations."""
    connections: int = CONNECTIONS
    """Connections that may be open at once; the process limit on open files applies too. At the limit, the connection
    that has been idle longest is closed."""
    connections_per_address: int = CONNECTIONS_PER_ADDRESS
    """Connections per client address. This machine and `trusted_proxies` are exempt."""
    requests_per_minute: int = REQUESTS_PER_MINUTE
    """Requests per minute of one key, session or token; the burst is a sixth of it."""
    requests_at_once: int = REQUESTS_AT_ONCE
    """Concurrent requests of one key, session or token, including open streams."""
    plugins: tuple[Path, ...] = ()
    """Plugin folders and files in addition to the built-in plugins. Repeat the option for each; in the environment they
    are separated by `:`."""
    console_files: str = ""
    """The folder with the built files of the console. Empty is the folder in the package."""
    builtin_plugins: bool = True
    """Whether the host starts its built-in plugins."""
    catalogue_url: str = ""
    """The index file of a [catalogue](../guides/catalogue.md) of plugins, MCP servers and skills, in addition to the
    bundled one. Private addresses need `egress_allow`."""
    catalogue_key: str = ""
    """The public key that signs the index at `catalogue_url`: 64 hexadecimal digits."""
    workers: int = 1
    """Worker processes per plugin, at most 64."""
    runs_at_once: int = RUNS_AT_ONCE
    """Concurrent runs, at most 10 000; further runs wait in order."""
    run_output_mib: int = RUN_OUTPUT_MIB
    """MiB that one run may record, at most 65 536: its results and the host's own records of it. A run that exceeds it
    fails with `runner.output_too_large`. An agent may lower it for its own runs (`policy.budget`)."""
    calls_per_day: int = 0
    """Calls of tools and other capabilities that the runs of one workspace may make per UTC day; 0 is no limit. Agents
    have their own budgets in addition."""
    tokens_per_day: int = 0
    """Model tokens that the runs of one workspace may use per UTC day; 0 is no limit."""
    cost_per_day: float = 0.0
    """Cost of models and other capabilities for the runs of one workspace per UTC day, by their saved prices; 0 is no
    limit."""
    default_model: str = ""
    """The id of the model that `default` refers to. If it is empty, or the workspace has no such model, `default` is
    the default model of the workspace, otherwise the model from the environment (`OPENAI_BASE_URL`,
    `ANTHROPIC_API_KEY`), otherwise the built-in `demo`. The built-in model answers only while no workspace of the host
    has a real model, or if this setting is `demo`; otherwise calls of `default` fail and name the command that adds a
    model to the workspace."""
    sandbox: Demand = "any"
    """How programs of runs (the tool `exec`) must be confined: `bubblewrap`, `landlock+seccomp`, `any` of the two, or
    `off`, which runs none. If the required level is unavailable, `exec` is refused; it never falls back."""
    worker_sandbox: WorkerDemand = "best"
    """How workers of plugins and MCP servers must be confined: `strict` (the full level, or the host does not start),
    `best` (the strongest level of this machine), or `none`. `bollard doctor` shows the level."""
    workspace_memory_mib: int = SHARED_BYTES // MIB
    """Memory in MiB of all workers and MCP servers of one workspace together; 0 is no limit. It needs a control group
    for memory, as the limits of each worker do (`spec.sandbox`)."""
    workspace_cpu: float = SHARED_PROCESSORS
    """Processors of all workers and MCP servers of one workspace together; 0 is no limit."""
    workspace_processes: int = SHARED_PROCESSES
    """Processes and threads of all workers and MCP servers of one workspace together; 0 is no limit."""
    sandbox_roots: tuple[Path, ...] = ()
    """Folders below which plugins and MCP servers may ask for files (`sandbox`); none by default. Each plugin needs
    consent in addition. The data directory, `bollard.toml`, the TLS key and credentials such as `~/.ssh` stay closed.
    In the environment the folders are separated by `:`."""
    journal: str = "process"
    """Where the log is written: in a separate `process`, or in a `thread` of the host, which handles fewer concurrent
    runs and needs a third less memory."""
    log_level: str = "info"
    """The lowest level that is logged: `debug`, `info`, `warning` or `error`. Into a pipe or a file each line is
    JSON."""
    log_dir: str = ""
    """A folder for the log in files, in addition to the console; empty writes none. Each UTC day has a file of JSON
    lines, `bollard-2026-03-01.log`. A file has at most 64 MiB, then a further part of the day follows. The newest 14
    files are kept. The first start creates the folder; each host needs its own."""
    access_log: bool = False
    """Whether the host logs each request: operation, status, time and caller."""
    metrics_open: bool = False
    """Whether `/metrics` is served without a token to clients on this machine. Other clients need the right
    `metrics.read`."""
    otel_endpoint: str = ""
    """The base URL of an OpenTelemetry collector that accepts OTLP over HTTP, such as `http://127.0.0.1:4318`. If
    empty, `OTEL_EXPORTER_OTLP_ENDPOINT` is read; if that is empty too, no spans are recorded."""
    otel_ratio: float = 1.0
    """The share of traces that are recorded, from 0 to 1. A trace that a caller started follows the caller's
    decision."""
    grace_s: float = 5.0
    """Seconds that runs have to end when the host is stopped. Runs that are still active then are cancelled with the
    reason `host.lost` and end as `failed`, within about eight seconds more; if the agent is `repeatable`, the event
    gets another run at the next start. A host that has not ended after twice the grace plus 30 seconds is killed
    (`SIGALRM`), and the next start recovers."""
    event_bytes: int = EVENT_BYTES
    """Bytes of the largest accepted event or batch of events. Larger data of an event becomes an artifact."""
    artifact_days: float = 365.0
    """Days for which artifacts of runners, tools and events are kept; 0 is for ever. Each artifact has its own expiry,
    so a change affects new artifacts only. Files of workspaces are kept until they are deleted."""
    artifact_mime_types: tuple[str, ...] = ("*/*",)
    """Media types that artifacts may have, such as `image/*` and `text/plain`; `*/*` allows all, an empty list none.
    Artifacts of another type are refused, and so are events that would need one. Separated by `,` in the
    environment."""
    retention: tuple[tuple[str, float], ...] = ()
    """Days after which the data of records is dropped, by record type, such as
    `message.completed=90,event.received=30`. Headers and hashes stay. Types that are not listed are kept. In
    `bollard.toml` it is a table, `[retention]`."""

    witness: str = ""
    """Where the host writes a second copy of signed heads: a file on another disk or mount, a pipe that another program
    reads, or the URL of a [witness on another machine](witness.md). Empty is `witness/heads.jsonl` in the data
    directory, which protects only against mistakes."""
    witness_token: str = ""
    """Sent to a witness at a URL as `Authorization: Bearer …`."""
    witness_required: bool = False
    """Whether the start requires the witness: it must be outside of the data directory, readable, and hold no head that
    the log lacks. Otherwise the host does not start. A witness that fails later does not stop the host. Start once
    without this setting when the witness is new, so that it receives the newest heads."""
    broken_log: str = ""
    """Accepts a damaged end of the log. A host with one does not start, and its error names the place as
    `chain:position`. With that name here the host starts, and an `audit.gap` record documents it."""
    archive_days: float = 0.0
    """Days after which parts of the log are also written to compressed files in `archive` of the data directory, each
    with its signed head; 0 is never. It must be shorter than every `retention`."""

    def __post_init__(self) -> None:
        check_exposure(
            host=self.host,
            tls_cert=self.tls_cert,
            tls_key=self.tls_key,
            origins=self.origins,
            allowed_hosts=self.allowed_hosts,
            trusted_proxies=self.trusted_proxies,
        )
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise SettingsError(
                    f"{name} is {value}",
                    reason="out_of_range",
                    hint=f"use a number from {least} to {most}",
                    field=name,
                    value=value,
                    least=least,
                    most=str(most),
                )
        for name in ("archive_days", "artifact_days"):
            value = getattr(self, name)
            if not 0 <= value < _DAYS_MAX:
                hint = f"use days from 0 to {_DAYS_MAX}"
                raise SettingsError(
                    f"{name} is {value}", reason="days_out_of_range", hint=hint, field=name, value=value, most=_DAYS_MAX
                )
        for name, choices in (
            ("journal", ("process", "thread")),
            ("log_level", _LOG_LEVELS),
            ("sandbox", DEMANDS),
            ("worker_sandbox", WORKER_DEMANDS),
        ):
            value = getattr(self, name)
            if (value.lower() if name == "log_level" else value) not in choices:
                names = ", ".join(choices)
                hint = f"use one of {names}"
                raise SettingsError(
                    f"{name} is {value!r}", reason="not_a_choice", hint=hint, field=name, value=value, choices=names
                )
        if self.otel_endpoint and not self.otel_endpoint.startswith(("http://", "https://")):
            raise SettingsError(
                f"otel_endpoint is {self.otel_endpoint!r}",
                reason="otel_endpoint_not_url",
                hint="use a URL like http://127.0.0.1:4318",
                field="otel_endpoint",
                value=self.otel_endpoint,
            )
        if self.knowledge_database and not self.database:
            raise SettingsError(
                "knowledge_database is set, but database is not",
                reason="knowledge_database_alone",
                hint="set database too; on SQLite the knowledge process has its own file",
                field="knowledge_database",
            )
        self._check_archive()
        self._check_witness()
        self._check_roots()
        if not 0 <= self.grace_s <= _GRACE_MAX_S:
            raise SettingsError(
                f"grace_s is {self.grace_s}",
                reason="seconds_out_of_range",
                hint=f"use seconds from 0 to {_GRACE_MAX_S:g}",
                field="grace_s",
                value=self.grace_s,
                most=f"{_GRACE_MAX_S:g}",
            )

    def _check_roots(self) -> None:
        for root in self.sandbox_roots:
            absolute, data = root.absolute(), self.data.absolute()
            if not root.is_absolute() or absolute.is_relative_to(data) or data.is_relative_to(absolute):
                raise SettingsError(
                    f"sandbox_roots has {root}, which is not an absolute path apart from the data directory",
                    reason="sandbox_root_invalid",
                    hint="use folders like /srv/photos that neither contain the data directory nor are in it",
                    field="sandbox_roots",
                    value=str(root),
                )

    def _check_witness(self) -> None:
        reason, problem, hint = "", "", ""
        url = urlsplit(self.witness) if self.witness.startswith(("http://", "https://")) else None
        if url is not None and not _is_plain(url):
            reason, problem = "witness_not_url", "is not a valid URL"
            hint = "use a URL like https://witness.example.org/heads"
        elif self.witness_token and url is None:
            reason, problem = "witness_takes_no_token", "is not a URL, so it takes no token"
            hint = "set witness_token only for a witness at a URL"
        elif self.witness_token and url is not None and url.scheme == "http" and not is_loopback(url.hostname or ""):
            reason, problem = "witness_token_in_plain_text", "would receive its token in plain text"
            hint = "use https://, or leave witness_token empty"
        elif self.witness_required and url is None and self._is_inside(self.witness):
            reason, problem = "witness_inside_data", "is in the data directory"
            hint = "witness_required needs a file on another disk, or a URL"
        if reason:
            shown = repr(self.witness) if url is None or url.username is None else "<hidden>"
            raise SettingsError(f"witness {shown} {problem}", reason=reason, hint=hint, field="witness", value=shown)

    def _is_inside(self, path: str) -> bool:
        return not path or Path(path).absolute().is_relative_to(self.data.absolute())

    def _check_archive(self) -> None:
        early = [f"{kind}={days:g}" for kind, days in self.retention if self.archive_days and days < self.archive_days]
        if early:
            raise SettingsError(
                f"retention would drop {early[0]} before it is archived after {self.archive_days:g} days",
                reason="retention_before_archive",
                hint="lower archive_days, or raise the retention of that record type",
                field="archive_days",
                kind=early[0],
                days=f"{self.archive_days:g}",
            )


def _is_plain(url: SplitResult) -> bool:
    """Whether a URL has a host, a usable port, and no password."""
    try:
        return bool(url.hostname) and url.username is None and not url.fragment and url.port != 0
    except ValueError:  # no such port
        return False


def read_settings(environment: Mapping[str, str], directory: Path, overrides: Mapping[str, Any]) -> Settings:
    """Read each setting from `overrides` (command line), then the environment, then `bollard.toml` in `directory`, then
    its default. Raises `SettingsError`."""
    values: dict[str, Any] = {**_from_file(directory / "bollard.toml"), **_from_environment(environment)}
    values |= {key: value for key, value in overrides.items() if value is not None}
    if not values.get("otel_endpoint") and environment.get(_COLLECTOR):
        values["otel_endpoint"] = environment[_COLLECTOR]
    known = set(Settings.__struct_fields__)
    if unknown := sorted(values.keys() - known):
        names = ", ".join(sorted(known))
        raise SettingsError(
            f"there is no setting {unknown[0]!r}",
            reason="unknown_setting",
            hint=f"the settings are {names}",
            field=unknown[0],
            names=names,
        )
    return Settings(**{key: _convert(key, value) for key, value in values.items()})


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{path.name} cannot be read: {error}",
            reason="file_unreadable",
            hint="correct it, or move it away",
            file=path.name,
            **caused_by(error),
        ) from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    known = set(Settings.__struct_fields__)
    ours = {name[len(_PREFIX) :].lower(): value for name, value in environment.items() if name.startswith(_PREFIX)}
    return {name: value for name, value in ours.items() if name in known}


def _convert(name: str, value: Any) -> Any:
    kind = Settings.__annotations__[name]
    try:
        if kind is int:
            return int(value if isinstance(value, str) else operator.index(_reject_bool(value)))
        if kind is float:
            return float(_reject_bool(value))
        if kind is bool:
            return value if isinstance(value, bool) else _SWITCH[str(value).lower()]
        if kind == tuple[str, ...]:
            parts = value.split(",") if isinstance(value, str) else value
            return tuple(str(part).strip() for part in parts if str(part).strip())
        if kind == tuple[Path, ...]:
            parts = value.split(":") if isinstance(value, str) else value
            return tuple(Path(part) for part in parts if part)
        if kind == tuple[tuple[str, float], ...]:
            return _days_by_kind(value)
        if kind is Path:
            return Path(_require_text(value))
        return value if value == "" else _require_text(value)
    except (TypeError, ValueError, KeyError) as error:
        shown = "<hidden>" if name in _HIDDEN else repr(value)
        hint = "see docs/reference/settings.md"
        raise SettingsError(f"{name} is {shown}", reason="invalid_value", hint=hint, field=name, value=shown) from error


def _require_text(value: Any) -> str:
    """A nonempty string or path. An empty path would mean the current directory."""
    if not isinstance(value, str | Path) or not str(value):
        raise TypeError("neither a string nor a path")
    return str(value)


def _reject_bool(value: Any) -> Any:
    """Python accepts `true` as a number; settings do not."""
    if isinstance(value, bool):
        raise TypeError("not a number")
    return value


def _days_by_kind(value: Any) -> tuple[tuple[str, float], ...]:
    """Parse a table of the file, or `kind=days,kind=days` of the environment."""
    if isinstance(value, str):
        pairs = [item.partition("=") for item in value.split(",") if item.strip()]
        value = {kind.strip(): days for kind, _, days in pairs}
    retention = tuple((str(kind), float(days)) for kind, days in dict(value).items())
    if any(not 0 < days < _DAYS_MAX for _, days in retention):
        raise ValueError(f"days are between 0 and {_DAYS_MAX}")
    return retention
