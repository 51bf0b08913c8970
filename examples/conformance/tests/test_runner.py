"""The scripted runner in memory, without any process."""

import json

import pytest
from runner import Scripted

from bollard.sdk.testing import MemoryHost

pytestmark = pytest.mark.anyio


async def test_a_script_of_deltas_is_said_in_order() -> None:
    script = [{"do": "delta", "text": "a", "count": 2}, {"do": "delta", "text": "b"}]
    outcome = await MemoryHost().run(Scripted, "hi", config={"script": script})
    assert outcome.text == "aab"


async def test_a_call_is_answered_by_the_host() -> None:
    script = [{"do": "call", "action": "host.info", "params": {}}]
    outcome = await MemoryHost().run(Scripted, "hi", config={"script": script})
    assert json.loads(outcome.text)["answer"]["protocol"] == 1


async def test_a_step_that_raises_fails_the_run() -> None:
    outcome = await MemoryHost().run(Scripted, "hi", config={"script": [{"do": "raise", "message": "alas"}]})
    assert outcome.status == "failed"
