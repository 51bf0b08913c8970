"""The host's settings: one frozen value, read once from the environment (`BOLLARD_*`), then `bollard.toml`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from bollard.host.errors import SettingsError
from bollard.host.limits import RUNS_AT_ONCE

__all__ = ["Settings", "read_settings"]

_PREFIX: Final = "BOLLARD_"
_GRACE_MAX_S: Final = 3600.0
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting with its default: SQLite in `./data`, loopback only."""

    data: Path = Path("data")
    """Where everything is kept that must survive."""
    database: str = ""
    """A PostgreSQL URL; empty for SQLite in the data directory."""
    host: str = "127.0.0.1"
    port: int = 8420
    plugins: tuple[Path, ...] = ()
    """Plugin folders and files beside the built-in ones."""
    builtin_plugins: bool = True
    workers: int = 1
    """Worker processes of each plugin."""
    runs_at_once: int = RUNS_AT_ONCE
    journal: str = "process"
    """Where the log is written: in a `process` of its own, or in a `thread` of the host, slower and smaller."""
    log_level: str = "info"
    grace_s: float = 5.0
    """Time that runs have to end when the host stops."""
    retention: tuple[tuple[str, float], ...] = ()
    """Days after which the data of a kind of record is dropped, by kind; a kind that is not named is kept."""

    def __post_init__(self) -> None:
        if self.host not in _LOOPBACK:
            raise SettingsError(
                f"binding to {self.host} would serve the API without TLS to everyone who can reach this machine",
                hint="bind to 127.0.0.1 and put a proxy that speaks TLS in front of it",
                field="host",
            )
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"port is {self.port}", hint="use a number from 0 to 65535", field="port")
        if self.journal not in ("process", "thread"):
            raise SettingsError(f"journal is {self.journal!r}", hint="use process or thread", field="journal")
        if not 1 <= self.workers <= 64:
            raise SettingsError(f"workers is {self.workers}", hint="use a number from 1 to 64", field="workers")
        if not 1 <= self.runs_at_once <= 10_000:
            raise SettingsError(
                f"runs_at_once is {self.runs_at_once}", hint="use a number from 1 to 10000", field="runs_at_once"
            )
        if not 0 <= self.grace_s <= _GRACE_MAX_S:
            raise SettingsError(
                f"grace_s is {self.grace_s}", hint=f"use seconds from 0 to {_GRACE_MAX_S:g}", field="grace_s"
            )


def read_settings(environment: Mapping[str, str], directory: Path, overrides: Mapping[str, Any]) -> Settings:
    """Overrides (command line), then the environment, then `bollard.toml` in `directory`, then the defaults."""
    values: dict[str, Any] = {**_from_file(directory / "bollard.toml"), **_from_environment(environment)}
    values |= {key: value for key, value in overrides.items() if value is not None}
    known = {item.name for item in fields(Settings)}
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
    known = {item.name for item in fields(Settings)}
    found = {name[len(_PREFIX) :].lower(): value for name, value in environment.items() if name.startswith(_PREFIX)}
    return {name: value for name, value in found.items() if name in known}


def _converted(name: str, value: Any) -> Any:
    try:
        match name:
            case "data":
                return Path(value)
            case "port" | "workers" | "runs_at_once":
                return int(value)
            case "grace_s":
                return float(value)
            case "builtin_plugins":
                return value if isinstance(value, bool) else str(value).lower() in ("1", "true", "yes")
            case "plugins":
                parts = value.split(":") if isinstance(value, str) else value
                return tuple(Path(part) for part in parts if part)
            case "retention":
                return _days_by_kind(value)
            case _:
                return str(value)
    except (TypeError, ValueError) as error:
        raise SettingsError(f"{name} is {value!r}", hint="see docs/reference/settings.md", field=name) from error


def _days_by_kind(value: Any) -> tuple[tuple[str, float], ...]:
    """A table of the file, or `kind=days,kind=days` of the environment."""
    if isinstance(value, str):
        pairs = [item.partition("=") for item in value.split(",") if item.strip()]
        value = {kind.strip(): days for kind, _, days in pairs}
    found = tuple((str(kind), float(days)) for kind, days in dict(value).items())
    if any(not 0 < days < 36_500 for _, days in found):
        raise ValueError("days are between 0 and 36500")
    return found
