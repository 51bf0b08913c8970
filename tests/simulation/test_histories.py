"""R01 to R05, R13: what clients were told stays true in every simulated history, and a seed is a history."""

import os

import pytest

from bollard.host.simulator.world import simulate

SEEDS_AT_ONCE = 25
BATCHES = int(os.environ.get("CHAOS_BATCHES", "12"))
FIRST = int(os.environ.get("CHAOS_SEED", "0"))

RED_SEEDS = [0, 8, 17, 24, 45, 53, 65, 67]
"""Seeds that are red without a repair: a run whose caller went away before it began (24, 45, 53, 65, 67), a reader that
resumed before recovery and kept what was never written (8, 17, 53), a commit between two reads that looked like a hole
(0, 8)."""


@pytest.mark.requirement("P05-24", "P05-27", "P05-29")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_history_keeps_what_was_acknowledged_and_shown(batch):
    first = FIRST + batch * SEEDS_AT_ONCE
    verdicts = [simulate(seed) for seed in range(first, first + SEEDS_AT_ONCE)]
    assert not [(verdict.seed, verdict.problems) for verdict in verdicts if verdict.problems]
    assert sum(verdict.runs for verdict in verdicts) > SEEDS_AT_ONCE, "the histories are not empty"


@pytest.mark.parametrize("seed", RED_SEEDS)
def test_a_seed_that_was_red_once_stays_green(seed):
    assert not simulate(seed).problems


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_same_seed_gives_the_same_history(seed):
    first, second = simulate(seed), simulate(seed)
    assert first == second
    assert first.digest != simulate(seed + 100).digest
