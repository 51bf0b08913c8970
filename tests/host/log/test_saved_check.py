"""A start compares saved resources with the newest record about each."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.doubles.manual_clock import ManualClock

from bollard.host.errors import LogBroken, StoreMismatch
from bollard.host.log.journal import Journal
from bollard.host.log.rebuild import check_saved, rebuild
from bollard.host.log.saved_resources import SavedChange, SavedChanges
from bollard.host.store.rows import Change, DropPolicy, PolicyRow, PutPolicy
from bollard.host.store.store import Store
from bollard.trust.keys import SigningKey

Open = Callable[..., Journal]
BEN = PolicyRow(workspace="w", id="ben", revision=1, body=b'{"role":"admin"}', updated_ms=1)


async def saved_things(store: Store, journal: Journal, clock: ManualClock) -> None:
    """A user who was changed once, an agent with a gate, and a revoked key."""
    changes = SavedChanges(journal, clock)

    async def save(kind: Any, thing: str, revision: int, body: Any) -> None:
        change = SavedChange(kind=kind, workspace="w", id=thing, revision=revision, by="ann", body=body)
        await changes.write(change, lambda: None)

    await save("user", "ada", 1, {"role": "admin"})
    await save("user", "ada", 2, {"role": "viewer"})
    await save("agent", 'quo"te","action":"', 1, {"gate": "closed"})
    await save("key", "ci", 1, {"rights": ["runs.read"]})
    await save("key", "ci", 2, None)


def tampered(store: Store, change: Change) -> None:
    """Change a row, and not the log."""
    with store.write() as transaction:
        transaction.apply([change])


async def test_a_row_that_differs_from_the_log_stops_a_start_until_a_rebuild(
    store: Store, open_journal: Open, clock: ManualClock, signing_key: SigningKey
) -> None:
    await saved_things(store, open_journal(store), clock)
    check_saved(store, signing_key)
    (ada,) = store.policies("user", "w")
    (agent,) = store.policies("agent", "w")
    key = replace(ada, id="ci", revision=1, body=b'{"rights":["runs.read"]}')
    table: list[tuple[Change, str]] = [
        (PutPolicy("user", replace(ada, body=b'{"role":"admin"}')), "user ada of workspace w differs from the log"),
        (PutPolicy("user", replace(ada, revision=1, body=b'{"role":"admin"}')), "user ada of workspace w differs"),
        (PutPolicy("user", replace(ada, updated_ms=ada.updated_ms + 1)), "user ada"),
        (PutPolicy("user", BEN), "user ben of workspace w differs"),
        (DropPolicy("user", "w", "ada"), "user ada of workspace w is in the log, but its row is missing"),
        (PutPolicy("agent", replace(agent, body=b'{"gate":"open"}')), 'agent quo"te'),
        (PutPolicy("key", key), "key ci of workspace w differs"),
    ]
    for change, said in table:
        tampered(store, change)
        with pytest.raises(StoreMismatch) as refused:
            check_saved(store, signing_key)
        assert said in refused.value.message
        assert "`bollard log rebuild`" in refused.value.hint
        rebuild(store)
        check_saved(store, signing_key)


async def test_a_start_reads_only_the_newest_record_of_each_resource(
    store: Store, open_journal: Open, clock: ManualClock, signing_key: SigningKey
) -> None:
    journal = open_journal(store)
    changes = SavedChanges(journal, clock)
    for revision in range(1, 21):
        for kind in ("user", "agent"):
            body = {"revision": revision}
            change = SavedChange(kind=kind, workspace="w", id="a", revision=revision, by="ann", body=body)
            await changes.write(change, lambda: None)
    read = [json.loads(row.data or b"")["revision"] for row, _ in store.newest_saved()]
    assert read == [20, 20]


async def test_an_edited_newest_record_is_named_and_accepted_only_on_request(
    sqlite_store: Store, sqlite_path: Path, open_journal: Open, clock: ManualClock, signing_key: SigningKey
) -> None:
    await saved_things(sqlite_store, open_journal(sqlite_store), clock)
    edits = [
        ("data", "CAST(replace(data, 'viewer', 'admins') AS BLOB)", "data was changed"),
        ("data_sha256", "'00'", "header or hash was changed"),
        ("created_ms", "created_ms + 1", "header or hash was changed"),
        ("hash", "data_sha256", "header or hash was changed"),
        ("position", "'x'", "cannot be read"),
    ]
    connection = sqlite3.connect(sqlite_path, isolation_level=None)
    for column, value, said in edits:
        (before,) = connection.execute(f"SELECT {column} FROM records WHERE id = 2").fetchone()
        connection.execute(f"UPDATE records SET {column} = {value} WHERE id = 2")
        with pytest.raises(LogBroken, match=said) as refused:
            check_saved(sqlite_store, signing_key)
        name = str(refused.value.details["name"])
        if column in ("data", "created_ms"):  # what the row is made of
            with pytest.raises(StoreMismatch, match="user ada"):
                check_saved(sqlite_store, signing_key, name)
        elif column in ("hash", "position"):  # the next record does not follow on it
            with pytest.raises(LogBroken, match="record 3"):
                check_saved(sqlite_store, signing_key, name)
        else:
            check_saved(sqlite_store, signing_key, name)
        connection.execute(f"UPDATE records SET {column} = ? WHERE id = 2", (before,))
        check_saved(sqlite_store, signing_key)
    connection.close()


async def test_a_newest_record_with_data_of_another_type_is_named_and_a_rebuild_skips_it(
    sqlite_store: Store, sqlite_path: Path, open_journal: Open, clock: ManualClock, signing_key: SigningKey
) -> None:
    """SQLite takes values of any type."""
    await saved_things(sqlite_store, open_journal(sqlite_store), clock)
    connection = sqlite3.connect(sqlite_path, isolation_level=None)
    for value in ("replace(data, 'viewer', 'admins')", "'no JSON'", "12"):
        connection.execute(f"UPDATE records SET data = {value} WHERE id = 2")
        with pytest.raises(LogBroken, match="cannot be read"):
            check_saved(sqlite_store, signing_key)
    assert rebuild(sqlite_store).skipped == 1
    connection.close()
