"""What an archive says of itself: the last member that is written and the first that is read."""

from typing import Annotated, Any, Final, Literal

import msgspec

from bollard.trust import canonical_json, sha256_of
from bollard.trust.keys import SigningKey, VerifyKey

MANIFEST: Final = "manifest.json"

ArchiveKind = Literal["backup", "workspace"]
ColumnKind = Literal["text", "integer", "bytes", "boolean"]
Moment = Annotated[int, msgspec.Meta(ge=0, lt=253_402_300_800_000)]
"""In milliseconds since 1970, before the year 10000: a calendar has a name for it."""


class Column(msgspec.Struct, frozen=True, array_like=True):
    """One value of each row."""

    name: str
    kind: ColumnKind


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table whose rows are in the archive, one JSON array for each line."""

    name: str
    columns: tuple[Column, ...]

    @property
    def member(self) -> str:
        return f"tables/{self.name}.jsonl"

    def index(self, column: str) -> int:
        """Where a column stands in a row; raises `ValueError`."""
        return [each.name for each in self.columns].index(column)

    def has(self, column: str) -> bool:
        return any(each.name == column for each in self.columns)


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A member whose name does not say its content."""

    size: int
    sha256: str
    lines: int = 0


class FileNote(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the data directory: where it belongs, and the member that holds it."""

    path: str
    member: str
    executable: bool = False


class ArchivedResource(msgspec.Struct, frozen=True, kw_only=True):
    """Something that people saved, without what may be a secret: its own record is withheld."""

    kind: Literal["agent"]
    id: str
    revision: int
    body: dict[str, Any]


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about an archive that its members do not say."""

    kind: ArchiveKind
    format: int
    version: str
    """The program that wrote it."""
    created_ms: Moment
    revision: str
    """The schema of its tables."""
    tables: tuple[Table, ...]
    members: dict[str, Member]
    blobs: int
    missing: tuple[str, ...] = ()
    """Digests that rows refer to and that were not there to be read."""
    public_keys: dict[str, str] = {}
    """Keys that signed heads, by id, in hex: enough to verify, not to sign."""
    keys: tuple[str, ...] = ()
    """Names of the key files that are inside."""
    files: tuple[FileNote, ...] = ()
    workspace: str | None = None
    withheld: int = 0
    """Records whose data is left out because it is nobody else's business."""
    saved: tuple[ArchivedResource, ...] = ()

    def table(self, name: str) -> Table | None:
        return next((table for table in self.tables if table.name == name), None)


# The signature of an archive: over its manifest, which has the digest of every member. Pure.
#
# A signature that fits proves that whoever has the key wrote the archive. It does not say whose key that is: an archive
# brings its own public key along, so the key has to be known from elsewhere (`host/backup/archive_verification.py`).


SIGNATURE: Final = "signature.json"


class _Signature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    public_key: str
    """In hex."""
    signature: str
    """In hex."""


def sign_manifest(manifest: bytes, key: SigningKey) -> bytes:
    """The member that stands beside the manifest."""
    signed = _Signature(public_key=key.verify_key.public.hex(), signature=key.sign(_text(manifest)).hex())
    return msgspec.json.format(msgspec.json.encode(signed)) + b"\n"


def signer_of(manifest: bytes, member: bytes) -> VerifyKey:
    """The key that signed the manifest. Raises `BadSignature`, and `ValueError` for a member that is no signature."""
    signed = msgspec.json.decode(member, type=_Signature)
    key = VerifyKey(bytes.fromhex(signed.public_key))
    key.verify(_text(manifest), bytes.fromhex(signed.signature))
    return key


def _text(manifest: bytes) -> bytes:
    """What is signed: it can be mistaken for nothing else that the same key signs."""
    return canonical_json({"kind": "bollard-archive-1", "manifest_sha256": sha256_of(manifest)})
