"""The JSON shapes of plugins in requests and answers."""

from typing import Final

from pydantic import Field

from bollard.confine.worker_level import LEVELS
from bollard.host.http.openapi.schemas import ANY, GROUP_BOUNDS, LABEL, NUMBER, TEXT, array_of, choice, fields, maybe
from bollard.host.http.resources.declaration import answer_body
from bollard.host.plugins.code_store import StoredCode
from bollard.host.plugins.description import Description
from bollard.host.plugins.installation import Installed, compare, consent_for
from bollard.host.plugins.placement import PoolPlacement
from bollard.host.reason import Why
from bollard.protocol import Flag, Int, JsonObject, JsonValue, Strict


class InstallPackage(Strict):
    """A Python package in the host's environment that contains a plugin, or an item of the catalogue."""

    package: str | None = Field(default=None, min_length=1, max_length=256)
    catalogue: str | None = Field(default=None, max_length=80, pattern=r"^[a-z]+/[a-z0-9][a-z0-9._-]*$")
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


_SANDBOX: Final = fields(
    {
        "network": {"oneOf": [choice("none", "open"), array_of(TEXT)]},
        "read": array_of(TEXT),
        "write": array_of(TEXT),
        "memory_mib": NUMBER,
        "cpu": {"type": "number"},
    }
)
ASKS: Final = fields({"command": array_of(TEXT), "sandbox": _SANDBOX}, runners=ANY, env=array_of(TEXT), tools=ANY)
_VERSION: Final = fields(digest=TEXT, version=TEXT, asks=ASKS, consented_by=TEXT, consented_ms=NUMBER)
_BOUNDS: Final = fields(
    level=choice(*LEVELS),
    network={"oneOf": [choice("none", "open"), array_of(TEXT)]},
    **GROUP_BOUNDS,
    workspace=fields(**GROUP_BOUNDS),
)
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
        "problem_details": {},
        "digest": "9f2c1e" + "0" * 58,
        "source": "parrot.zip",
        "revision": 1,
    },
    version=maybe(TEXT),
    origin=choice("builtin", "settings", "installed", "dev", "remote"),
    problem=maybe(TEXT),
    problem_details=ANY,
    digest=maybe(TEXT),
)
PLUGIN: Final = LISTED.extended(
    "Plugin",
    {
        "workers": 1,
        "asks": {
            "runners": {"default": ["history.page"]},
            "env": ["ACME_KEY"],
            "tools": {"count": "low"},
            "sandbox": {"network": ["api.example.org"]},
        },
        "earlier": [],
        "processes": [{"pid": 4711, "runs": 0, "status": "ready"}],
        "confinement": {
            "level": "full",
            "network": ["api.example.org"],
            "memory_mib": 1024,
            "cpu": 1.0,
            "processes": 256,
            "workspace": {"memory_mib": 4096, "cpu": 4.0, "processes": 2048},
        },
        "crashes": 0,
        "recent_crashes": 0,
        "problems": [],
        "problems_details": [],
        "runners": ["plugin:acme/parrot/default"],
        "leaving_runs": 0,
    },
    asks=maybe(ASKS),
    earlier=array_of(_VERSION),
    processes=array_of(_WORKER),
    confinement=maybe(_BOUNDS),
    problems=array_of(TEXT),
    problems_details=array_of(ANY),
)

DETAILS: Final = answer_body(
    "PluginDetails",
    {
        "plugin_id": "acme/parrot",
        "version": "1.2.0",
        "label": {"en_US": "Parrot"},
        "description": {"en_US": "Repeats what you say."},
        "asks": {
            "runners": {"default": ["history.page"]},
            "env": ["ACME_KEY"],
            "tools": {"count": "low"},
            "sandbox": {"network": ["api.example.org"]},
        },
        "readme": "# Parrot",
    },
    label=LABEL,
    description=maybe(LABEL),
    asks=ASKS,
    readme=maybe(TEXT),
)
INSPECTED: Final = DETAILS.extended(
    "InspectedPlugin",
    {
        "digest": "9f2c1e" + "0" * 58,
        "consent": "5d1f0a" + "0" * 58,
        "needs_consent": True,
        "change": {"added": ["runner default: history.page"], "removed": []},
        "installed": None,
    },
    change=fields(added=array_of(TEXT), removed=array_of(TEXT)),
    installed=maybe(fields(version=TEXT, digest=TEXT)),
)


def details(described: Description, readme: str | None) -> JsonObject:
    return {
        "plugin_id": described.plugin_id,
        "version": described.version,
        "label": {**described.label},
        "description": None if described.description is None else {**described.description},
        "asks": described.access.to_wire(),
        "readme": readme,
    }


def inspected(code: StoredCode, installed: Installed | None, readme: str | None) -> JsonObject:
    """Uploaded code, and its difference to the installed version."""
    before = None if installed is None else installed.current
    change = compare(None if before is None else before.access, code.described.access)
    return {
        **details(code.described, readme),
        "digest": code.digest,
        "consent": consent_for(code.digest, code.described),
        "needs_consent": before is None or change.widens,
        "change": change.to_wire(),
        "installed": None if before is None else {"version": before.version, "digest": before.digest},
    }


def listed(
    plugin_id: str, installed: Installed | None, fitting: PoolPlacement | None, unusable: Why | None
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
        "problem": None if problem is None else problem.sentence,
        "problem_details": {} if problem is None else {**problem.details},
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
    unusable: Why | None,
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
        "confinement": None if fitting is None or fitting.bounds is None else fitting.bounds.to_wire(),
        "crashes": 0 if fitting is None else fitting.pool.crashes,
        "recent_crashes": 0 if fitting is None else fitting.pool.recent_crashes,
        "problems": [] if fitting is None else [each.sentence for each in fitting.problems],
        "problems_details": [] if fitting is None else [{**each.details} for each in fitting.problems],
        "runners": [] if fitting is None else [*sorted(fitting.offered)],
        "leaving_runs": sum(view.runs for each in leaving for view in each.pool.views),
    }
