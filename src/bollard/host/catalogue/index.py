"""The index of a catalogue: a list of plugins, MCP servers and skills, and its signature. Pure.

An index names files by a path relative to itself. An index from a URL is signed, and states the SHA-256 of each file.
"""

from typing import Annotated, Final, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from bollard.host.agents.saved_body import refusal
from bollard.host.errors import CatalogueUnavailable, HostError, InvalidRequest, caused_by
from bollard.host.limits import CATALOGUE_BYTES, CATALOGUE_ITEMS, CATALOGUE_TAGS
from bollard.host.mcp.servers import SavedMcpServer
from bollard.protocol import Digest, JsonObject, JsonValue, Localized, Strict, Timestamp
from bollard.trust import BadSignature, NotCanonical, canonical_json
from bollard.trust.keys import SigningKey, VerifyKey
from bollard.wire.errors import FrameError
from bollard.wire.strict_json import decode

S = TypeVar("S", bound=Strict)
Kind = Literal["plugin", "skill", "mcp_server"]
Language = Literal["en_US", "zh_Hans"]

_CONTEXT: Final = b"bollard catalogue 1\n"
"""Before the signed bytes, so that no other signature of the key is taken for one of an index."""
_HINT: Final = "tell its publisher; the format is in docs/guides/catalogue.md"
_Path = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*$", max_length=256)]


class CatalogueFile(Strict):
    """A file of a catalogue. A bundled plugin or skill may be a folder; then there is no digest."""

    path: _Path
    sha256: Digest | None = None


class CatalogueItem(Strict):
    """Something that can be installed."""

    item_id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64)]
    kind: Kind
    name: Annotated[str, Field(min_length=1, max_length=129)]
    """Its id after the installation: of a plugin `author/name`."""
    version: Annotated[str, Field(max_length=64)] = ""
    label: Localized
    description: Localized
    tags: Annotated[tuple[Annotated[str, Field(max_length=32)], ...], Field(max_length=CATALOGUE_TAGS)] = ()
    readme: dict[Language, CatalogueFile] = Field(default_factory=dict[Language, CatalogueFile])
    content: CatalogueFile | None = None
    """The archive of a plugin, or the files of a skill as the body of `PUT /api/v1/skills/{skill_id}`."""
    server: JsonObject | None = None
    """The body of `PUT /api/v1/mcp-servers/{server_id}`. It names secrets, and contains none."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        wanted, other = ("server", "content") if self.kind == "mcp_server" else ("content", "server")
        if getattr(self, wanted) is None or getattr(self, other) is not None:
            problem = f"an item of the kind {self.kind} has {wanted}, and no {other}"
            raise _invalid("catalogue_kind", self.item_id, problem, kind=self.kind, wanted=wanted, other=other)
        if self.server is not None:
            SavedMcpServer.read({**self.server, "server_id": self.name})
        return self

    @property
    def files(self) -> tuple[CatalogueFile, ...]:
        return (*self.readme.values(), *(() if self.content is None else (self.content,)))


class CatalogueIndex(Strict):
    """The signed part of an index file."""

    format: Literal[1]
    name: Annotated[str, Field(min_length=1, max_length=128)]
    issued_at: Timestamp
    items: Annotated[tuple[CatalogueItem, ...], Field(max_length=CATALOGUE_ITEMS)]

    @model_validator(mode="after")
    def _check(self) -> Self:
        seen: set[str] = set()
        for item in self.items:
            if item.item_id in seen:
                raise _invalid("catalogue_twice", item.item_id, "the id appears twice")
            seen.add(item.item_id)
        return self

    def find(self, item_id: str) -> CatalogueItem | None:
        return next((each for each in self.items if each.item_id == item_id), None)


class SignedIndex(Strict):
    """An index file at a URL."""

    index: JsonObject
    signature: Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]
    """Ed25519, over the canonical JSON (RFC 8785) of `index` behind the line `bollard catalogue 1`."""


def read_index(data: bytes) -> CatalogueIndex:
    """The index of the package. Raises `CatalogueUnavailable`."""
    return check_index(_decoded(data))


def check_index(value: JsonValue) -> CatalogueIndex:
    """An index without a signature, such as the draft of a publisher. Raises `CatalogueUnavailable`."""
    return _read(CatalogueIndex, value)


def open_index(data: bytes, key: VerifyKey) -> CatalogueIndex:
    """A signed index. Nothing of it is read before its signature is verified. Raises `CatalogueUnavailable`."""
    signed = _read(SignedIndex, _decoded(data))
    try:
        key.verify(_signed_bytes(signed.index), bytes.fromhex(signed.signature))
    except BadSignature as error:
        raise CatalogueUnavailable(
            f"the index of the catalogue is not signed with the key {key.key_id}",
            reason="signature",
            hint="compare `catalogue_key` with the key of its publisher",
            key=key.key_id,
        ) from error
    index = _read(CatalogueIndex, signed.index)
    for item in index.items:
        if bare := next((file.path for file in item.files if file.sha256 is None), None):
            raise _unreadable(_invalid("catalogue_no_digest", item.item_id, f"{bare} has no sha256", file=bare))
    return index


def sign_index(index: CatalogueIndex, key: SigningKey) -> SignedIndex:
    body = index.to_wire()
    return SignedIndex.from_wire({"index": body, "signature": key.sign(_signed_bytes(body)).hex()})


def _signed_bytes(index: JsonObject) -> bytes:
    try:
        return _CONTEXT + canonical_json(index)
    except NotCanonical as error:
        raise _unreadable(error) from error


def _decoded(data: bytes) -> JsonValue:
    try:
        return decode(data, frame_bytes=CATALOGUE_BYTES)
    except FrameError as error:
        raise CatalogueUnavailable(
            f"the index of the catalogue is not JSON: {error.detail}",
            reason="not_json",
            hint=_HINT,
            problem=error.detail,
            problem_type=f"json.{error.fault}",
        ) from error


def _read(shape: type[S], value: JsonValue) -> S:
    try:
        return shape.from_wire(value)
    except ValidationError as error:
        raise _unreadable(refusal(error, "")) from error
    except HostError as error:
        raise _unreadable(error) from error


def _invalid(reason: str, item: str, problem: str, /, **details: str) -> InvalidRequest:
    field = f"items.{item}"
    return InvalidRequest(f"{field}: {problem}", reason=reason, hint=_HINT, field=field, **details)


def _unreadable(error: Exception) -> CatalogueUnavailable:
    message = error.message if isinstance(error, HostError) else str(error)
    return CatalogueUnavailable(
        f"the index of the catalogue is invalid: {message}", reason="invalid", hint=_HINT, **caused_by(error)
    )
