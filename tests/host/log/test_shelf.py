"""Saved things in memory as they are on disk: never ahead of it, never behind."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bollard.host.clock import ManualClock
from bollard.host.errors import Conflict, InvalidRequest, NotFound, SettingsError, StorageFull, StorageUnavailable
from bollard.host.log.journal import Journal
from bollard.host.log.saved_resources import Saved, SavedChanges, SavedResources
from bollard.host.store.rows import KeptRow, PutKept
from bollard.host.store.store import Store

Open = Callable[..., Journal]


def shelf_on(journal: Journal, clock: ManualClock, heard: list[Any] | None = None) -> SavedResources[str]:
    def read(body: dict[str, Any], workspace: str) -> str:
        del workspace
        if "says" not in body:
            raise InvalidRequest("says: this field is needed")
        return body["says"]

    def watch(before: Saved[str] | None, after: Saved[str] | None) -> None:
        if heard is not None:
            heard.append((before and before.thing, after and after.thing))

    return SavedResources(
        "channel",
        changes=SavedChanges(journal, clock),
        read=read,
        write=lambda says: {"says": says},
        watch=watch,
    )


def there(before: Saved[str] | None) -> None:
    if before is None:
        raise NotFound("there is no such thing")


async def test_a_thing_is_saved_changed_found_again_and_deleted(
    store: Store, open_journal: Open, clock: ManualClock
) -> None:
    heard: list[Any] = []
    shelf = shelf_on(open_journal(store), clock, heard)
    await shelf.save("w", "b", lambda _: "one", by="ann")
    await shelf.save("w", "b", lambda before: f"{before and before.thing} two", by="ann", edited=1)
    await shelf.save("v", "a", lambda _: "other", by="bob")
    assert heard == [(None, "one"), ("one", "one two"), (None, "other")]
    again = shelf_on(open_journal(store, "i2"), clock)
    await again.load(store)
    assert again.get("w", "b") == Saved(workspace="w", id="b", revision=2, thing="one two")
    assert [(each.workspace, each.id) for each in again.everywhere()] == [("v", "a"), ("w", "b")]
    assert (again.count("w"), again.count("nowhere"), again.all("nowhere")) == (1, 0, [])
    await again.delete("w", "b", there, by="ann")
    assert again.get("w", "b") is None
    assert store.policies("channel", "w") == []
    with pytest.raises(NotFound):
        await again.delete("w", "b", there, by="ann")


async def test_an_older_revision_is_refused_and_nothing_changes(
    store: Store, open_journal: Open, clock: ManualClock
) -> None:
    shelf = shelf_on(open_journal(store), clock)
    await shelf.save("w", "a", lambda _: "one", by="ann", edited=0)
    for edited in (0, 2):
        with pytest.raises(Conflict) as caught:
            await shelf.save("w", "a", lambda _: "two", by="ann", edited=edited)
        assert caught.value.details["revision"] == 1
    with pytest.raises(Conflict):
        await shelf.delete("w", "a", there, by="ann", edited=2)
    assert [row.revision for row in store.policies("channel", "w")] == [1]


async def test_of_two_changes_of_one_revision_one_is_made(store: Store, open_journal: Open, clock: ManualClock) -> None:
    shelf = shelf_on(open_journal(store), clock)
    await shelf.save("w", "a", lambda _: "one", by="ann")
    changes = [shelf.save("w", "a", lambda _, says=says: says, by="ann", edited=1) for says in ("two", "three")]
    ends = await asyncio.gather(*changes, return_exceptions=True)
    assert [type(end) for end in ends] == [Saved, Conflict]
    found = shelf.get("w", "a")
    assert found is not None
    assert found.thing == "two"


async def test_nobody_sees_a_thing_before_it_is_on_disk_and_who_goes_away_does_not_stop_it(
    gate: Any, open_journal: Open, clock: ManualClock
) -> None:
    told: list[str] = []
    shelf = shelf_on(open_journal(gate.store), clock)
    gate.shut()
    saving = asyncio.create_task(shelf.save("w", "a", lambda _: "one", by="ann", then=lambda: told.append("then")))
    await gate.arrival()
    assert shelf.get("w", "a") is None
    saving.cancel()
    behind = asyncio.create_task(shelf.save("w", "a", lambda before: f"{before and before.thing} two", by="bob"))
    await asyncio.sleep(0)
    gate.lift()
    with pytest.raises(asyncio.CancelledError):
        await saving
    assert told == ["then"]
    assert await behind == Saved(workspace="w", id="a", revision=2, thing="one two")


async def test_what_the_store_refuses_is_nowhere(gate: Any, open_journal: Open, clock: ManualClock) -> None:
    shelf = shelf_on(open_journal(gate.store), clock)
    gate.broken = StorageFull("no space")
    row = KeptRow(kind="k", workspace="w", id="a", body=b"", expires_ms=None, updated_ms=1)
    with pytest.raises((StorageFull, StorageUnavailable)):
        await shelf.save("w", "a", lambda _: "one", by="ann", keeps=[PutKept(row)])
    gate.broken = None
    assert shelf.get("w", "a") is None
    assert gate.store.all_kept("k") == []


async def test_what_goes_with_a_change_is_in_its_commit(store: Store, open_journal: Open, clock: ManualClock) -> None:
    shelf = shelf_on(open_journal(store), clock)
    row = KeptRow(kind="k", workspace="w", id="a", body=b"secret", expires_ms=None, updated_ms=1)
    await shelf.save("w", "a", lambda _: "one", by="ann", keeps=[PutKept(row)], beside=[("token.issued", {"n": 1})])
    assert [each.type for each in store.records(0, 10)] == ["policy.changed", "token.issued"]
    assert store.kept("k", "w", "a") == row
    assert b'"by":"ann"' in (store.records(0, 1)[0].data or b"")


async def test_a_thing_that_cannot_be_read_stops_the_start(
    store: Store, open_journal: Open, clock: ManualClock
) -> None:
    journal = open_journal(store)
    other: SavedResources[str] = SavedResources(
        "channel", changes=SavedChanges(journal, clock), read=lambda *_: "", write=lambda _: {"newer": 1}
    )
    await other.save("w", "strange", lambda _: "x", by="ann")
    with pytest.raises(SettingsError, match="the saved channel strange cannot be read"):
        await shelf_on(journal, clock).load(store)
