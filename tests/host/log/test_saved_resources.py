"""A repository holds in memory exactly the committed resources."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.errors import Conflict, InvalidRequest, NotFound, SettingsError, StorageFull, StorageUnavailable
from bollard.host.log.journal import Journal
from bollard.host.log.saved_resources import Repository, ResourceKind, Saved, SavedChanges
from bollard.host.store.rows import KeptRow, PutKept
from bollard.host.store.store import Store

Open = Callable[..., Journal]


NOTE = ResourceKind(kind="channel", noun="note", listed_by="notes", limit=3)


def read_note(body: dict[str, Any], workspace: str) -> str:
    del workspace
    if "says" not in body:
        raise InvalidRequest("says: this field is needed", reason="test")
    return body["says"]


class Notes(Repository[str]):
    """A repository of texts that records its notifications."""

    def __init__(self, journal: Journal, clock: ManualClock) -> None:
        super().__init__(NOTE, SavedChanges(journal, clock), read_note, lambda says: {"says": says})
        self.heard: list[Any] = []
        self.save = self._save

    def changed(self, before: Saved[str] | None, after: Saved[str] | None) -> None:
        self.heard.append((before and before.value, after and after.value))


async def test_a_resource_is_saved_changed_found_again_and_deleted(
    store: Store, open_journal: Open, clock: ManualClock
) -> None:
    notes = Notes(open_journal(store), clock)
    await notes.save("w", "b", lambda _: "one", by="ann")
    await notes.save("w", "b", lambda before: f"{before and before.value} two", by="ann", edited=1)
    await notes.save("v", "a", lambda _: "other", by="bob")
    assert notes.heard == [(None, "one"), ("one", "one two"), (None, "other")]
    again = Notes(open_journal(store, "i2"), clock)
    await again.load(store)
    assert again.get("w", "b") == Saved(workspace="w", id="b", revision=2, value="one two")
    assert [(each.workspace, each.id) for each in again.everywhere()] == [("v", "a"), ("w", "b")]
    assert (again.count("w"), again.count("nowhere"), again.all("nowhere")) == (1, 0, [])
    await again.delete("w", "b", by="ann")
    assert again.find("w", "b") is None
    assert store.policies("channel", "w") == []
    with pytest.raises(NotFound):
        await again.delete("w", "b", by="ann")


async def test_an_edit_of_an_older_revision_is_refused_and_nothing_changes(
    store: Store, open_journal: Open, clock: ManualClock
) -> None:
    notes = Notes(open_journal(store), clock)
    await notes.save("w", "a", lambda _: "one", by="ann", edited=0)
    for edited in (0, 2):
        with pytest.raises(Conflict) as caught:
            await notes.save("w", "a", lambda _: "two", by="ann", edited=edited)
        assert caught.value.details["revision"] == 1
    with pytest.raises(Conflict):
        await notes.delete("w", "a", by="ann", edited=2)
    assert [row.revision for row in store.policies("channel", "w")] == [1]


async def test_of_two_changes_of_one_revision_one_succeeds(
    store: Store, open_journal: Open, clock: ManualClock
) -> None:
    notes = Notes(open_journal(store), clock)
    await notes.save("w", "a", lambda _: "one", by="ann")
    changes = [notes.save("w", "a", lambda _, says=says: says, by="ann", edited=1) for says in ("two", "three")]
    ends = await asyncio.gather(*changes, return_exceptions=True)
    assert [type(end) for end in ends] == [Saved, Conflict]
    assert notes.get("w", "a").value == "two"


async def test_a_resource_is_visible_only_after_its_commit_and_despite_a_disconnect(
    gate: Any, open_journal: Open, clock: ManualClock
) -> None:
    told: list[str] = []
    notes = Notes(open_journal(gate.store), clock)
    gate.shut()
    saving = asyncio.create_task(notes.save("w", "a", lambda _: "one", by="ann", then=lambda: told.append("then")))
    await gate.arrival()
    assert notes.find("w", "a") is None
    saving.cancel()
    behind = asyncio.create_task(notes.save("w", "a", lambda before: f"{before and before.value} two", by="bob"))
    await asyncio.sleep(0)
    gate.lift()
    with pytest.raises(asyncio.CancelledError):
        await saving
    assert told == ["then"]
    assert await behind == Saved(workspace="w", id="a", revision=2, value="one two")


async def test_a_save_that_the_store_refuses_leaves_no_trace(gate: Any, open_journal: Open, clock: ManualClock) -> None:
    notes = Notes(open_journal(gate.store), clock)
    gate.broken = StorageFull("no space", reason="test")
    row = KeptRow(kind="k", workspace="w", id="a", body=b"", expires_ms=None, updated_ms=1)
    with pytest.raises((StorageFull, StorageUnavailable)):
        await notes.save("w", "a", lambda _: "one", by="ann", keeps=[PutKept(row)])
    gate.broken = None
    assert notes.find("w", "a") is None
    assert gate.store.all_kept("k") == []


async def test_the_kept_rows_and_records_of_a_change_share_its_commit(
    store: Store, open_journal: Open, clock: ManualClock
) -> None:
    notes = Notes(open_journal(store), clock)
    row = KeptRow(kind="k", workspace="w", id="a", body=b"secret", expires_ms=None, updated_ms=1)
    await notes.save("w", "a", lambda _: "one", by="ann", keeps=[PutKept(row)], beside=[("token.issued", {"n": 1})])
    assert [each.type for each in store.records(0, 10)] == ["policy.changed", "token.issued"]
    assert store.kept("k", "w", "a") == row
    assert b'"by":"ann"' in (store.records(0, 1)[0].data or b"")


async def test_an_unreadable_resource_stops_the_start(store: Store, open_journal: Open, clock: ManualClock) -> None:
    journal = open_journal(store)
    other = Notes(journal, clock)
    other._to_body = lambda _: {"newer": 1}
    await other.save("w", "strange", lambda _: "x", by="ann")
    with pytest.raises(SettingsError, match="the saved channel strange cannot be read"):
        await Notes(journal, clock).load(store)


async def test_a_missing_resource_and_one_too_many_are_refused_with_a_hint(
    store: Store, open_journal: Open, clock: ManualClock
) -> None:
    notes = Notes(open_journal(store), clock)
    with pytest.raises(NotFound, match="there is no such note") as missing:
        notes.get("w", "a")
    assert (missing.value.reason, missing.value.hint) == ("no_channel", "`bollard notes` lists them")
    for number in range(3):
        await notes.save("w", f"n{number}", lambda _: "x", by="ann")
    with pytest.raises(Conflict, match="the workspace has 3 notes already"):
        await notes.save("w", "n3", lambda _: "x", by="ann")
    await notes.save("w", "n2", lambda _: "y", by="ann")
    await notes.save("v", "n3", lambda _: "x", by="ann")
