"""`events.get` and `events.page`: the events of the run's conversation, or only its own event."""

from typing import Any

from tests.doubles.failing_store import FailurePlan, failing

from bollard.host.log.entries import Entry
from bollard.host.log.records import NewRecord
from bollard.host.run_api.handlers import Events
from bollard.host.run_api.pages import Cursors
from bollard.host.run_api.reach import ArtifactReach
from bollard.protocol import EventsPage


def ids(page: dict[str, Any]) -> list[str]:
    return [item["event_id"] for item in page["items"]]


async def test_an_event_of_the_conversation_is_shown_without_its_payload(house: Any) -> None:
    first = await house.begin(text="hello", actor_name="Ann", data={"raw": "payload"}, event_ms=1_500)
    run = await house.begin()

    event = await house.ask(run, "events.get", event_id=first.facts.event_id)

    assert event["event_type"] == "message.received"
    assert event["actor_name"] == "Ann"
    assert event["input_summary"] == "hello"
    assert event["event_time"] == 1.5
    assert event["workspace_id"] == "default"
    assert "payload" not in str(event)


async def test_events_are_paged_oldest_first_towards_the_past(house: Any) -> None:
    runs = [await house.begin() for _ in range(5)]
    await house.begin(conversation="other")
    await house.begin(thread="aside")
    await house.begin(bot="second")

    newest = await house.ask(runs[0], "events.page", limit=2)
    older = await house.ask(runs[0], "events.page", limit=2, before=newest["next_cursor"])
    oldest = await house.ask(runs[0], "events.page", limit=2, before=older["next_cursor"])

    wanted = [run.facts.event_id for run in runs]
    assert ids(newest) == wanted[3:]
    assert ids(older) == wanted[1:3]
    assert ids(oldest) == wanted[:1]
    assert (older["has_more"], oldest["has_more"]) == (True, False)
    assert "next_cursor" not in oldest


async def test_a_page_reads_only_the_events_of_its_conversation(memory_house: Any) -> None:
    run = await memory_house.begin()
    plan = FailurePlan(only="read.")
    store = failing(memory_house.store, plan)
    events = Events(store, Cursors(b"s" * 32), ArtifactReach(store, memory_house.clock).find)
    for _ in range(6):
        await memory_house.begin(conversation="other")

    page = await events.page(run, EventsPage())

    assert [item.event_id for item in page.items] == [run.facts.event_id]
    assert page.has_more is False
    read = ["read.events_in", "read.facts", "read.records"]
    assert plan.calls == read, "the place, its facts, and its one event: not those of others"


async def test_a_run_without_a_conversation_sees_only_its_own_event(house: Any) -> None:
    other = await house.begin(conversation=None)
    run = await house.begin(conversation=None)

    page = await house.ask(run, "events.page")

    assert ids(page) == [run.facts.event_id]
    assert (await house.ask(run, "events.get", event_id=run.facts.event_id))["event_id"] == run.facts.event_id
    assert (await house.refusal(run, "events.get", event_id=other.facts.event_id)).code == "not_found"
    assert ids(await house.ask(run, "events.page", before=page["items"][0]["cursor"])) == []


async def test_a_cursor_of_another_run_or_action_is_refused(house: Any) -> None:
    run, other = await house.begin(), await house.begin(conversation="other")
    foreign = [
        (await house.ask(other, "events.page"))["items"][0]["cursor"],
        (await house.ask(run, "history.page"))["items"][0]["cursor"],
        "nonsense",
    ]

    refusals = [await house.refusal(run, "events.page", before=cursor) for cursor in foreign]

    assert {refused.code for refused in refusals} == {"invalid_argument"}
    assert len({refused.bytes for refused in refusals}) == 1


async def test_an_event_names_the_artifact_of_its_raw_payload(house: Any) -> None:
    first = await house.begin(raw=house.raw(b"picture"))
    steered, message = await house.steer(first, raw=house.raw(b"another"))
    run = await house.begin()

    event = await house.ask(run, "events.get", event_id=first.facts.event_id)
    page = await house.ask(run, "events.page")

    assert event["raw_ref"] == {
        "artifact_id": house.event_of(first).raw.artifact_id,
        "mime_type": "image/png",
        "size_bytes": 7,
    }
    refs = {item["event_id"]: item.get("raw_ref") for item in page["items"]}
    assert refs[first.facts.event_id] == event["raw_ref"]
    assert refs[steered]["artifact_id"] == message.raw.artifact_id
    assert refs[run.facts.event_id] is None
    assert await house.ask(run, "artifacts.read", artifact_id=message.raw.artifact_id)


async def test_a_dropped_event_does_not_name_its_raw_payload(house: Any) -> None:
    run = await house.begin()
    event = house.queued(raw=house.raw(b"picture")).event
    data = event.record("evt_dropped", None, dropped={"code": "no_agent", "message": "nobody"})
    record = NewRecord(workspace="default", type="event.received", data=data, created_ms=house.clock.now_ms())
    await house.journal.commit(Entry(records=[record]))

    page = await house.ask(run, "events.page")

    assert ids(page) == [run.facts.event_id, "evt_dropped"]
    assert "raw_ref" not in page["items"][1]
