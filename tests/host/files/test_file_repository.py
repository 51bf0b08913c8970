"""Files of workspaces on every store: on disk first, then known, and the same after a restart and a rebuild."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.agents.agent import AgentRegistry
from bollard.host.capabilities.sources import Sources
from bollard.host.errors import Conflict, NotFound
from bollard.host.files.file_repository import FileRepository, NewFile
from bollard.host.grants.offer import OfferedFile, Offers
from bollard.host.log.journal import Journal
from bollard.host.log.rebuild import rebuild
from bollard.host.log.retention import STANDING
from bollard.host.store.store import Store

SMALL = NewFile(name="prices.csv", mime_type="text/csv", size_bytes=3, sha256="a" * 64)


@pytest.fixture
def open_book(open_journal: Callable[..., Journal], clock: ManualClock) -> Callable[..., FileRepository]:
    return lambda store, incarnation="i1", **more: FileRepository(open_journal(store, incarnation), clock, **more)


async def test_files_survive_a_restart_and_deleted_files_stay_deleted(open_book: Any, store: Store) -> None:
    book: FileRepository = open_book(store)
    kept = await book.add("w", SMALL, by="ann")
    gone = await book.add("w", SMALL, by="ann")
    elsewhere = await book.add("other", SMALL, by="bob")
    await book.remove("w", gone.file_id, by="ann")
    assert book.all("w") == [kept]
    again: FileRepository = open_book(store, "i2")
    await again.load(store, ["w", "other", "empty"])
    assert (again.all("w"), again.all("other"), again.all("empty")) == ([kept], [elsewhere], [])
    assert again.get("w", kept.file_id) == kept
    for absent in (gone.file_id, elsewhere.file_id, "file_never"):
        assert not again.has("w", absent)
        with pytest.raises(NotFound):
            again.get("w", absent)
        with pytest.raises(NotFound):
            await again.remove("w", absent, by="ann")


async def test_a_rebuild_makes_the_same_files(open_book: Any, store: Store) -> None:
    book: FileRepository = open_book(store)
    files = [await book.add("w", SMALL, by="ann") for _ in range(3)]
    await book.remove("w", files[1].file_id, by="ann")
    before = store.dump_projections()
    assert {row[0] for row in before["artifacts"]} == {files[0].file_id, files[2].file_id}
    rebuild(store)
    assert store.dump_projections() == before
    assert {"artifact.created", "artifact.deleted"} <= STANDING, "without their data a rebuild would forget it"


async def test_a_content_is_kept_until_its_last_file_is_deleted(open_book: Any, store: Store) -> None:
    book: FileRepository = open_book(store)
    one, two = await book.add("w", SMALL, by="ann"), await book.add("w", SMALL, by="ann")
    for file in (one, two):
        assert store.artifact_digests("", 10) == [SMALL.sha256]
        await book.remove("w", file.file_id, by="ann")
    assert store.artifact_digests("", 10) == []


async def test_a_workspace_has_a_limit_of_files(open_book: Any, memory_store: Store) -> None:
    book: FileRepository = open_book(memory_store, most=1)
    first = await book.add("w", SMALL, by="ann")
    with pytest.raises(Conflict):
        await book.add("w", SMALL, by="ann")
    await book.add("other", SMALL, by="ann")
    await book.remove("w", first.file_id, by="ann")
    await book.add("w", SMALL, by="ann")


async def test_every_file_is_offered_to_its_own_workspace_only(open_book: Any, memory_store: Store) -> None:
    book: FileRepository = open_book(memory_store)
    offers = Offers(AgentRegistry(), Sources(), book)
    assert offers.of("w").things["files"] == {}
    file = await book.add("w", SMALL, by="ann")
    offered = OfferedFile(file_id=file.file_id, source="config", file_name="prices.csv", mime_type="text/csv")
    assert offers.of("w").things["files"] == {file.file_id: offered}
    assert offers.of("other").things["files"] == {}
    await book.remove("w", file.file_id, by="ann")
    assert offers.of("w").things["files"] == {}
