"""Tokens of external runs: valid for one run, while it is live."""

from collections.abc import Awaitable, Callable
from typing import Any

from tests.doubles.memory_store import MemoryStore

from bollard.host.runs.external import ExternalRuns

Stages = Callable[..., Awaitable[Any]]
DAY_S = 86_400.0


async def test_a_token_is_valid_during_its_run_independent_of_the_wall_clock(
    memory_store: MemoryStore, stages: Stages
) -> None:
    stage = await stages(memory_store)
    accepted = await stage.intake.accept(stage.event("hello"), "parrot", external=True)
    live = stage.dispatcher.live
    external = ExternalRuns(b"secret", stage.clock, live)
    token = external.issue(live[accepted.run_id])
    stage.clock.jump(DAY_S)
    assert external.workspace_of(token, accepted.run_id) == "default"
    assert external.workspace_of(token, "run_of_somebody_else") is None
    await external.finalize(live[accepted.run_id], "run.completed", {"finish_reason": "end"})
    assert external.workspace_of(token, accepted.run_id) is None, "it ended, and the token expired long ago"
    stage.clock.jump(-DAY_S)
    assert external.workspace_of(token, accepted.run_id) == "default", "a late caller gets the reason"
