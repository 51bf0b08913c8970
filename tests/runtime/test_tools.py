"""Tools of a plugin, called in a real worker."""

import asyncio
from typing import Any

import pytest

from bollard.wire import RemoteError

TOOLS = '''
from bollard.sdk import TextContent, ToolAnswer, ToolContext
import threading
started = []

@tool(risk="high")
async def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b

@tool()
def where(ctx: ToolContext) -> str:
    """Say the thread and the run."""
    print("from a thread")
    return f"{threading.current_thread() is threading.main_thread()} {ctx.run_id}"

@tool()
async def waits(mark: str = "") -> str:
    """Wait."""
    started.append(mark)
    try:
        await asyncio.sleep(3600)
    finally:
        os.write(2, f"tool ended {mark}\\n".encode())

@tool()
def blocks() -> str:
    """Block a thread."""
    time.sleep(30)

@tool()
async def fails(how: str) -> str:
    """Fail in one way."""
    if how == "exit":
        sys.exit(4)
    if how == "cancel":
        raise asyncio.CancelledError
    if how == "timeout":
        raise TimeoutError("my own")
    raise ValueError(how)

@tool()
def fails_in_thread(how: str) -> str:
    """Fail in a thread."""
    if how == "stop":
        raise StopIteration
    sys.exit(4)

@tool()
async def big(size: int = 0, nodes: int = 0, deep: int = 0, more: int = 0, half: bool = False) -> dict:
    """Answer with much."""
    value = 0
    for _ in range(deep):
        value = [value]
    return {"text": "\\ud800" if half else "x" * size, "nodes": [0] * nodes, "deep": value, "number": 2**53 + more}

@tool()
async def element() -> ToolAnswer:
    """Answer with content that cannot travel."""
    return ToolAnswer(content=(TextContent(text="\\ud800"),), structured=2**60)
'''


@pytest.mark.requirement("P11-31", "P11-32", "P11-33", "P11-37", "P11-57")
async def test_tools_are_listed_called_and_checked(start: Any) -> None:
    driver = await start(TOOLS)
    listed = {tool.name: tool for tool in (await driver.host.list_tools()).tools}
    assert listed["add"].risk == "high"
    assert listed["add"].input_schema["required"] == ["a"]
    answer = await driver.call_tool("add", {"a": 1})
    assert (answer.structured, answer.is_error) == (3, False)
    for arguments, field in (({}, "a"), ({"a": "x"}, "a"), ({"a": 1, "c": 2}, "c")):
        wrong = await driver.call_tool("add", arguments)
        assert (wrong.is_error, field in wrong.content[0].text) == (True, True)
    for how, text in (("no", "ValueError: no"), ("exit", "SystemExit: 4"), ("cancel", "CancelledError")):
        failed = await driver.call_tool("fails", {"how": how})
        assert (failed.is_error, failed.content[0].text.startswith(text)) == (True, True)
    assert "my own" in (await driver.call_tool("fails", {"how": "timeout"})).content[0].text
    for how in ("exit", "stop"):
        assert (await driver.call_tool("fails_in_thread", {"how": how})).is_error
    with pytest.raises(RemoteError, match="no tool 'nothing'"):
        await driver.call_tool("nothing", {})
    assert driver.strikes == []


async def test_a_synchronous_tool_runs_beside_the_loop_and_knows_its_run(start: Any) -> None:
    driver = await start(TOOLS)
    assert (await driver.call_tool("where", {})).content[0].text == "False tool-run"
    assert (await driver.logged_line("from a thread")).run_id == "tool-run"


@pytest.mark.requirement("P11-34", "P11-35", "P11-36")
async def test_timeouts_and_cancels_end_a_call_at_once_and_its_id_can_be_used_again(start: Any) -> None:
    driver = await start(TOOLS)
    late, blocked = await asyncio.gather(
        driver.call_tool("waits", {"mark": "late"}, timeout_ms=50), driver.call_tool("blocks", {}, timeout_ms=50)
    )
    for answer in (late, blocked):
        assert (answer.is_error, "within 50 ms" in answer.content[0].text) == (True, True)
    await driver.written_line("tool ended late")
    call = asyncio.create_task(driver.call_tool("waits", {"mark": "one"}, call_id="same"))
    await driver.host.ping()
    with pytest.raises(RemoteError, match="call_id"):
        await driver.call_tool("waits", {}, call_id="same")
    call.cancel()
    await driver.written_line("tool ended one")
    assert (await driver.call_tool("add", {"a": 1}, call_id="same")).structured == 3
    driver.host._peer.note("tool/cancel", {"call_id": "unknown"})
    await driver.host.ping()
    assert driver.strikes == []


async def test_a_call_cancelled_before_its_first_step_is_answered_too(start: Any) -> None:
    driver = await start(TOOLS)
    call = asyncio.create_task(driver.call_tool("waits", {"mark": "never"}, call_id="early"))
    await asyncio.sleep(0)  # lets the call be written; both frames leave in one send
    driver.host._peer.note("tool/cancel", {"call_id": "early"})
    async with asyncio.timeout(120):
        answer = await call
    assert (answer.is_error, "cancelled" in answer.content[0].text) == (True, True)
    assert (await driver.call_tool("add", {"a": 1}, call_id="early")).structured == 3


async def test_an_answer_too_large_for_a_frame_is_an_error_and_no_strike(start: Any) -> None:
    driver = await start(TOOLS)
    large = await driver.call_tool("big", {"size": 400_000, "nodes": 3000, "deep": 50})
    assert not large.is_error
    for arguments in ({"size": 2_000_000}, {"nodes": 10_000}, {"deep": 62}, {"more": 1}, {"half": True}):
        refused = await driver.call_tool("big", arguments)
        assert (refused.is_error, bool(refused.content[0].text)) == (True, True), arguments
    assert (await driver.call_tool("element", {})).is_error
    assert driver.strikes == []
