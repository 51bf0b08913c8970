"""What an archive says of itself: the last member that is written and the first that is read."""

from typing import Any, Final, Literal

import msgspec

__all__ = ["MANIFEST", "ArchiveKind", "Column", "ColumnKind", "FileNote", "Manifest", "Member", "SavedThing", "Table"]

MANIFEST: Final = "manifest.json"

ArchiveKind = Literal["backup", "workspace"]
ColumnKind = Literal["text", "integer", "bytes", "boolean"]


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


class SavedThing(msgspec.Struct, frozen=True, kw_only=True):
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
    created_ms: int
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
    saved: tuple[SavedThing, ...] = ()

    def table(self, name: str) -> Table | None:
        return next((table for table in self.tables if table.name == name), None)
