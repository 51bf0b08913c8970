"""The host's settings: one frozen value, read once from the environment (`BOLLARD_*`), then `bollard.toml`."""

import operator
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import msgspec

from bollard.confine.order import DEMANDS, Demand
from bollard.host.errors import SettingsError
from bollard.host.exposure import check_exposure, is_loopback
from bollard.host.limits import (
    CONNECTIONS,
    CONNECTIONS_PER_ADDRESS,
    EVENT_BYTES,
    REQUESTS_AT_ONCE,
    REQUESTS_PER_MINUTE,
    RUN_OUTPUT_MIB,
    RUN_OUTPUT_MIB_MAX,
    RUNS_AT_ONCE,
)

_PREFIX: Final = "BOLLARD_"
_COLLECTOR: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
"""Where everything else that speaks OpenTelemetry finds its collector."""
_LOG_LEVELS: Final = ("debug", "info", "warning", "error")
_GRACE_MAX_S: Final = 3600.0
_DAYS_MAX: Final = 36_500
_COST_MAX: Final = 1_000_000.0
_SWITCH: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
_NUMBERS: Final = {
    "port": (0, 65535),
    "workers": (1, 64),
    "runs_at_once": (1, 10_000),
    "run_output_mib": (1, RUN_OUTPUT_MIB_MAX),
    "calls_per_day": (0, 1_000_000_000),
    "tokens_per_day": (0, 1_000_000_000_000),
    "connections": (1, 1_000_000),
    "connections_per_address": (1, 1_000_000),
    "requests_per_minute": (1, 1_000_000_000),
    "requests_at_once": (1, 1_000_000),
    "event_bytes": (1024, 1 << 30),
}
"""The whole numbers among the settings, and from where to where they may go."""
_LISTS: Final = frozenset({"egress_allow", "origins", "allowed_hosts", "trusted_proxies", "artifact_mime_types"})
"""Names, separated by `,` in the environment."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting with its default: SQLite in `./data`, loopback only."""

    data: Path = Path("data")
    """The directory that holds everything that must survive: the database, the blobs and the keys. It is made at the
    first start, readable by its owner only, and used by one process at a time (`lock`)."""
    database: str = ""
    """Empty is SQLite in the data directory. A URL such as `postgresql://user@host/name` chooses PostgreSQL and needs
    `bollard[postgres]`. The keys stay in the data directory."""
    host: str = "127.0.0.1"
    """The address to listen at. Beyond loopback it needs `tls_cert` and `tls_key`, or `origins` with the `https://…` of
    a proxy that speaks TLS in front."""
    port: int = 8420
    """`0` is any free port; the first line that `bollard up` prints says which."""
    tls_cert: str = ""
    """A file with the certificate of this host and those that vouch for it, in PEM. With it only TLS is spoken."""
    tls_key: str = ""
    """A file with the private key of `tls_cert`, in PEM and without a password."""
    origins: tuple[str, ...] = ()
    """Where browsers may ask from, beside the host's own address, such as `https://bollard.example.org`. Separated by
    `,` in the environment."""
    allowed_hosts: tuple[str, ...] = ()
    """Names that a request may be meant for (its `Host` header), beside the names of loopback, of `host` and of
    `origins`. Separated by `,` in the environment."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed. Separated by `,` in the
    environment."""
    egress_allow: tuple[str, ...] = ()
    """Places inside that tools, channels and saved models may reach although they are not globally routable: a name or
    an address, with a port or without (`127.0.0.1:9000`, `chat.internal`), or a network (`10.1.0.0/16`). Separated by
    `,` in the environment."""
    connections: int = CONNECTIONS
    """Connections that may be open at once; the open files of the process are a limit too. When all are in use, the one
    that has been idle longest makes room."""
    connections_per_address: int = CONNECTIONS_PER_ADDRESS
    """Connections of one address. This machine and `trusted_proxies` have no limit of their own."""
    requests_per_minute: int = REQUESTS_PER_MINUTE
    """Requests of one key, session or token in a minute; a sixth of them may come at once."""
    requests_at_once: int = REQUESTS_AT_ONCE
    """Requests of one key, session or token that may be unanswered at once, open streams among them."""
    plugins: tuple[Path, ...] = ()
    """Plugin folders and files beside the built-in ones. The option is given once for each; in the environment they are
    separated by `:`."""
    builtin_plugins: bool = True
    """Whether the plugins that come with the host are started."""
    workers: int = 1
    """Worker processes of each plugin, at most 64."""
    runs_at_once: int = RUNS_AT_ONCE
    """Runs that are executed at the same time, at most 10 000; more wait, in order."""
    run_output_mib: int = RUN_OUTPUT_MIB
    """MiB that one run may record, at most 65 536: its results, and what the host writes beside them. A run with more
    is stopped and fails with `runner.output_too_large`. An agent may lower it for its own runs (`policy.budget`)."""
    calls_per_day: int = 0
    """Calls of tools and other capabilities that the runs of one workspace may make on one day, by UTC; 0 is as many as
    they like. Agents have budgets of their own beside it."""
    tokens_per_day: int = 0
    """Tokens of models that the runs of one workspace may use on one day, by UTC; 0 is as many as they like."""
    cost_per_day: float = 0.0
    """What models and other capabilities may cost the runs of one workspace on one day, by the prices that they were
    saved with; 0 is no limit."""
    default_model: str = ""
    """The model that `default` stands for, by its id. Where it is empty, or a workspace has no such model, that is the
    one that the environment names (`OPENAI_BASE_URL`, `ANTHROPIC_API_KEY`), and else the built-in `demo`."""
    sandbox: Demand = "any"
    """How programs of runs (the tool `exec`) must be confined: `bubblewrap`, `landlock+seccomp`, `any` of the two, or
    `off`, which runs none. What is demanded and cannot be had is refused, never replaced by less."""
    journal: str = "process"
    """Where the log is written: in a `process` of its own, or in a `thread` of the host, which takes fewer runs at once
    and needs a third less memory."""
    log_level: str = "info"
    """What is logged: from `debug`, `info`, `warning` or `error` on. Into a pipe or a file each line is JSON."""
    access_log: bool = False
    """Whether each request leaves a line in the log: operation, status, time, and who asked."""
    metrics_open: bool = False
    """Whether `/metrics` answers without a token to whoever connects from this machine. Everybody else needs the right
    `metrics.read`."""
    otel_endpoint: str = ""
    """The base URL of an OpenTelemetry collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`. Where it
    is empty, `OTEL_EXPORTER_OTLP_ENDPOINT` is read; where that is empty too, no span is made."""
    otel_ratio: float = 1.0
    """The share of traces that are recorded, from 0 to 1. A trace that a caller began follows the caller's decision."""
    grace_s: float = 5.0
    """Seconds that runs have to end by themselves when the host is stopped. Runs that are still active then are
    cancelled with the reason `host.lost` and end as `failed`, within about eight seconds more; the event of an agent
    that is `repeatable` gets another run at the next start. A host that has not ended after twice the grace and 30
    seconds more is ended by force (`SIGALRM`), and the next start recovers."""
    event_bytes: int = EVENT_BYTES
    """Bytes of the largest event, or batch of events, that is taken. More than small data becomes an artifact."""
    artifact_days: float = 365.0
    """Days for which artifacts are kept: what runners and tools make, and what came with events; 0 is for ever. Each
    says when it ends, so a change counts for new ones. Files of workspaces are kept until they are deleted."""
    artifact_mime_types: tuple[str, ...] = ("*/*",)
    """Media types that artifacts may have, such as `image/*` and `text/plain`; `*/*` is all of them, and an empty list
    none. What runners and tools make of another type is refused, and so is an event that would need one. Separated by
    `,` in the environment."""
    retention: tuple[tuple[str, float], ...] = ()
    """Days after which the data of a kind of record is dropped, by kind, such as
    `message.completed=90,event.received=30`; headers and hashes stay, and a kind that is not named is kept. In
    `bollard.toml` it is a table, `[retention]`."""

    witness: str = ""
    """Where signed heads of the log are written a second time: a file on another disk or mount, a pipe that another
    program reads, or the URL of a [witness on another machine](witness.md). Empty is `witness/heads.jsonl` in the data
    directory, which protects only from mistakes."""
    witness_token: str = ""
    """Sent to a witness at a URL as `Authorization: Bearer …`."""
    witness_required: bool = False
    """Whether a start demands the witness: it must be outside of the data directory, readable, and have no head that
    the log lacks. Otherwise the host does not start. A witness that goes down later does not stop the host. Start once
    without this setting when the witness is new, so that it receives the newest heads."""
    broken_log: str = ""
    """Nothing is written behind an end of the log that is not what was written: the host does not start, and says what
    to call it, `chain:position`. With that name here it starts all the same, and an `audit.gap` record says so."""
    archive_days: float = 0.0
    """Days after which parts of the log are also written to compressed files in `archive` of the data directory, each
    with its signed head; 0 is never. It must come before `retention` drops anything."""

    def __post_init__(self) -> None:
        check_exposure(
            host=self.host,
            tls_cert=self.tls_cert,
            tls_key=self.tls_key,
            origins=self.origins,
            allowed_hosts=self.allowed_hosts,
            trusted_proxies=self.trusted_proxies,
        )
        for name, (least, most) in _NUMBERS.items():
            if not least <= getattr(self, name) <= most:
                raise SettingsError(
                    f"{name} is {getattr(self, name)}", hint=f"use a number from {least} to {most}", field=name
                )
        if self.journal not in ("process", "thread"):
            raise SettingsError(f"journal is {self.journal!r}", hint="use process or thread", field="journal")
        if self.log_level.lower() not in _LOG_LEVELS:
            raise SettingsError(
                f"log_level is {self.log_level!r}", hint=f"use one of {', '.join(_LOG_LEVELS)}", field="log_level"
            )
        if self.otel_endpoint and not self.otel_endpoint.startswith(("http://", "https://")):
            raise SettingsError(
                f"otel_endpoint is {self.otel_endpoint!r}",
                hint="use a URL like http://127.0.0.1:4318",
                field="otel_endpoint",
            )
        if not 0 <= self.otel_ratio <= 1:
            raise SettingsError(f"otel_ratio is {self.otel_ratio}", hint="use a number from 0 to 1", field="otel_ratio")
        self._check_archive()
        self._check_witness()
        if not 0 <= self.artifact_days < _DAYS_MAX:
            raise SettingsError(
                f"artifact_days is {self.artifact_days}", hint=f"use days from 0 to {_DAYS_MAX}", field="artifact_days"
            )
        if self.sandbox not in DEMANDS:
            raise SettingsError(
                f"sandbox is {self.sandbox!r}", hint=f"use one of {', '.join(DEMANDS)}", field="sandbox"
            )
        if not 0 <= self.cost_per_day <= _COST_MAX:
            raise SettingsError(
                f"cost_per_day is {self.cost_per_day}",
                hint=f"use a number from 0 to {_COST_MAX:g}",
                field="cost_per_day",
            )
        if not 0 <= self.grace_s <= _GRACE_MAX_S:
            raise SettingsError(
                f"grace_s is {self.grace_s}", hint=f"use seconds from 0 to {_GRACE_MAX_S:g}", field="grace_s"
            )

    def _check_witness(self) -> None:
        problem, hint = "", ""
        url = urlsplit(self.witness) if self.witness.startswith(("http://", "https://")) else None
        if url is not None and not _is_plain(url):
            problem, hint = "is no URL of a witness", "use a URL like https://witness.example.org/heads"
        elif self.witness_token and url is None:
            problem, hint = "takes no token", "a token is for a witness at a URL"
        elif self.witness_token and url is not None and url.scheme == "http" and not is_loopback(url.hostname or ""):
            problem, hint = "would get its token in plain text", "use https://, or leave witness_token empty"
        elif self.witness_required and url is None and self._is_inside(self.witness):
            problem, hint = (
                "is in the data directory",
                "name a file on another disk, or a URL: witness_required demands it",
            )
        if problem:
            raise SettingsError(f"witness {self.witness!r} {problem}", hint=hint, field="witness")

    def _is_inside(self, path: str) -> bool:
        return not path or Path(path).absolute().is_relative_to(self.data.absolute())

    def _check_archive(self) -> None:
        if not 0 <= self.archive_days < _DAYS_MAX:
            raise SettingsError(
                f"archive_days is {self.archive_days}", hint=f"use days from 0 to {_DAYS_MAX}", field="archive_days"
            )
        early = [f"{kind}={days:g}" for kind, days in self.retention if self.archive_days and days < self.archive_days]
        if early:
            raise SettingsError(
                f"retention would drop {early[0]} before it is archived after {self.archive_days:g} days",
                hint="make archive_days smaller, or keep that kind longer",
                field="archive_days",
            )


