"""A message is dropped only if a user cancels the run that it was sent into (§9)."""

from typing import Any

import pytest

from bollard.host.store.store import Store


@pytest.mark.requirement("P09-04")
@pytest.mark.parametrize("pulled", [False, True])
async def test_a_runner_that_reports_a_failure_as_cancelled_drops_no_message(
    store: Store, rooms: Any, pulled: bool
) -> None:
    room = await rooms(store)
    run = await room.begin()
    await room.say("answer me")
    if pulled:
        assert await room.pull(run) == ["answer me"]
    await room.give_up(run, "cancelled")
    await room.stage.ended(run.run_id)
    assert await room.answer_all(after=1) == ["answer me"]
    kind, dropped = room.steering(run.run_id)[-1]
    assert (kind, dropped["redispatch"], dropped["pulled"]) == ("steering.dropped", True, pulled)
    assert room.stage.row(run.run_id).status == "cancelled", "its end is what the runner said"
    room.check()


@pytest.mark.requirement("P09-04")
async def test_an_interrupting_message_drops_no_steering_message_of_the_run(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    for text in ("pulled", "waits"):
        assert (await room.say(text)).steered
        if text == "pulled":
            assert await room.pull(run) == ["pulled"]
    room.agent("interrupt")  # saved meanwhile
    assert not (await room.say("instead")).steered
    await room.until(lambda: room.stage.dispatcher.live[run.run_id].state.cancel is not None)
    await room.give_up(run)
    await room.stage.ended(run.run_id)
    assert sorted(await room.answer_all(after=1)) == ["instead", "pulled", "waits"]
    room.check()


@pytest.mark.requirement("P09-04")
async def test_stopping_a_run_drops_its_steering_messages(store: Store, rooms: Any) -> None:
    room = await rooms(store)
    run = await room.begin()
    await room.say("never mind")
    await room.stage.dispatcher.cancel(run.run_id, "cancelled")
    await room.give_up(run, "runner.error")
    await room.stage.ended(run.run_id)
    assert await room.answer_all(after=1) == []
    assert room.steering(run.run_id)[-1][1]["redispatch"] is False, "whatever the runner called it"
    room.check()
