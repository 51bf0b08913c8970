"""Consent: what somebody said yes to, and whether another version asks for more. Pure.

The name of a consent is a digest over the code and what it asks for, so that no yes is carried over to other code.
"""

from collections.abc import Mapping

import msgspec

from bollard.host.errors import ConsentNeeded
from bollard.host.plugins.description import Asked, Description
from bollard.protocol import JsonObject, JsonValue
from bollard.trust import canonical_sha256

__all__ = ["AskedChange", "check_consent", "compare", "consent_for", "consent_needed", "redefined"]


class AskedChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a version asks for beside another, in words that people know: `runner default: history.page`."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def widens(self) -> bool:
        return bool(self.added)

    def and_also(self, other: "AskedChange") -> "AskedChange":
        return AskedChange(added=(*self.added, *other.added), removed=(*self.removed, *other.removed))

    def to_wire(self) -> JsonObject:
        return {"added": [*self.added], "removed": [*self.removed]}


def consent_for(digest: str, described: Description) -> str:
    """The name of the consent to this code with these wishes."""
    body: JsonObject = {"plugin": described.plugin_id, "code": digest, "asks": described.asked.to_wire()}
    if described.definitions:
        body["tools"] = dict[str, JsonValue](described.definitions)
    return canonical_sha256(body)


def compare(before: Asked | None, after: Asked) -> AskedChange:
    """What is new in `after` and what is gone. Without `before` everything is new."""
    old, new = _lines(before or Asked()), _lines(after)
    return AskedChange(added=tuple(sorted(new - old)), removed=tuple(sorted(old - new)))


def _lines(asked: Asked) -> set[str]:
    lines = {f"runner {name}" for name, _ in asked.runners}
    lines |= {f"runner {name}: {permission}" for name, permissions in asked.runners for permission in permissions}
    lines |= {f"env {name}" for name in asked.env}
    return lines | {f"tool {name} ({risk})" for name, risk in asked.tools}


def redefined(before: Mapping[str, str], after: Mapping[str, str]) -> AskedChange:
    """The tools that are there before and after, and are not the same any more. Each is like a new one."""
    names = sorted(name for name, digest in after.items() if before.get(name, digest) != digest)
    return AskedChange(added=tuple(f"tool {name}: another definition" for name in names))


def check_consent(digest: str, described: Description, before: Asked | None, given: str | None) -> AskedChange:
    """Raise `ConsentNeeded` unless this was consented to: by name, or because no more is asked for than before."""
    change = compare(before, described.asked)
    named = consent_for(digest, described)
    if given is None and before is not None and not change.widens:
        return change
    if given == named:
        return change
    raise consent_needed(digest, described, before, change)


def consent_needed(digest: str, described: Description, before: Asked | None, change: AskedChange) -> ConsentNeeded:
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