def _is_plain(url: SplitResult) -> bool:
    """Whether a URL has a host and a port that can be reached, and no password in it."""
    try:
        return bool(url.hostname) and url.username is None and not url.fragment and url.port != 0
    except ValueError:  # no such port
        return False


def read_settings(environment: Mapping[str, str], directory: Path, overrides: Mapping[str, Any]) -> Settings:
    """Overrides (command line), then the environment, then `bollard.toml` in `directory`, then the defaults."""
    values: dict[str, Any] = {**_from_file(directory / "bollard.toml"), **_from_environment(environment)}
    values |= {key: value for key, value in overrides.items() if value is not None}
    if not values.get("otel_endpoint") and environment.get(_COLLECTOR):
        values["otel_endpoint"] = environment[_COLLECTOR]
    known = set(Settings.__struct_fields__)
    if unknown := sorted(values.keys() - known):
        hint = f"the settings are {', '.join(sorted(known))}"
        raise SettingsError(f"there is no setting {unknown[0]!r}", hint=hint, field=unknown[0])
    return Settings(**{key: _converted(key, value) for key, value in values.items()})


def _from_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path.name} cannot be read: {error}", hint="correct it, or move it away") from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    known = set(Settings.__struct_fields__)
    found = {name[len(_PREFIX) :].lower(): value for name, value in environment.items() if name.startswith(_PREFIX)}
    return {name: value for name, value in found.items() if name in known}


