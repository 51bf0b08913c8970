"""A plugin that a workspace has installed: which code, consented to what, and the versions before it. Values only."""

from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from bollard.host.limits import PLUGIN_VERSIONS
from bollard.host.plugins.description import Asked
from bollard.host.plugins.shelf import Shelved
from bollard.protocol import JsonObject, JsonValue

__all__ = ["Installed", "SourceKind", "Version"]

SourceKind = Literal["upload", "package"]


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """Code that was consented to."""

    digest: str
    version: str
    asked: Asked
    consented_by: str
    consented_ms: int
    definitions: tuple[tuple[str, str], ...] | None = None
    """Each of its tools and the digest of its definition, as its first worker said it. `None` until then."""

    @staticmethod
    def of(shelved: Shelved, by: str, now_ms: int) -> "Version":
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
            asked=Asked.from_wire(body["asks"]),
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
