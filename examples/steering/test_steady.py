"""The steady runner, in memory."""

from typing import Any

import pytest
from steady import steady

from bollard.sdk.testing import MemoryHost, Steer

pytestmark = pytest.mark.anyio

QUICK: dict[str, Any] = {"steps": 3, "pause_s": 0}
WELL = "history read, state kept"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_it_works_step_by_step_and_keeps_where_it_is():
    outcome = await MemoryHost().run(steady, "go", config=QUICK)
    assert outcome.text == "".join(f"step {step}: {WELL}\n" for step in (1, 2, 3)) + "done\n"
    assert [call.params["value"] for call in outcome.calls if call.action == "state.set"] == [1, 2, 3]


async def test_what_it_is_told_between_two_steps_it_says_before_the_next():
    host = MemoryHost(steering=[Steer("use blue", after="message.delta")])
    outcome = await host.run(steady, "go", config=QUICK)
    assert outcome.text.splitlines()[:3] == [f"step 1: {WELL}", "told: use blue", f"step 2: {WELL}"]
    assert outcome.steering == (("use blue", "acknowledged"),)


@pytest.mark.parametrize("words", ["enough", " Enough ", "够了"])
async def test_enough_ends_it(words: str):
    host = MemoryHost(steering=[Steer(words, after="message.delta")])
    outcome = await host.run(steady, "go", config=QUICK)
    assert outcome.text == f"step 1: {WELL}\ntold: {words}\ndone\n"


async def test_what_it_may_not_do_any_more_it_says_and_works_on():
    host = MemoryHost()
    for action in ("history.page", "state.set", "steering.pull"):
        host.deny(action, "revoked")
    outcome = await host.run(steady, "go", config=QUICK)
    assert outcome.status == "completed"
    assert outcome.text.splitlines() == [f"step {n}: history revoked, state revoked" for n in (1, 2, 3)] + ["done"]


async def test_an_event_without_a_conversation_is_worked_on_too():
    outcome = await MemoryHost().run(steady, event_type="schedule.triggered", conversation_id=None, config=QUICK)
    assert outcome.status == "completed"
    assert outcome.text.endswith("done\n")
