"""The contents that a log references. Pure.

A content is stored beside the log: a blob, or a file of a skill. Records name contents in many ways (an artifact of a
run, an upload, the body of an event, a stored value), and the projector knows all of them. This module projects the
records; every row with a digest is a reference. The shapes of the rows determine which rows these are.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple, cast, get_args, get_type_hints

import msgspec

from bollard.host.errors import HostError, StorageUnavailable
from bollard.host.log.projection import Projector
from bollard.host.skills.skill import kept_from_store
from bollard.host.store.rows import Change, DropPolicy, PolicyRow, PutPolicy, RecordRow

_DIGEST: Final = "sha256"
_SKILL: Final = "skill"
_PLUGIN: Final = "plugin"
_decode: Final = msgspec.json.Decoder().decode
_Key = tuple[str, ...]


def _followed() -> dict[type[Any], type[Any]]:
    changes = {each.__name__: each for each in get_args(Change)}
    rows = {name: get_type_hints(each).get("row") for name, each in changes.items()}
    return {
        changes[name]: changes[f"Drop{name.removeprefix('Put')}"]
        for name, row in rows.items()
        if row is not None and _DIGEST in row.__struct_fields__
    }


FOLLOWED: Final = _followed()
"""The changes that put a row with a digest, each with the change that drops it."""
_DROPS: Final = frozenset(FOLLOWED.values())


class SkillFile(NamedTuple):
    """A file of a skill, stored in the folder of its workspace under its digest."""

    workspace: str
    sha256: str

    @property
    def path(self) -> str:
        """The path in the data directory."""
        return f"skills/{self.workspace}/{self.sha256}"


class _Reference(NamedTuple):
    sha256: str
    expires_ms: int | None
    label: str


class ContentReferences:
    """Collects references from the records of a log, in order. Memory grows with the current references."""

    def __init__(self) -> None:
        self._projector = Projector()
        self._standing: dict[tuple[type[Any], _Key], _Reference] = {}
        self._saved: dict[str, dict[_Key, PolicyRow]] = {_SKILL: {}, _PLUGIN: {}}

    def feed(self, rows: Iterable[RecordRow]) -> None:
        """Read the next records. Raises `StorageUnavailable` for one that no host wrote."""
        for row in rows:
            try:
                changes = self._projector.feed(row)
            except (msgspec.MsgspecError, AttributeError, KeyError, TypeError, ValueError) as error:
                raise _unreadable(f"record {row.id} ({row.type})", f"{type(error).__name__}: {error}") from error
            for change in changes:
                self._follow(change)
            if row.type == "run.ended" and row.run_id is not None:
                self._projector.forget(row.run_id)

    def blobs(self, now_ms: int) -> dict[str, str]:
        """The digests of the referenced blobs, each with a resource that references it. Expired resources do not
        count."""
        return {
            found.sha256: found.label
            for found in self._standing.values()
            if found.expires_ms is None or found.expires_ms > now_ms
        }

    def skill_files(self) -> dict[SkillFile, str]:
        """The referenced files of skills, each with its skill. Raises `StorageUnavailable`."""
        found: dict[SkillFile, str] = {}
        for row in self._saved[_SKILL].values():
            label = f"skill {row.id}"
            try:
                contents = kept_from_store(_decode(row.body), row.workspace).contents
            except HostError as error:
                raise _unreadable(label, error.message) from error
            found |= {SkillFile(row.workspace, sha256): label for sha256 in contents}
        return found

    def plugins(self) -> Iterator[str]:
        """The installed plugins. Their code is in the data directory, and not part of a workspace."""
        return (row.id for row in self._saved[_PLUGIN].values())

    def _follow(self, change: Change) -> None:
        kind = type(change)
        if kind in FOLLOWED:
            self._put(FOLLOWED[kind], cast("Any", change).row)
        elif kind in _DROPS:
            self._standing.pop((kind, msgspec.structs.astuple(change)), None)
        elif isinstance(change, PutPolicy) and change.kind in self._saved:
            self._saved[change.kind][change.row.workspace, change.row.id] = change.row
        elif isinstance(change, DropPolicy) and change.kind in self._saved:
            self._saved[change.kind].pop((change.workspace, change.id), None)

    def _put(self, drop: type[Any], row: Any) -> None:
        """The fields of the change that drops a row are the key of that row."""
        if (sha256 := getattr(row, _DIGEST)) is None:
            return  # a row without content does not replace another
        key: _Key = tuple(getattr(row, name) for name in drop.__struct_fields__)
        label = f"{drop.__name__.removeprefix('Drop').lower()} {key[-1]}"
        self._standing[drop, key] = _Reference(sha256, getattr(row, "expires_ms", None), label)


def _unreadable(what: str, problem: str) -> StorageUnavailable:
    return StorageUnavailable(
        f"{what} cannot be read: {problem}",
        reason="record_unreadable",
        hint="run `bollard audit verify` to check whether the log was changed",
        what=what,
        problem=problem,
    )
