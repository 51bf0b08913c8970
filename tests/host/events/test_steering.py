"""A message for a busy conversation steers the active run, or gets its own run in its turn (§9)."""

import asyncio
from typing import Any

import pytest
from tests.doubles.memory_store import MemoryStore

from bollard.host.runs.control import RunControl
from bollard.host.runs.event import RawPayload
from bollard.host.store.store import Store
from bollard.protocol import AgentRunContext, SteeringInputItem
from bollard.protocol.limits import STEERING_QUEUE


@pytest.mark.requirement("P09-03")
async def test_a_message_pulled_by_a_completed_run_is_acknowledged(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    accepted = await room.say("and this")
    assert (accepted.first, accepted.steered, accepted.run_id) == (True, True, run.run_id)
    epoch, seq = accepted.place
    assert [(row.type, row.epoch) for row in room.stage.records(run.run_id) if row.seq == seq] == [
        ("steering.queued", epoch)
    ]
    assert (room.row(accepted).dispatch, room.row(accepted).steering) == ("steering", "queued")
    assert await room.pull(run) == ["and this"]
    assert await room.pull(run) == [], "it is given once"
    assert room.row(accepted).steering == "injected"
    await room.answer(run)
    moves = [kind for kind, data in room.steering(run.run_id) if data["event_id"] == accepted.event_id]
    assert moves == ["steering.queued", "steering.injected", "steering.acknowledged"]
    row = room.row(accepted)
    assert (row.dispatch, row.steering, row.run_id) == ("steering", "acknowledged", run.run_id)
    assert len(room.worker.runs) == 1
    room.check()


async def test_the_place_of_a_message_does_not_change_while_it_is_written(gate: Any, rooms: Any) -> None:
    room = await rooms(gate.store)
    run = await room.begin()
    live = room.stage.dispatcher.live[run.run_id]
    before = live.place[1]
    saying = asyncio.create_task(room.say("and this"))
    async with asyncio.timeout(120):
        while live.place[1] == before:  # noqa: ASYNC110 -- the number of a record has no notification
            await asyncio.sleep(0)
    assert live.note("api.called", {"action": "host.info", "outcome": "ok"}, pressing=False)
    accepted = await saying
    assert accepted.place == (1, before + 1)
    assert live.place[1] > before + 1
    await room.answer(run)


@pytest.mark.requirement("P09-04")
async def test_a_message_that_was_never_pulled_gets_its_own_run(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    accepted = await room.say("too late")
    await room.answer(run)
    assert await room.answer_all(after=1) == ["too late"]
    [_, (kind, dropped)] = room.steering(run.run_id)
    assert (kind, dropped["reason"], dropped["redispatch"]) == ("steering.dropped", "not_pulled", True)
    row = room.row(accepted)
    assert (row.dispatch, row.run_id) == ("run", room.worker.runs[1].run_id)
    assert room.stage.row(row.run_id).event_id == accepted.event_id
    room.check()


@pytest.mark.requirement("P09-04")
@pytest.mark.parametrize("code", ["runner.error", "runner.no_output"])
async def test_a_message_pulled_by_a_failed_run_gets_its_own_run(store: Store, rooms: Any, code: str) -> None:
    room = await rooms(store)
    run = await room.begin()
    await room.say("and this")
    assert await room.pull(run) == ["and this"]
    if code == "runner.error":
        await run.emit("run.failed", {"code": code, "error": "no", "retryable": False})
        room.worker.end.finish_run(run)
    else:
        await room.worker.complete(run)
    assert await room.answer_all(after=1) == ["and this"]
    assert room.steering(run.run_id)[-1][1]["reason"] == code
    room.check()


async def test_returned_messages_are_dispatched_one_at_a_time_in_arrival_order(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    texts = [f"message {number}" for number in range(5)]
    for text in texts:
        assert (await room.say(text)).steered
    await room.answer(run)
    second = await room.nth_run(2)
    async with asyncio.timeout(120):  # the others are on their way to the disk
        while len(room.store.unfinished_runs("", 10)) < 5:  # noqa: ASYNC110 -- another thread writes them
            await asyncio.sleep(0.01)
    assert [row.status for row in room.store.unfinished_runs("", 10)].count("queued") == 4, "one at a time"
    assert second.request["context"]["input"]["text"] == texts[0]
    assert await room.answer_all(after=1) == texts
    room.check()


@pytest.mark.requirement("P09-04")
async def test_returned_messages_keep_their_position_among_queued_runs(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    assert (await room.say("first")).steered
    assert not (await room.say("second", "bob")).steered
    assert (await room.say("third")).steered
    room.agent("queue")
    assert not (await room.say("fourth")).steered
    await room.answer(run)
    assert await room.answer_all(after=1) == ["first", "second", "third", "fourth"]
    room.check()


async def test_messages_returned_by_a_full_run_precede_its_overflow(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store)
    run = await room.begin()
    texts = [str(number) for number in range(STEERING_QUEUE + 2)]
    steered = [(await room.say(text)).steered for text in texts]
    assert steered == [True] * STEERING_QUEUE + [False] * 2
    await room.answer(run)
    assert await room.answer_all(after=1) == texts
    room.check()


async def test_waiting_runs_do_not_wait_for_messages_of_a_missing_agent(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store)
    run = await room.begin()
    await room.say("first")
    await room.say("second", "bob")
    room.stage.agents.withdraw("plugin:acme/parrot/default")
    await room.answer(run)
    await room.answer(await room.nth_run(2))
    room.agent()
    assert await room.answer_all(after=2) == ["first"]
    room.check()


async def test_a_runner_that_pulls_one_message_gets_the_oldest(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store)
    run = await room.begin()
    for text in ("a", "b", "c"):
        await room.say(text)
    pulled: list[str] = []
    for _ in range(3):
        found: Any = await run.call("steering.pull", {"mode": "one-at-a-time"})
        pulled += [item["input"]["text"] for item in found["items"]]
    assert pulled == ["a", "b", "c"]


async def test_a_pulled_message_names_its_actor_and_its_run(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store, steer_from="conversation")
    run = await room.begin()
    accepted = await room.say("from bob", "bob", data={"n": 1})
    found: Any = await run.call("steering.pull", {"mode": "all"})
    [item] = found["items"]
    assert (item["claimed_run_id"], item["runner_id"]) == (run.run_id, "plugin:acme/parrot/default")
    assert (item["event"]["event_id"], item["event"]["data"]) == (accepted.event_id, {"n": 1})
    assert (item["actor"]["actor_type"], item["actor"]["actor_id"]) == ("user", "bob")
    assert item["conversation"]["conversation_id"] == "room"


async def test_a_pulled_item_has_the_same_event_and_input_as_a_separate_run(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    raw = RawPayload(artifact_id="art_photo", sha256="0" * 64, size_bytes=9, mime_type="image/png")
    picture = {"type": "image_url", "image_url": {"url": "https://pictures.example/cat.png"}}
    accepted = await room.say(
        "look",
        data={"n": 1},
        raw=raw,
        contents=(picture,),
        event_ms=1_500,
        source_event_type="photo.taken",
        bot=None,
        actor_name="Ann",
        subject_type="photo",
        subject_id="p1",
    )
    assert accepted.steered
    found: Any = await run.call("steering.pull", {"mode": "all"})
    [item] = found["items"]
    await room.give_up(run, "runner.error")
    own: Any = (await room.nth_run(2)).request
    context = own["context"]
    assert item["event"] == {
        "event_id": accepted.event_id,
        "event_type": "message.received",
        "event_time": 1.5,
        "source": "web",
        "source_event_type": "photo.taken",
        "raw_ref": {"artifact_id": "art_photo", "mime_type": "image/png", "size_bytes": 9},
        "data": {"n": 1},
    }
    assert item["input"] == {"text": "look", "contents": [picture], "attachments": []}
    given = {name: item[name] for name in ("event", "input", "conversation", "actor", "subject")}
    read = AgentRunContext.from_wire(context)
    assert SteeringInputItem.from_wire(item).model_dump(include=set(given)) == read.model_dump(include=set(given))
    await room.answer_all(after=1)


# --- what steers ---


@pytest.mark.requirement("P09-03", "P09-08")
@pytest.mark.parametrize("kind", ["reaction.added", "schedule.triggered", "message.edited", "photo.taken"])
@pytest.mark.parametrize("mode", ["steer", "interrupt", "reject", "queue"])
async def test_an_event_other_than_a_message_waits_its_turn(
    memory_store: MemoryStore, rooms: Any, mode: str, kind: str
) -> None:
    room = await rooms(memory_store, mode, steer_from="conversation")
    run = await room.begin()
    accepted = await room.say("thumbs up", event_type=kind)
    assert not accepted.steered
    assert room.stage.row(accepted.run_id).status == "queued"
    assert room.stage.dispatcher.live[run.run_id].state.cancel is None
    await room.answer(run)
    assert room.stage.row(run.run_id).status == "completed"
    assert await room.answer_all(after=1) == ["thumbs up"]
    room.check()


async def test_a_message_steers_past_a_waiting_event_of_its_actor(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    await room.say("thumbs up", event_type="reaction.added")
    assert (await room.say("stop")).steered
    assert await room.pull(run) == ["stop"]
    await room.answer(run)
    assert await room.answer_all(after=1) == ["thumbs up"]
    room.check()


# --- rights to steer ---


@pytest.mark.requirement("P09-06")
@pytest.mark.parametrize("actor", ["bob", None])
async def test_by_default_messages_of_other_actors_do_not_steer(store: Store, rooms: Any, actor: str | None) -> None:
    room = await rooms(store)
    run = await room.begin()
    accepted = await room.say("from somebody else", actor)
    assert not accepted.steered
    assert room.stage.row(accepted.run_id).status == "queued"
    assert await room.pull(run) == []
    await room.answer(run)
    assert await room.answer_all(after=1) == ["from somebody else"]
    room.check()


async def test_a_run_without_an_actor_is_not_steered(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store)
    await room.begin(actor=None)
    assert not (await room.say("who is this", None)).steered
    assert not (await room.say("it is me")).steered


async def test_an_agent_may_let_the_whole_conversation_steer(store: Store, rooms: Any) -> None:
    room = await rooms(store, steer_from="conversation")
    run = await room.begin()
    for actor in ("bob", None, "ann"):
        assert (await room.say(f"from {actor}", actor)).steered
    assert await room.pull(run) == ["from bob", "from None", "from ann"]
    await room.answer(run)
    assert not room.store.unfinished_runs("", 1)
    room.check()


async def test_a_message_steers_past_waiting_runs_of_others_but_not_past_its_own(
    memory_store: MemoryStore, rooms: Any
) -> None:
    room = await rooms(memory_store)
    run = await room.begin()
    assert not (await room.say("bob waits", "bob")).steered
    assert (await room.say("ann corrects herself")).steered
    await room.answer(run)
    bobs = await room.nth_run(2)
    assert bobs.request["context"]["input"]["text"] == "bob waits"
    behind = await room.say("ann again")
    assert not behind.steered, "a run of hers waits already"
    await room.answer(bobs)
    assert await room.answer_all(after=2) == ["ann corrects herself", "ann again"]
    room.check()


async def test_other_conversations_threads_and_bots_have_other_lanes(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store)
    await room.begin()
    for place in ({"conversation": "hall"}, {"thread": "t"}, {"bot": "b"}, {"conversation": None}):
        accepted = await room.say("elsewhere", **place)
        assert not accepted.steered
        assert (await room.run_of(accepted)).run_id == accepted.run_id, "it starts at once"


async def test_a_runner_without_steering_gets_its_messages_in_turn(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store)
    room.stage.agent(policy=room.stage.agents.get("parrot").policy, capabilities=frozenset())
    run = await room.begin()
    accepted = await room.say("next")
    assert not accepted.steered
    await room.answer(run)
    assert await room.answer_all(after=1) == ["next"]


# --- revocations ---


@pytest.mark.requirement("P09-07")
async def test_a_run_whose_pull_is_revoked_claims_no_message_and_returns_its_queue(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    before = await room.say("before")
    assert before.steered
    control = RunControl(store, room.stage.dispatcher.live)
    await control.revoke(run.run_id, operations=("steering.pull",), by="operator")
    after = await room.say("after")
    assert not after.steered
    assert room.stage.row(after.run_id).status == "queued"
    assert not room.stage.data(after.run_id, "run.created")[0].get("adopts"), "nobody tried to give it to the run"
    assert room.row(before).steering == "queued"
    await room.answer(run)
    assert sorted(await room.answer_all(after=1)) == ["after", "before"]
    assert [kind for kind, _ in room.steering(run.run_id)] == ["steering.queued", "steering.dropped"]
    room.check()


async def test_a_message_in_flight_is_not_claimed_after_pull_is_revoked(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    room.turnstile.lock()
    saying = room.saying("on its way")
    await room.turnstile.arrival()
    control = RunControl(store, room.stage.dispatcher.live)
    revoking = asyncio.create_task(control.revoke(run.run_id, operations=("steering.pull",), by="operator"))
    await room.until(lambda: room.stage.dispatcher.live[run.run_id].revoked.operations)
    room.turnstile.unlock()
    await revoking
    accepted = await saying
    assert not accepted.steered
    assert room.steering(run.run_id) == []
    await room.answer(run)
    assert await room.answer_all(after=1) == ["on its way"]
    room.check()


# --- limits ---


@pytest.mark.requirement("P09-07")
async def test_a_message_beyond_a_full_queue_gets_its_own_run(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store)
    run = await room.begin()
    steered = [await room.say(str(number)) for number in range(STEERING_QUEUE)]
    assert all(accepted.steered for accepted in steered)
    over = await room.say("one too many")
    assert not over.steered
    assert room.stage.row(over.run_id).status == "queued"
    assert len(await room.pull(run)) == STEERING_QUEUE
    assert not (await room.say("behind it")).steered, "a run of hers waits: nothing overtakes it"
    await room.answer(run)
    assert await room.answer_all(after=1) == ["one too many", "behind it"]
    room.check()


async def test_a_starting_run_gets_no_more_messages_than_it_may_hold(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store, runs_at_once=1)
    run = await room.begin()
    waits = await room.say("elsewhere", conversation="hall")  # its turn is now, and there is no room for it
    live = room.stage.dispatcher.live[run.run_id]
    live.done.add_done_callback(lambda _: room.turnstile.lock())
    await room.answer(run)
    await room.turnstile.arrival()  # it is being claimed
    sent = [room.saying(str(number), conversation="hall") for number in range(STEERING_QUEUE + 5)]
    await room.until(lambda: room.stage.journal.waiting > STEERING_QUEUE)
    room.turnstile.unlock()
    accepted = await asyncio.gather(*sent)
    assert [each.run_id == waits.run_id for each in accepted] == [True] * STEERING_QUEUE + [False] * 5


async def test_messages_beyond_the_size_of_one_pull_are_in_the_next(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store)
    run = await room.begin()
    said = [f"{number}" + "x" * 240_000 for number in range(9)]
    accepted = [await room.say(text) for text in said]
    assert all(each.steered for each in accepted)
    pulled: list[str] = []
    while found := await room.pull(run):
        assert len(found) < len(said)
        pulled += found
    assert pulled == said
    await room.answer(run)
    assert {room.row(each).steering for each in accepted} == {"acknowledged"}
    room.check()


async def test_a_message_too_large_for_a_pull_gets_its_own_run(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store)
    run = await room.begin()
    text = "\x01" * 200_000  # six bytes each in JSON
    large = await room.say(text)
    assert not large.steered
    await room.answer(run)
    assert await room.answer_all(after=1) == [text]


async def test_duplicate_messages_do_not_fill_the_queue(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store)
    await room.begin()
    event = room.event("again and again")
    for _ in range(STEERING_QUEUE + 5):
        assert (await room.accept(event)).steered
    assert (await room.say("another")).steered


# --- the same message again ---


async def test_a_duplicate_of_a_steered_message_gets_its_first_answer(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    event = room.event("once")
    outcomes = await asyncio.gather(*(room.accept(event) for _ in range(20)))
    assert sum(outcome.first for outcome in outcomes) == 1
    assert {outcome.event_id for outcome in outcomes} == {outcomes[0].event_id}
    again = await room.accept(event)
    assert (again.first, again.steered, again.run_id) == (False, True, run.run_id)
    assert await room.pull(run) == ["once"]
    await room.answer(run)
    after = await room.accept(event)
    assert (after.first, after.steered, after.run_id) == (False, True, run.run_id)
    assert len(room.worker.runs) == 1
    room.check()


async def test_a_duplicate_of_a_returned_message_gets_the_run_of_the_message(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    event = room.event("given back")
    first = await room.accept(event)
    await room.answer(run)
    second = await room.nth_run(2)
    again = await room.accept(event)
    assert (again.event_id, again.run_id, again.steered) == (first.event_id, second.run_id, False)
    await room.answer(second)
    assert len(room.worker.runs) == 2
    room.check()


async def test_a_duplicate_of_an_event_with_its_own_run_does_not_steer(memory_store: MemoryStore, rooms: Any) -> None:
    room = await rooms(memory_store)
    event = room.event("begin")
    accepted = await room.accept(event)
    run = await room.run_of(accepted)
    again = await room.accept(event)
    assert (again.run_id, again.steered) == (accepted.run_id, False)
    assert await room.pull(run) == []
