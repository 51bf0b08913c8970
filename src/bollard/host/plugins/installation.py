"""An installed plugin and its versions, and the rules for consent, look-alike names, removal and pinned tools.

Values and pure functions; `PluginRepository` stores and applies them.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from bollard.host.agents.agent import Agent
from bollard.host.agents.binding import Binding
from bollard.host.errors import Conflict, ConsentNeeded
from bollard.host.limits import PLUGIN_VERSIONS
from bollard.host.plugins.code_store import StoredCode
from bollard.host.plugins.description import Description, RequestedAccess
from bollard.host.plugins.placement import PoolPlacement
from bollard.host.plugins.sandbox_access import sandbox_lines
from bollard.host.plugins.tool_definitions import definition_digests
from bollard.protocol import JsonObject, JsonValue
from bollard.trust import canonical_sha256

SourceKind = Literal["upload", "package", "catalogue"]


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One consented version of a plugin's code."""

    digest: str
    version: str
    access: RequestedAccess
    consented_by: str
    consented_ms: int
    definitions: tuple[tuple[str, str], ...] | None = None
    """Each tool and the digest of its definition, as its first worker declared it. `None` before that."""

    @staticmethod
    def of(code: StoredCode, by: str, now_ms: int) -> "Version":
        described = code.described
        return Version(
            digest=code.digest, version=described.version, access=described.access, consented_by=by, consented_ms=now_ms
        )

    def to_wire(self) -> JsonObject:
        body: JsonObject = {
            "digest": self.digest,
            "version": self.version,
            "asks": self.access.to_wire(),
            "consented_by": self.consented_by,
            "consented_ms": self.consented_ms,
        }
        if self.definitions is not None:
            body["definitions"] = dict[str, JsonValue](self.definitions)
        return body

    @staticmethod
    def from_wire(body: Any) -> "Version":
        return Version(
            digest=body["digest"],
            version=body["version"],
            access=RequestedAccess.from_wire(body["asks"]),
            consented_by=body["consented_by"],
            consented_ms=body["consented_ms"],
            definitions=tuple(sorted(body["definitions"].items())) if "definitions" in body else None,
        )


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """One installed plugin of one workspace, as stored."""

    workspace: str
    author: str
    name: str
    current: Version
    earlier: tuple[Version, ...] = ()
    """Versions that a rollback can return to, newest first."""
    enabled: bool = True
    workers: int = 1
    source: str
    """Where it came from: a file name, or a distribution such as `acme-parrot==1.2`."""
    source_kind: SourceKind = "upload"
    revision: int = 1

    @property
    def plugin_id(self) -> str:
        return f"{self.author}/{self.name}"

    @property
    def digests(self) -> frozenset[str]:
        """Digests of the code that the code store must keep."""
        return frozenset(each.digest for each in (self.current, *self.earlier))

    def with_version(self, version: Version) -> "Installed":
        """A copy with another current version; the previous one becomes an earlier version."""
        others = [each for each in (self.current, *self.earlier) if each.digest != version.digest]
        return replace(self, current=version, earlier=tuple(others[: PLUGIN_VERSIONS - 1]), revision=self.revision + 1)

    def to_wire(self) -> JsonObject:
        return {
            "author": self.author,
            "name": self.name,
            "current": self.current.to_wire(),
            "earlier": [each.to_wire() for each in self.earlier],
            "enabled": self.enabled,
            "workers": self.workers,
            "source": self.source,
            "source_kind": self.source_kind,
        }

    @staticmethod
    def from_wire(body: Any, workspace: str, revision: int) -> "Installed":
        """The inverse of `to_wire`."""
        return Installed(
            workspace=workspace,
            author=body["author"],
            name=body["name"],
            current=Version.from_wire(body["current"]),
            earlier=tuple(Version.from_wire(each) for each in body["earlier"]),
            enabled=body["enabled"],
            workers=body["workers"],
            source=body["source"],
            source_kind=body["source_kind"],
            revision=revision,
        )


# --- consent ---


