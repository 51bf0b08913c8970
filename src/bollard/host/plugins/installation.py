"""A plugin that a workspace has installed: which code, consented to what, and the versions before it. Values only."""

import re
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
from bollard.host.plugins.tool_definitions import definition_digests
from bollard.protocol import JsonObject, JsonValue
from bollard.trust import canonical_sha256

SourceKind = Literal["upload", "package"]


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """Code that was consented to."""

    digest: str
    version: str
    asked: RequestedAccess
    consented_by: str
    consented_ms: int
    definitions: tuple[tuple[str, str], ...] | None = None
    """Each of its tools and the digest of its definition, as its first worker said it. `None` until then."""

    @staticmethod
    def of(shelved: StoredCode, by: str, now_ms: int) -> "Version":
        described = shelved.described
        return Version(
            digest=shelved.digest,
            version=described.version,
            asked=described.asked,
            consented_by=by,
            consented_ms=now_ms,
        )

    def to_wire(self) -> JsonObject:
        body: JsonObject = {
            "digest": self.digest,
            "version": self.version,
            "asks": self.asked.to_wire(),
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
            asked=RequestedAccess.from_wire(body["asks"]),
            consented_by=body["consented_by"],
            consented_ms=body["consented_ms"],
            definitions=tuple(sorted(body["definitions"].items())) if "definitions" in body else None,
        )


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """One plugin of one workspace, as it is saved."""

    workspace: str
    author: str
    name: str
    current: Version
    earlier: tuple[Version, ...] = ()
    """What can be gone back to, newest first."""
    enabled: bool = True
    workers: int = 1
    source: str
    """Where it came from, in words: the name of a file, or `acme-parrot==1.2`."""
    source_kind: SourceKind = "upload"
    revision: int = 1

    @property
    def plugin_id(self) -> str:
        return f"{self.author}/{self.name}"

    @property
    def digests(self) -> frozenset[str]:
        """The code that must stay on the shelf."""
        return frozenset(each.digest for each in (self.current, *self.earlier))

    def moved_to(self, version: Version) -> "Installed":
        """With another version in use; the one before can be gone back to."""
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
        """What `to_wire` gave to the store."""
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


# Consent: what somebody said yes to, and whether another version asks for more. Pure.
#
# The name of a consent is a digest over the code and what it asks for, so that no yes is carried over to other code.


class AccessChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a version asks for beside another, in words that people know: `runner default: history.page`."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def widens(self) -> bool:
        return bool(self.added)

    def and_also(self, other: "AccessChange") -> "AccessChange":
        return AccessChange(added=(*self.added, *other.added), removed=(*self.removed, *other.removed))

    def to_wire(self) -> JsonObject:
        return {"added": [*self.added], "removed": [*self.removed]}


def consent_for(digest: str, described: Description) -> str:
    """The name of the consent to this code with these wishes."""
    body: JsonObject = {"plugin": described.plugin_id, "code": digest, "asks": described.asked.to_wire()}
    if described.definitions:
        body["tools"] = dict[str, JsonValue](described.definitions)
    return canonical_sha256(body)


def compare(before: RequestedAccess | None, after: RequestedAccess) -> AccessChange:
    """What is new in `after` and what is gone. Without `before` everything is new."""
    old, new = _lines(before or RequestedAccess()), _lines(after)
    return AccessChange(added=tuple(sorted(new - old)), removed=tuple(sorted(old - new)))


def _lines(asked: RequestedAccess) -> set[str]:
    lines = {f"runner {name}" for name, _ in asked.runners}
    lines |= {f"runner {name}: {permission}" for name, permissions in asked.runners for permission in permissions}
    lines |= {f"env {name}" for name in asked.env}
    return lines | {f"tool {name} ({risk})" for name, risk in asked.tools}


