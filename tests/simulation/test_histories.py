"""R01 to R05, R13: what clients were told stays true in every simulated history, and a seed is a history."""

import functools
import os
from collections import Counter

import pytest

from bollard.host.simulator.simulation import Verdict, simulate

SEEDS_AT_ONCE = 25
BATCHES = int(os.environ.get("CHAOS_BATCHES", "40"))
FIRST = int(os.environ.get("CHAOS_SEED", "0"))

RED_SEEDS = {
    377: "a run that was stopped while it waited for its agent did not say that somebody asked for it",
    208: "a message that came right after a start overtook the runs that had waited before it",
    852: "recovery dispatched a message that was on its way into a run, so that it was in both",
    1191: "a message was lost because a line of the log about a full disk could not be written",
    1304: "as 852, with the claim behind the run",
}
"""Seeds that are red without a repair."""

KINDS = [
    *("accepted", "known again", "client gone", "crash at a time", "crash in a trap", "disk full", "purge", "gap"),
    *("refused conflict", "refused storage_full"),
    *("run.claimed", "run.cancelled", "run of a message that waited", "external run"),
    *("run at depth 1", "run at depth 4", "refused agents.call unauthorized"),
    *("grant.revoked", "refused state.runner revoked", "call state.runner", "call agents.call", "call steering.pull"),
    "refused steering.pull revoked",
    *("steering.queued", "steering.injected", "steering.acknowledged"),
    *("steering.dropped, redispatched", "steering.dropped, for good"),
    *("pull given up", "pull left behind", "full queue"),
    *(
        f"run.ended {code}"
        for code in (
            *("completed", "cancelled", "revoked", "host.lost"),
            *("runner.error", "runner.crashed", "runner.timeout", "runner.protocol", "runner.no_output"),
        )
    ),
]
"""What must happen somewhere in the first histories, or they would prove less than they seem to."""
KINDS_BATCHES = 4


@functools.cache
def verdicts(batch: int) -> list[Verdict]:
    first = FIRST + batch * SEEDS_AT_ONCE
    return [simulate(seed) for seed in range(first, first + SEEDS_AT_ONCE)]


@pytest.mark.requirement("P05-24", "P05-27", "P05-29", "P09-04", "P09-05")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_history_keeps_what_was_acknowledged_and_shown(batch: int) -> None:
    found = verdicts(batch)
    assert not [(verdict.seed, verdict.problems) for verdict in found if verdict.problems]
    assert sum(verdict.runs for verdict in found) > 10 * SEEDS_AT_ONCE, "the histories are not empty"


def test_every_kind_of_thing_happens_in_the_histories() -> None:
    happened: Counter[str] = Counter()
    for batch in range(KINDS_BATCHES):
        for verdict in verdicts(batch):
            happened += verdict.kinds
    assert not [kind for kind in KINDS if not happened[kind]]


@pytest.mark.parametrize("seed", RED_SEEDS)
def test_a_seed_that_was_red_once_stays_green(seed: int) -> None:
    assert not simulate(seed).problems


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_same_seed_gives_the_same_history(seed: int) -> None:
    first, second = simulate(seed), simulate(seed)
    assert first == second
    assert first.digest != simulate(seed + 100).digest
