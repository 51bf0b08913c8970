"""Changes of runs, approvals and questions, read from the log in order, for readers that show what is going on now.

A change names the thing that changed and its new status. It has no content: a reader that needs more reads the thing.
"""

from typing import Final

from msgspec.structs import replace

from bollard.host.feed.event_reader import EventReader
from bollard.host.feed.feed_event import FeedEvent, Selection
from bollard.host.identity.caller import Right
from bollard.host.log.projection import UNPROJECTABLE
from bollard.host.log.records import data_of
from bollard.host.runs.event import HOST_SOURCE
from bollard.host.store.rows import RecordRow
from bollard.protocol import JsonObject

_STATUSES: Final = {
    "run.created": "queued",
    "run.started": "running",
    "run.waiting": "waiting",
    "run.resumed": "running",
    "run.cancelled": "cancelling",
    "run.ended": "",
    "approval.requested": "requested",
    "approval.granted": "granted",
    "approval.denied": "denied",
    "approval.expired": "expired",
    "approval.used": "used",
    "question.asked": "asked",
    "question.answered": "answered",
    "question.expired": "expired",
}
"""By type of record: the new status. The record of an ended run names it."""
_DECIDED: Final = frozenset({"approval.granted", "approval.denied", "approval.expired", "approval.used"})
_RECORDS: Final = frozenset(_STATUSES)
_NAMES: Final = ("approval_id", "question_id", "call_id")


def right_of(change: FeedEvent) -> Right:
    """The right that a reader needs."""
    return "approvals.read" if change.type.startswith("approval.") else "runs.read"


class ChangeSelection(Selection, frozen=True, kw_only=True):
    """The changes that a reader wants."""

    @property
    def records(self) -> frozenset[str]:
        if self.types is None:
            return _RECORDS
        return frozenset(kind for kind in _RECORDS if _type_of(kind) in self.types)


class ChangeReader(EventReader):
    """Reads pages of changes. Its methods block."""

    def event(self, row: RecordRow, selection: Selection | None = None) -> FeedEvent | None:
        """The change that a record makes, if the selection matches it."""
        try:
            found = None if row.data is None else self._change(row, data_of(row))
        except UNPROJECTABLE:  # one damaged record must not hold up all later changes
            return None
        return found if found is not None and (selection is None or selection.matches(found)) else None

    def _change(self, row: RecordRow, data: JsonObject) -> FeedEvent:
        approval_id, run_id = data.get("approval_id"), row.run_id
        if run_id is None and isinstance(approval_id, str):  # decided after its run had ended
            approval = self._store.approval(row.workspace, approval_id)
            run_id = None if approval is None else approval.run_id
        shown: JsonObject = {"status": _STATUSES[row.type] or data["status"]}
        shown |= {name: data[name] for name in _NAMES if isinstance(data.get(name), str)}
        if isinstance(code := data.get("code"), str):
            shown["reason"] = code
        event = self._of_run(row, run_id, _type_of(row.type), str(run_id), shown)
        return replace(event, id=f"{row.id}-{event.type}".replace(".", "_"), source=HOST_SOURCE)


def _type_of(record: str) -> str:
    return "approval.decided" if record in _DECIDED else record


CHANGES: Final = tuple(dict.fromkeys(map(_type_of, _STATUSES)))
"""The types of changes."""
