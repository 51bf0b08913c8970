"""The manifest of an archive, which is written last and read first, and its signature."""

from typing import Annotated, Any, Final, Literal

import msgspec

from bollard.trust import canonical_json, sha256_of
from bollard.trust.keys import SigningKey, VerifyKey

MANIFEST: Final = "manifest.json"

ArchiveKind = Literal["backup", "workspace"]
ColumnKind = Literal["text", "integer", "bytes", "boolean"]
Moment = Annotated[int, msgspec.Meta(ge=0, lt=253_402_300_800_000)]
"""Milliseconds since 1970, before the year 10000, so that it converts to a date."""


class Column(msgspec.Struct, frozen=True, array_like=True):
    """A column of a table."""

    name: str
    kind: ColumnKind


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """A table in the archive, with one JSON array per line."""

    name: str
    columns: tuple[Column, ...]

    @property
    def member(self) -> str:
        return f"tables/{self.name}.jsonl"

    def index(self, column: str) -> int:
        """The index of a column. Raises `ValueError`."""
        return [each.name for each in self.columns].index(column)

    def has(self, column: str) -> bool:
        return any(each.name == column for each in self.columns)


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """The size and digest of a member."""

    size: int
    sha256: str
    lines: int = 0


class FileNote(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the data directory: its path, and the member that holds it."""

    path: str
    member: str
    executable: bool = False


class ArchivedResource(msgspec.Struct, frozen=True, kw_only=True):
    """A saved resource without possible secrets, in place of its withheld record."""

    kind: Literal["agent"]
    id: str
    revision: int
    body: dict[str, Any]


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The description of an archive and its members."""

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
    """Digests of referenced contents that were missing."""
    public_keys: dict[str, str] = {}
    """Public keys of the signed heads, by id, in hex."""
    keys: tuple[str, ...] = ()
    """Names of the included key files."""
    files: tuple[FileNote, ...] = ()
    workspace: str | None = None
    withheld: int = 0
    """The number of records whose data is withheld."""
    saved: tuple[ArchivedResource, ...] = ()

    def table(self, name: str) -> Table | None:
        return next((table for table in self.tables if table.name == name), None)


# --- the signature, over the manifest, which has the digest of every member ---
#
# A valid signature proves that the holder of the key wrote the archive. The archive contains the public key, so the
# reader must know the key from elsewhere (`host/backup/archive_verification.py`).


SIGNATURE: Final = "signature.json"


class _Signature(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    public_key: str
    """In hex."""
    signature: str
    """In hex."""


def sign_manifest(manifest: bytes, key: SigningKey) -> bytes:
    """Create the signature member."""
    signed = _Signature(public_key=key.verify_key.public.hex(), signature=key.sign(_text(manifest)).hex())
    return msgspec.json.format(msgspec.json.encode(signed)) + b"\n"


def signer_of(manifest: bytes, member: bytes) -> VerifyKey:
    """The key that signed the manifest. Raises `BadSignature`, and `ValueError` for a malformed member."""
    signed = msgspec.json.decode(member, type=_Signature)
    key = VerifyKey(bytes.fromhex(signed.public_key))
    key.verify(_text(manifest), bytes.fromhex(signed.signature))
    return key


def _text(manifest: bytes) -> bytes:
    """The signed text, which is distinct from all other texts that the key signs."""
    return canonical_json({"kind": "bollard-archive-1", "manifest_sha256": sha256_of(manifest)})