class AccessChange(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between the requested access of two versions, as lines such as `runner default: history.page`."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def widens(self) -> bool:
        return bool(self.added)

    def merge(self, other: "AccessChange") -> "AccessChange":
        return AccessChange(added=(*self.added, *other.added), removed=(*self.removed, *other.removed))

    def to_wire(self) -> JsonObject:
        return {"added": [*self.added], "removed": [*self.removed]}


def consent_for(digest: str, described: Description) -> str:
    """The id of the consent to this code with this access. A digest, so a consent never carries over to other code."""
    body: JsonObject = {"plugin": described.plugin_id, "code": digest, "asks": described.access.to_wire()}
    if described.definitions:
        body["tools"] = dict[str, JsonValue](described.definitions)
    return canonical_sha256(body)


def compare(before: RequestedAccess | None, after: RequestedAccess) -> AccessChange:
    """The access added and removed in `after`. Without `before` everything is added."""
    earlier = before or RequestedAccess()
    old, new = _lines(earlier), _lines(after)
    added = (new - old).union(sandbox_lines(after.sandbox, earlier.sandbox))
    removed = (old - new).union(sandbox_lines(earlier.sandbox, after.sandbox))
    return AccessChange(added=tuple(sorted(added)), removed=tuple(sorted(removed)))


def _lines(access: RequestedAccess) -> set[str]:
    lines = {f"runner {name}" for name, _ in access.runners}
    lines |= {f"runner {name}: {permission}" for name, permissions in access.runners for permission in permissions}
    lines |= {f"env {name}" for name in access.env}
    lines |= {f"command {shlex.join(access.command)}"} if access.command else set()
    return lines | {f"tool {name} ({risk})" for name, risk in access.tools}


def redefined(before: Mapping[str, str], after: Mapping[str, str]) -> AccessChange:
    """The tools whose definition changed. Each counts as added access."""
    names = sorted(name for name, digest in after.items() if before.get(name, digest) != digest)
    return AccessChange(added=tuple(f"tool {name}: another definition" for name in names))


def check_consent(
    digest: str, described: Description, before: RequestedAccess | None, consent: str | None
) -> AccessChange:
    """Raise `ConsentNeeded` unless `consent` is the id of this consent, or the access does not grow."""
    change = compare(before, described.access)
    if consent is None and before is not None and not change.widens:
        return change
    if consent == consent_for(digest, described):
        return change
    raise consent_needed(digest, described, before, change)


def consent_needed(
    digest: str, described: Description, before: RequestedAccess | None, change: AccessChange
) -> ConsentNeeded:
    """The error that carries the requested access and the id of the consent to it."""
    first = before is None
    error = ConsentNeeded(
        f"the plugin {described.plugin_id} {described.version} "
        + ("needs consent to the access it requests" if first else "requests more access than before"),
        reason="plugin_access" if first else "plugin_more_access",
        hint="read `details.asks` and `details.change`, then send `details.consent` as `consent`",
        consent=consent_for(digest, described),
        plugin=described.plugin_id,
        version=described.version,
        digest=digest,
    )
    error.details |= {"asks": described.access.to_wire(), "change": change.to_wire()}
    return error


# --- look-alike names (authors and names are lower-case ASCII, so other scripts need no table) ---

_SEPARATORS = re.compile(r"[._-]+")


def skeleton(name: str) -> str:
    """A name with look-alike characters replaced: names that look alike have the same skeleton."""
    plain = _SEPARATORS.sub("-", name).replace("0", "o").replace("1", "l")
    return plain.replace("rn", "m").replace("vv", "w")


def lookalike(plugin_id: str, others: Iterable[str]) -> str | None:
    """Another plugin whose name looks like this one's, or is the same with another author."""
    mine = skeleton(plugin_id.partition("/")[2])
    return next((each for each in others if each != plugin_id and skeleton(each.partition("/")[2]) == mine), None)


# --- removal ---


def check_unused(installed: Installed, saved: Iterable[Agent], bindings: Iterable[Binding]) -> None:
    """Raise `Conflict` while a saved agent uses the plugin, or a binding names one of its built-in agents."""
    if names := ", ".join(each.agent_id for each in saved if each.plugin == installed.plugin_id):
        raise Conflict(
            f"the plugin {installed.plugin_id} is used by {names}",
            reason="plugin_has_agents",
            hint="delete these agents first, or give them another runner",
            plugin=installed.plugin_id,
            agents=names,
        )
    own = {_agent_id(installed.name, runner) for runner, _ in installed.current.access.runners}
    if bound := ", ".join(each.binding_id for each in bindings if each.agent_id in own):
        raise Conflict(
            f"the plugin {installed.plugin_id} has agents in the bindings {bound}",
            reason="plugin_has_bindings",
            hint="delete these bindings first, or bind them to another agent",
            plugin=installed.plugin_id,
            bindings=bound,
        )


def _agent_id(plugin_name: str, runner: str) -> str:
    """The id of a runner's built-in agent."""
    return plugin_name if runner == "default" else f"{plugin_name}.{runner}"


# --- pinned tool definitions ---


def pin_definitions(
    installed: Installed, placement: PoolPlacement, code: StoredCode, known: Version | None
) -> Installed:
    """A copy with the definitions of its tools pinned. Raises `ConsentNeeded` if a tool of the version `known` has
    another definition now."""
    if placement.pins is not None:
        return installed
    seen = definition_digests(placement.usable_tools)
    change = redefined({} if known is None else dict(known.definitions or ()), seen)
    if known is not None and change.widens:
        raise consent_needed(code.digest, code.described, known.access, change)
    placement.pins = seen
    return replace(installed, current=replace(installed.current, definitions=tuple(sorted(seen.items()))))
