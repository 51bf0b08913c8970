"""Plugin code that blocks the loop of a real worker is named while it does and afterwards."""

import asyncio
from typing import Any

import pytest

from bollard.wire import CallTimeout

pytestmark = pytest.mark.full

BLOCKS = """
@runner()
async def run(ctx: RunContext):
    yield "begun"
    await asyncio.sleep(0)
    time.sleep(6)  # the guilty line
    yield "done"
"""


@pytest.mark.requirement("P11-59", "P11-39")
async def test_a_runner_that_blocks_the_loop_is_reported_with_file_and_line(start: Any, header: str) -> None:
    driver = await start(BLOCKS)
    run = driver.play()
    await run.until(1)
    with pytest.raises(CallTimeout):
        await driver.host.ping(timeout_s=0.5)
    line = header.count("\n") + BLOCKS[: BLOCKS.index("time.sleep")].count("\n") + 1
    await driver.written_line("the worker's loop has been blocked for ")
    await driver.written_line(f'plugin.py", line {line}, in run')
    assert not run.handle.ended.done()
    async with asyncio.timeout(120):
        await driver.host.ping()
    await run.end()
    report = await driver.logged_line("blocked the worker's loop")
    assert (report.level, report.fields["seconds"] >= 2.5) == ("error", True)
    assert f'plugin.py", line {line}, in run' in report.fields["stack"]
    assert (run.text, run.is_well_formed, driver.strikes) == ("begundone", True, [])
    assert sum("blocked the worker's loop" in record.message for record in driver.logs) == 1
