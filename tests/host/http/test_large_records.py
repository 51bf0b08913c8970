"""Records of a run that are so large that a page of them would be too much."""

from typing import Any, cast

from tests.doubles.memory_store import MemoryStore

from bollard.host.http.resources.run_rows import RunRows
from bollard.host.identity.audience import Audience
from bollard.host.log.entries import Entry


def test_a_page_of_large_records_is_shorter(shop: Any) -> None:
    shop.save_agent("bard", "workshop/bard")
    run_id = shop.tell("bard", "1000000 9").json["run_id"]
    # A reader of a live run may fall behind nine million characters, and is then sent away with a gap.
    shop.until(f"/api/v1/runs/{run_id}", lambda run: run["status"] == "completed")
    events = shop.read(run_id)
    records, path, pages = [], f"/api/v1/runs/{run_id}/records?limit=100", 0
    page = shop.get(path).json
    while True:
        records += page["items"]
        pages += 1
        if not page["has_more"]:
            break
        page = shop.get(f"{path}&cursor={page['next_cursor']}").json
    assert [record["seq"] for record in records] == [event.data["seq"] for event in events]
    assert pages > 2


async def test_a_run_with_large_records_names_every_steering_message(
    memory_store: MemoryStore, open_journal: Any, scribe: Any, clock: Any
) -> None:
    journal, facts = open_journal(memory_store), scribe.facts()
    await journal.commit(scribe.first(facts))
    said = [("tool.call.started", {"text": "x" * 1_000_000})] * 6
    given = [("steering.queued", {"event_id": "evt_1"}), ("steering.injected", {"event_id": "evt_1"})]
    for seq, (kind, data) in enumerate([given[0], *said, given[1]], 3):
        await journal.commit(Entry(records=[scribe.record(facts, kind, data, seq)], fence=(facts.run_id, 1)))
    row = memory_store.run(facts.run_id)
    assert row is not None
    rows = RunRows(memory_store, cast("Audience", None), clock)
    assert await rows.steering_of(row) == [{"event_id": "evt_1", "status": "injected"}]
