"""A real worker stops at its window, continues with credit, and holds nothing back in memory."""

from typing import Any

import psutil
import pytest

from bollard.protocol import limits

FLOOD = """
@runner()
async def run(ctx: RunContext):
    for _ in range(ctx.config["count"]):
        yield "x" * ctx.config["size"]
"""
SMALL = 10


@pytest.mark.requirement("P11-11", "P11-13", "P11-15", "P11-08")
async def test_a_runner_stops_at_256_results_and_credit_frees_the_same_number(start: Any) -> None:
    driver = await start(FLOOD)
    run = driver.play(config={"count": 1000, "size": SMALL}, credited=False)
    await run.until(limits.WINDOW_RESULTS)
    other = await driver.finished(config={"count": 700, "size": SMALL})
    assert other.is_well_formed
    for _ in range(3):
        await driver.host.ping()
    assert len(run.results) == limits.WINDOW_RESULTS
    run.handle.credit(1)
    await run.until(limits.WINDOW_RESULTS + 1)
    await driver.host.ping()
    assert len(run.results) == limits.WINDOW_RESULTS + 1
    run.handle.credit(100)
    await run.until(limits.WINDOW_RESULTS + 100)
    await driver.host.ping()
    assert len(run.results) == limits.WINDOW_RESULTS + 100
    run.credited = True
    run.handle.credit(run.results[-1].sequence)
    await run.end()
    assert (len(run.results), run.is_well_formed) == (1001, True)
    assert driver.strikes == []


@pytest.mark.requirement("P11-12", "P11-14")
async def test_a_runner_stops_at_four_mebibytes_and_its_end_needs_no_credit(start: Any) -> None:
    driver = await start(FLOOD)
    size = 700_000
    run = driver.play(config={"count": 12, "size": size}, credited=False)
    fit = limits.WINDOW_BYTES // (size + 200)
    await run.until(fit)
    await driver.host.ping()
    assert len(run.results) == fit
    run.handle.credit(fit)
    await run.until(2 * fit)
    await driver.host.ping()
    assert len(run.results) == 2 * fit
    # Two more and the end: they fit without a third credit, and the terminal result asks for none.
    run.handle.credit(2 * fit)
    await run.end()
    assert (len(run.results), run.is_well_formed) == (13, True)


async def test_a_full_window_does_not_delay_the_terminal_result(start: Any) -> None:
    driver = await start(FLOOD)
    run = driver.play(config={"count": limits.WINDOW_RESULTS, "size": 1}, credited=False)
    await run.end()
    assert (len(run.results), run.is_well_formed) == (limits.WINDOW_RESULTS + 1, True)


@pytest.mark.requirement("P11-46")
async def test_runs_that_wait_for_credit_use_no_more_memory(start: Any) -> None:
    driver = await start(FLOOD)
    await driver.finished(config={"count": 300, "size": 12_000})
    process = psutil.Process(driver.process.pid)
    before = process.memory_info().rss
    runs = [driver.play(config={"count": 100_000, "size": 12_000}, credited=False) for _ in range(20)]
    for run in runs:
        await run.until(limits.WINDOW_RESULTS)
    for _ in range(5):
        await driver.host.ping()
    # The sockets took the allowed bytes; a worker that queued instead would hold 24 GB.
    assert process.memory_info().rss - before < 32 * 1024 * 1024
    assert {len(run.results) for run in runs} == {limits.WINDOW_RESULTS}
    assert driver.strikes == []
