"""The JSON shapes of plugins in requests and answers."""

from typing import Final

from pydantic import Field

from bollard.host.http.openapi.schemas import ANY, NUMBER, TEXT, array_of, choice, fields, maybe
from bollard.host.http.resources.declaration import answer_body
from bollard.host.plugins.installation import Installed
from bollard.host.plugins.placement import PoolPlacement
from bollard.protocol import Flag, Int, JsonObject, JsonValue, Strict


class InstallPackage(Strict):
    """A Python package in the host's environment that contains a plugin."""

    package: str = Field(min_length=1, max_length=256)
    consent: str | None = Field(default=None, max_length=64)
    workers: Int = Field(default=1, ge=1, le=64)


class ChangePlugin(Strict):
    """The settings of an installed plugin."""

    enabled: Flag | None = None
    workers: Int | None = Field(default=None, ge=1, le=64)
    revision: Int | None = Field(default=None, ge=0)


class RollbackPlugin(Strict):
    """The earlier version, by the beginning of its digest; by default the previous one."""

    digest: str | None = Field(default=None, pattern=r"^[0-9a-f]{6,64}$")


ASKS: Final = fields({"command": array_of(TEXT)}, runners=ANY, env=array_of(TEXT), tools=ANY)
_VERSION: Final = fields(digest=TEXT, version=TEXT, asks=ASKS, consented_by=TEXT, consented_ms=NUMBER)
_WORKER: Final = fields(pid=maybe(NUMBER), runs=NUMBER, status=choice("ready", "silent", "draining"))
LISTED: Final = answer_body(
    "ListedPlugin",
    {
        "plugin_id": "acme/parrot",
        "version": "1.2.0",
        "origin": "installed",
        "enabled": True,
        "status": "ready",
        "problem": None,
        "digest": "9f2c1e" + "0" * 58,
        "source": "parrot.zip",
        "revision": 1,
    },
    version=maybe(TEXT),
    origin=choice("builtin", "settings", "installed", "dev", "remote"),
    problem=maybe(TEXT),
    digest=maybe(TEXT),
)
PLUGIN: Final = LISTED.extended(
    "Plugin",
    {
        "workers": 1,
        "asks": {"runners": {"default": ["history.page"]}, "env": ["ACME_KEY"], "tools": {"count": "low"}},
        "earlier": [],
        "processes": [{"pid": 4711, "runs": 0, "status": "ready"}],
        "crashes": 0,
        "recent_crashes": 0,
        "problems": [],
        "runners": ["plugin:acme/parrot/default"],
        "leaving_runs": 0,
    },
    asks=maybe(ASKS),
    earlier=array_of(_VERSION),
    processes=array_of(_WORKER),
    problems=array_of(TEXT),
)


def listed(
    plugin_id: str, installed: Installed | None, fitting: PoolPlacement | None, unusable: str | None
) -> JsonObject:
    """A plugin in a list. At least one of the two arguments is present."""
    status, problem = "unusable", unusable
    if fitting is not None:
        status, problem = fitting.pool.status, fitting.pool.problem
    elif installed is not None and not installed.enabled:
        status, problem = "disabled", None
    return {
        "plugin_id": plugin_id,
        "version": fitting.version if fitting is not None else installed.current.version if installed else None,
        "origin": fitting.origin if fitting is not None else "installed",
        "enabled": installed.enabled if installed is not None else True,
        "status": status,
        "problem": problem,
        "digest": _digest(installed, fitting),
        "source": installed.source if installed is not None else _place(fitting),
        "revision": installed.revision if installed is not None else 0,
    }


def _digest(installed: Installed | None, fitting: PoolPlacement | None) -> str | None:
    if fitting is not None and (known := fitting.source.digest or fitting.digest) is not None:
        return known
    return installed.current.digest if installed is not None else None


def _place(fitting: PoolPlacement | None) -> str:
    """The origin of a plugin from the settings: its name only, because clients must not see paths of the machine."""
    return "" if fitting is None else fitting.source.path.name


def shown(
    plugin_id: str,
    installed: Installed | None,
    fitting: PoolPlacement | None,
    leaving: list[PoolPlacement],
    unusable: str | None,
) -> JsonObject:
    """A plugin with all its details."""
    asked = fitting.access if fitting is not None else installed.current.access if installed is not None else None
    processes: list[JsonValue] = []
    if fitting is not None:
        processes = [{"pid": each.pid, "runs": each.runs, "status": each.status} for each in fitting.pool.views]
    return {
        **listed(plugin_id, installed, fitting, unusable),
        "workers": installed.workers if installed is not None else fitting.source.workers if fitting else 0,
        "asks": None if asked is None else asked.to_wire(),
        "earlier": [] if installed is None else [each.to_wire() for each in installed.earlier],
        "processes": processes,
        "crashes": 0 if fitting is None else fitting.pool.crashes,
        "recent_crashes": 0 if fitting is None else fitting.pool.recent_crashes,
        "problems": [] if fitting is None else [*fitting.problems],
        "runners": [] if fitting is None else [*sorted(fitting.offered)],
        "leaving_runs": sum(view.runs for each in leaving for view in each.pool.views),
    }
