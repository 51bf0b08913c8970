"""Missing data is accounted for in the log itself: by retention, or by an import. Neither hides an edit."""

from typing import Any, Final

import msgspec
import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.audit.heads import HeadLine
from bollard.host.audit.verification import LogReport, LogWalk
from bollard.host.log.chain import Chains
from bollard.host.log.records import NewRecord
from bollard.trust.keys import SigningKey

KEY: Final = SigningKey(b"h" * 32)
KEYS: Final = {KEY.verify_key.key_id: KEY.verify_key}


def report_of(records: list[tuple[str, str, Any]], gone: set[int]) -> LogReport:
    """The verification report of these records (workspace, type, data) when the data of some of them is missing."""
    chains = Chains("start-1", KEY, ManualClock(), every_records=1000, every_s=1e9)
    new = [
        NewRecord(workspace=workspace, type=kind, data=msgspec.json.encode(data), created_ms=number)
        for number, (workspace, kind, data) in enumerate(records)
    ]
    rows = chains.chain(new, 1)
    walk = LogWalk(KEYS)
    for head in chains.due_heads(closing=True):
        walk.add_witnessed(HeadLine.of(head, closed=True))
    kept = [msgspec.structs.replace(row, data=None) if place in gone else row for place, row in enumerate(rows)]
    walk.feed(msgspec.structs.astuple(row) for row in kept)
    return walk.finish()


SAID: Final = ("default", "message.completed", {"said": 1})
PURGED_ONE: Final = ("default", "retention.purged", {"dropped": {"message.completed": 1}})
PURGED_PURGE: Final = ("default", "retention.purged", {"dropped": {"retention.purged": 1}})
IMPORTED: Final = ("other", "workspace.imported", {"withheld": 1})
OF_OTHER: Final = ("other", "message.completed", {"said": 2})


@pytest.mark.parametrize(
    ("records", "gone"),
    [([SAID, PURGED_ONE], {0}), ([SAID, PURGED_ONE, PURGED_PURGE], {0, 1}), ([OF_OTHER, IMPORTED], {0})],
    ids=["dropped by retention", "and what said so too", "withheld by an export"],
)
def test_dropped_data_with_a_record_causes_no_problem(records: list[tuple[str, str, Any]], gone: set[int]) -> None:
    report = report_of(records, gone)
    assert report.problems == ()
    assert report.dropped == len(gone)


@pytest.mark.parametrize(
    ("records", "gone", "told"),
    [
        ([SAID, SAID, PURGED_ONE], {0, 1}, ("default", 1)),
        ([SAID, SAID, PURGED_ONE], {0, 1, 2}, ("default", 3)),
        ([OF_OTHER, IMPORTED, SAID], {0, 2}, ("default", 1)),
        ([OF_OTHER, IMPORTED, OF_OTHER], {0, 2}, ("other", 3)),
    ],
    ids=[
        "more than retention took",
        "and what retention said too",
        "in another workspace than the one that was imported",
        "behind the import",
    ],
)
def test_missing_data_without_a_record_is_found(
    records: list[tuple[str, str, Any]], gone: set[int], told: tuple[str, int]
) -> None:
    problems = report_of(records, gone).problems
    assert {each.kind for each in problems} == {"data_gone"}
    assert told in {(each.workspace, each.position) for each in problems}
