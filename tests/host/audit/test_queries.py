"""The log as auditors read it: pages that end, complete exports, and the displayed fields of a record."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.audit import queries
from bollard.host.audit.queries import AuditFilter, all_of, page_of_log, write_first
from bollard.host.audit.view import RunContext, actor_of, audited
from bollard.host.errors import AuditUnavailable
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.store.rows import RecordRow
from bollard.host.store.store import Store

Open = Callable[..., Journal]


def row(kind: str, data: dict[str, Any] | None, **more: Any) -> RecordRow:
    fields: dict[str, Any] = {
        "id": 7,
        "workspace": "default",
        "chain": "c",
        "position": 3,
        "run_id": None,
        "seq": None,
        "epoch": None,
        "source_seq": None,
        "observed": True,
        "created_ms": 1_790_000_000_500,
        "data_sha256": "d" * 64,
        "hash": "h" * 64,
    }
    return RecordRow(type=kind, data=None if data is None else msgspec.json.encode(data), **{**fields, **more})


def test_a_call_is_shown_with_capability_actor_and_outcome() -> None:
    data = {
        "call_id": "c1",
        "capability": "mcp:github/create_issue",
        "name": "create_issue",
        "kind": "mcp",
        "source": "mcp:github",
        "version": "2",
        "definition_sha256": "e" * 64,
        "arguments": {"title": "[redacted]"},
        "arguments_sha256": "a" * 64,
        "risk": "high",
        "effects": "at_most_once",
    }
    run = RunContext(actor="chat:1", runner="plugin:a/b/c", agent="polly", trace_id="t" * 32)
    shown = audited(row("action.started", data, run_id="run_1", seq=5, epoch=1), run)
    assert shown["severity"] == "info"
    assert shown["at"] == 1_790_000_000.5
    assert (shown["run_id"], shown["seq"], shown["actor"], shown["trace_id"]) == ("run_1", 5, "chat:1", "t" * 32)
    assert shown["capability"] == {
        "id": "mcp:github/create_issue",
        "kind": "mcp",
        "source": "mcp:github",
        "version": "2",
        "risk": "high",
        "effects": "at_most_once",
        "definition_sha256": "e" * 64,
    }
    assert shown["digests"] == {"definition_sha256": "e" * 64, "arguments_sha256": "a" * 64}
    assert shown["arguments"] == {"title": "[redacted]"}
    ended = audited(
        row("action.failed", {"call_id": "c1", "code": "tool_failed", "duration_ms": 12, "run_id": "run_2"})
    )
    assert (ended["severity"], ended["outcome"], ended["duration_ms"]) == ("warning", "tool_failed", 12)
    assert ended["run_id"] == "run_2", "a call after the end of its run names it itself"


def test_messages_are_not_shown_and_dropped_data_is_marked() -> None:
    said = audited(row("message.completed", {"content": "very private"}, run_id="r", observed=False))
    assert "private" not in str(said)
    assert said["observed"] is False
    assert audited(row("message.completed", None))["data_dropped"] is True


def test_the_actor_of_a_record_precedes_the_actor_of_its_run() -> None:
    run = RunContext(actor="chat:1")
    assert actor_of(row("grant.revoked", {"by": "user:ann"}), run) == "user:ann"
    assert actor_of(row("login.failed", {"user_id": "bob"})) == "bob"
    assert actor_of(row("run.ended", {}), run) == "chat:1"
    assert audited(row("policy.changed", {"kind": "agent", "id": "polly", "action": "saved", "by": "x"}))[
        "subject"
    ] == ("agent/polly saved")


async def test_pages_return_every_record_once_with_small_windows(
    store: Store, open_journal: Open, scribe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "AUDIT_WINDOW", 4)
    monkeypatch.setattr(queries, "AUDIT_WINDOWS", 2)
    monkeypatch.setattr(queries, "AUDIT_EXPORT_PAGE", 3)
    journal = open_journal(store)
    kinds = ["login.failed" if number % 11 == 0 else "api.called" for number in range(40)]
    await journal.commit(Entry(records=[scribe.note(kind) for kind in kinds]))
    await journal.commit(Entry(records=[scribe.note("login.failed", workspace="other")]))
    for wanted, count in (
        (AuditFilter(workspace="default"), 40),
        (AuditFilter(workspace="default", types=frozenset({"login.failed"})), 4),
        (AuditFilter(workspace="default", severity="warning"), 4),
        (AuditFilter(workspace="default", severity="warning", types=frozenset({"api.called"})), 0),
        (AuditFilter(workspace="other"), 1),
    ):
        found, before, pages = list[int](), None, 0
        while pages < 100:
            page = page_of_log(store, wanted, before, 5)
            pages += 1
            assert len(page.rows) <= 5
            found += [each.id for each in page.rows]
            before = page.before
            if before is None:
                break
        assert found == sorted(set(found), reverse=True)
        assert len(found) == count
        exported = [each.id for rows in all_of(store, wanted, store.last_record()) for each in rows]
        assert exported == sorted(found)


async def test_a_request_without_its_audit_record_in_time_is_refused(
    gate: Any, open_journal: Open, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_journal(gate.store)
    await write_first(journal, clock, "default", "audit.exported", {"by": "ann"})
    assert [each.type for each in gate.store.records(0, 10)] == ["audit.exported"]
    monkeypatch.setattr("bollard.host.audit.queries.AUDIT_S", 0.05)
    gate.shut()
    with pytest.raises(AuditUnavailable):
        await write_first(journal, clock, "default", "audit.exported", {"by": "ann"})
    gate.lift()
