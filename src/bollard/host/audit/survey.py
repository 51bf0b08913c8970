"""What an erasure removes, found in one reading of the log. Pure, except for looking up runs.

An event is recorded before its run, a run before its records and before the runs that it calls, so one reading in the
order of the log is enough. The upload of a file is recorded before the message that uses it; until then it waits. Of
each selected record the survey keeps its id and its type, in ten bytes.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from bollard.host.audit.selection import Selection
from bollard.host.log.projection import storage_place
from bollard.host.log.records import RunFacts
from bollard.host.store.rows import RecordRow, RunRow
from bollard.protocol import JsonObject

_facts: Final = msgspec.json.Decoder(RunFacts).decode
_decode: Final = msgspec.json.Decoder().decode
_Place = tuple[str, str]


class RecordBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Records that lose their data in one commit."""

    ids: list[int]
    types: Counter[str]
    runs: list[str]
    """Runs that begin among them."""


class Survey:
    """The records of a selection, and what else belongs to it."""

    def __init__(self, selection: Selection, find_run: Callable[[str], RunRow | None]) -> None:
        self.selection: Final = selection
        self.through = 0
        """The last record that was read."""
        self.artifacts: dict[str, None] = {}
        """Artifacts of the selected runs and messages."""
        self.storage: dict[_Place, None] = {}
        """Stored values whose last writer is a selected run."""
        self.documents: dict[_Place, None] = {}
        """Knowledge base and id of the documents whose last version the person saved."""
        self._find_run = find_run
        self._ids = array("q")
        self._types = array("H")
        self._type_names: list[str] = []
        self._created: dict[int, str] = {}
        """The runs that begin with a record."""
        self._uploads: dict[str, list[int]] = {}
        """Records of uploads that no message has used yet, by artifact."""

    def add(self, row: RecordRow) -> None:
        """Read the next record."""
        self.through = row.id
        self.selection.learn(row)
        selected = self.selection.has(row)
        if row.type == "storage.updated":
            self._note_storage(row, selected=selected)
        elif row.type == "knowledge.changed":
            self._note_document(row, selected=selected)
        elif row.type == "artifact.created":
            self._note_artifact(row, selected=selected)
        if selected:
            self._note(row.id, row.type)
            if row.type == "run.created" and row.run_id is not None:
                self._created[row.id] = row.run_id

    @property
    def counts(self) -> dict[str, int]:
        """The selected records by type."""
        return {self._type_names[number]: count for number, count in Counter(self._types).items()}

    def batches(self, size: int) -> Iterator[RecordBatch]:
        """The selected records, newest first: an interrupted erasure finds the rest when it is repeated."""
        order = sorted(range(len(self._ids)), key=self._ids.__getitem__, reverse=True)
        for start in range(0, len(order), size):
            chosen = order[start : start + size]
            ids = [self._ids[each] for each in chosen]
            yield RecordBatch(
                ids=ids,
                types=Counter(self._type_names[self._types[each]] for each in chosen),
                runs=sorted({self._created[each] for each in ids if each in self._created}),
            )

    def _note(self, record_id: int, kind: str) -> None:
        if kind not in self._type_names:
            self._type_names.append(kind)
        self._ids.append(record_id)
        self._types.append(self._type_names.index(kind))

    def _note_storage(self, row: RecordRow, *, selected: bool) -> None:
        if row.data is None or row.run_id is None or not (selected or self.storage):
            return
        if (run := self._find_run(row.run_id)) is not None:
            place = storage_place(_facts(run.facts), _decode(row.data))
            self.storage.pop(place, None)
            if selected:
                self.storage[place] = None

    def _note_document(self, row: RecordRow, *, selected: bool) -> None:
        if row.data is None or row.workspace != self.selection.workspace:
            return
        data = _decode(row.data)
        place = str(data["kb_id"]), str(data["document_id"])
        self.documents.pop(place, None)
        if selected and data.get("action") == "saved":
            self.documents[place] = None

    def _note_artifact(self, row: RecordRow, *, selected: bool) -> None:
        if row.data is None or row.workspace != self.selection.workspace:
            return
        data: JsonObject = _decode(row.data)
        artifact_id = str(data["artifact_id"])
        if selected:
            self.artifacts[artifact_id] = None
            for earlier in self._uploads.pop(artifact_id, ()):
                self._note(earlier, row.type)
        elif row.run_id is None and data.get("event_id") is None:
            self._uploads.setdefault(artifact_id, []).append(row.id)
        else:
            self._uploads.pop(artifact_id, None)