def _converted(name: str, value: Any) -> Any:
    try:
        match name:
            case "data":
                return Path(_written(value))
            case _ if name in _NUMBERS:
                return int(value if isinstance(value, str) else operator.index(_no_switch(value)))
            case _ if name in _LISTS:
                parts = value.split(",") if isinstance(value, str) else value
                return tuple(str(part).strip() for part in parts if str(part).strip())
            case "grace_s" | "otel_ratio" | "archive_days" | "artifact_days" | "cost_per_day":
                return float(_no_switch(value))
            case "builtin_plugins" | "access_log" | "metrics_open" | "witness_required":
                return value if isinstance(value, bool) else _SWITCH[str(value).lower()]
            case "plugins":
                parts = value.split(":") if isinstance(value, str) else value
                return tuple(Path(part) for part in parts if part)
            case "retention":
                return _days_by_kind(value)
            case _:
                return value if value == "" else _written(value)
    except (TypeError, ValueError, KeyError) as error:
        raise SettingsError(f"{name} is {value!r}", hint="see docs/reference/settings.md", field=name) from error


def _written(value: Any) -> str:
    """A word or a path that somebody wrote down: no table, no number, and not nothing, which would stand for here."""
    if not isinstance(value, str | Path) or not str(value):
        raise TypeError("neither a word nor a path")
    return str(value)


def _no_switch(value: Any) -> Any:
    """Python takes `true` for a number."""
    if isinstance(value, bool):
        raise TypeError("no number")
    return value


def _days_by_kind(value: Any) -> tuple[tuple[str, float], ...]:
    """A table of the file, or `kind=days,kind=days` of the environment."""
    if isinstance(value, str):
        pairs = [item.partition("=") for item in value.split(",") if item.strip()]
        value = {kind.strip(): days for kind, _, days in pairs}
    found = tuple((str(kind), float(days)) for kind, days in dict(value).items())
    if any(not 0 < days < _DAYS_MAX for _, days in found):
        raise ValueError(f"days are between 0 and {_DAYS_MAX}")
    return found