def redefined(before: Mapping[str, str], after: Mapping[str, str]) -> AccessChange:
    """The tools that are there before and after, and are not the same any more. Each is like a new one."""
    names = sorted(name for name, digest in after.items() if before.get(name, digest) != digest)
    return AccessChange(added=tuple(f"tool {name}: another definition" for name in names))


def check_consent(
    digest: str, described: Description, before: RequestedAccess | None, given: str | None
) -> AccessChange:
    """Raise `ConsentNeeded` unless this was consented to: by name, or because no more is asked for than before."""
    change = compare(before, described.asked)
    named = consent_for(digest, described)
    if given is None and before is not None and not change.widens:
        return change
    if given == named:
        return change
    raise consent_needed(digest, described, before, change)


def consent_needed(
    digest: str, described: Description, before: RequestedAccess | None, change: AccessChange
) -> ConsentNeeded:
    """What somebody must say yes to, and the name of that yes."""
    about = "more than it has" if before is not None else "consent"
    error = ConsentNeeded(
        f"the plugin {described.plugin_id} {described.version} asks for {about}",
        hint="read `details.asks` and `details.change`, then send `details.consent` as `consent`",
        consent=consent_for(digest, described),
        plugin=described.plugin_id,
        version=described.version,
        digest=digest,
    )
    error.details |= {"asks": described.asked.to_wire(), "change": change.to_wire()}
    return error


# Names that people take for one another. A plugin whose name looks like that of another one is not taken beside it.
#
# Letters of other scripts need no table: an author or a name is lower-case ASCII, and everything else was refused
# before.


_SEPARATORS = re.compile(r"[._-]+")


def skeleton(name: str) -> str:
    """What is left of a name when everything is one that looks alike."""
    plain = _SEPARATORS.sub("-", name).replace("0", "o").replace("1", "l")
    return plain.replace("rn", "m").replace("vv", "w")


def lookalike(plugin_id: str, others: Iterable[str]) -> str | None:
    """Another plugin that this one could be taken for, or that has its name and another author."""
    mine = skeleton(plugin_id.partition("/")[2])
    return next((each for each in others if each != plugin_id and skeleton(each.partition("/")[2]) == mine), None)


# What people saved that needs a plugin: why it is not removed. Pure.


def refuse_used(installed: Installed, saved: Iterable[Agent], bindings: Iterable[Binding]) -> None:
    """Raise `Conflict` where a saved agent runs on the plugin, or a binding names an agent that it brings itself."""
    if names := ", ".join(each.agent_id for each in saved if each.plugin == installed.plugin_id):
        raise Conflict(
            f"the plugin {installed.plugin_id} is used by {names}",
            hint="delete these agents first, or give them another runner",
            agents=names,
        )
    own = {_agent_id(installed.name, runner) for runner, _ in installed.current.asked.runners}
    if bound := ", ".join(each.binding_id for each in bindings if each.agent_id in own):
        raise Conflict(
            f"the agents of the plugin {installed.plugin_id} get the events of {bound}",
            hint="delete these bindings first, or bind them to another agent",
            bindings=bound,
        )


def _agent_id(plugin_name: str, runner: str) -> str:
    """The agent that a runner has by itself."""
    return plugin_name if runner == "default" else f"{plugin_name}.{runner}"


# Pins the definitions of a plugin's tools to what its first worker said.


def pinned(installed: Installed, fitting: PoolPlacement, shelved: StoredCode, known: Version | None) -> Installed:
    """With the definitions of its tools pinned from here on. Where a tool of the version that is `known` is defined
    otherwise now, raises `ConsentNeeded`: the same name is not the same tool."""
    if fitting.pins is not None:
        return installed
    seen = definition_digests(fitting.usable_tools)
    change = redefined({} if known is None else dict(known.definitions or ()), seen)
    if known is not None and change.widens:
        raise consent_needed(shelved.digest, shelved.described, known.asked, change)
    fitting.pins = seen
    return replace(installed, current=replace(installed.current, definitions=tuple(sorted(seen.items()))))
