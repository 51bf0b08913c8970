"""The script language of the conformance kit: docs/reference/conformance.md defines every step."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bollard.sdk import AgentAPIException, JsonValue, Result, RunContext

Step = dict[str, Any]
Results = AsyncGenerator[Any, None]


@dataclass
class Memory:
    """The state of one run between its steps."""

    ignoring: bool = False
    on_cancel: list[Step] = field(default_factory=list[Step])


class ScriptRunner:
    """Executes the steps of `config.script`, then ends."""

    async def run(self, ctx: RunContext) -> Results:
        memory = Memory()
        script: Any = ctx.config.get("script", [])
        try:
            async with aclosing(perform(ctx, script, memory)) as results:
                async for result in results:
                    try:
                        yield result
                    except asyncio.CancelledError:  # cancelled while the result waited for credit
                        if not memory.ignoring:
                            raise
        except asyncio.CancelledError:
            async for result in perform(ctx, memory.on_cancel, memory):
                yield result
            raise


async def perform(ctx: RunContext, steps: list[Step], memory: Memory) -> Results:
    """Execute the steps; an ignored cancel ends only the wait that it interrupts."""
    for step in steps:
        arguments = {name: value for name, value in step.items() if name != "do"}
        try:
            async with aclosing(STEPS[step["do"]](ctx, memory, **arguments)) as results:
                async for result in results:
                    yield result
        except asyncio.CancelledError:
            if not memory.ignoring:
                raise


def said(ctx: RunContext, value: JsonValue) -> Result:
    """The outcome of a step, as one delta of JSON."""
    return ctx.delta(json.dumps(value, ensure_ascii=False))


# --- results ---


async def delta(
    ctx: RunContext, _: Memory, text: str = "", repeat: int = 1, count: int = 1, message_id: str | None = None
) -> Results:
    for _sent in range(count):
        yield ctx.delta(text * repeat, message_id=message_id)


async def completed(ctx: RunContext, _: Memory, text: str = "", message_id: str | None = None) -> Results:
    yield ctx.completed(text, message_id=message_id)


async def result(_ctx: RunContext, _: Memory, type: str, data: dict[str, JsonValue]) -> Results:  # noqa: A002
    yield Result(type, data)


async def big(ctx: RunContext, _: Memory, bytes: int) -> Results:  # noqa: A002
    yield ctx.delta("x" * bytes)


async def rubbish(_ctx: RunContext, _: Memory) -> Results:
    yield 42


async def finish(ctx: RunContext, _: Memory, finish_reason: str = "end") -> Results:
    yield ctx.finish(finish_reason)


async def fail(
    ctx: RunContext, _: Memory, code: Any = "runner.error", error: str = "failed by script", retryable: bool = False
) -> Results:
    yield ctx.fail(error, code, retryable=retryable)


async def raise_(_ctx: RunContext, _: Memory, message: str = "raised by script") -> Results:
    raise RuntimeError(message)
    yield


# --- time and cancellation ---


async def wait(_ctx: RunContext, memory: Memory, ms: float) -> Results:
    end = time.monotonic() + ms / 1000
    while (left := end - time.monotonic()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            if not memory.ignoring:
                raise
    return
    yield


async def wait_forever(ctx: RunContext, memory: Memory) -> Results:
    while True:
        async for nothing in wait(ctx, memory, 3_600_000):
            yield nothing


async def block(_ctx: RunContext, _: Memory, ms: float) -> Results:
    time.sleep(ms / 1000)
    return
    yield


async def ignore_cancel(_ctx: RunContext, memory: Memory) -> Results:
    memory.ignoring = True
    return
    yield


async def on_cancel(_ctx: RunContext, memory: Memory, steps: list[Step]) -> Results:
    memory.on_cancel = steps
    return
    yield


# --- calls ---


async def ask(ctx: RunContext, action: str, params: dict[str, Any]) -> JsonValue:
    """One call of the run API, by the name of its wire action."""
    calls: dict[str, Callable[..., Awaitable[Any]]] = {
        "host.info": ctx.api.host.info,
        "history.search": ctx.api.history.search,
        "steering.pull": ctx.api.steering.pull,
    }
    return (await calls[action](**params)).to_wire()


async def outcome(ctx: RunContext, action: str, params: dict[str, Any]) -> JsonValue:
    try:
        return {"answer": await ask(ctx, action, params)}
    except AgentAPIException as error:
        return {"error": error.code}


async def call(ctx: RunContext, _: Memory, action: str, params: dict[str, Any], catch: bool = True) -> Results:
    yield said(ctx, await outcome(ctx, action, params) if catch else {"answer": await ask(ctx, action, params)})


async def call_many(ctx: RunContext, _: Memory, action: str, params: list[dict[str, Any]]) -> Results:
    for answer in await asyncio.gather(*(outcome(ctx, action, one) for one in params)):
        yield said(ctx, answer)


async def give_up(ctx: RunContext, _: Memory, action: str, params: dict[str, Any], after_ms: float = 50) -> Results:
    try:
        async with asyncio.timeout(after_ms / 1000):
            answer: JsonValue = {"answer": await ask(ctx, action, params)}
    except TimeoutError:
        answer = {"given_up": True}
    yield said(ctx, answer)


async def stream(
    ctx: RunContext,
    _: Memory,
    action: str,
    params: dict[str, Any],
    pause_ms: float = 0,
    take: int | None = None,
    hold_after: int | None = None,
) -> Results:
    if action != "models.stream":
        raise ValueError(f"{action} is not a streamed action")
    texts: list[JsonValue] = []
    end = "closed"
    try:
        async with aclosing(ctx.api.models.stream(**params)) as chunks:
            async for chunk in chunks:
                texts.append(str(chunk.content))
                if len(texts) == hold_after:
                    await asyncio.Event().wait()
                if len(texts) == take:
                    end = "left"
                    break
                await asyncio.sleep(pause_ms / 1000)
    except AgentAPIException as error:
        end = error.code
    yield said(ctx, {"texts": texts, "end": end})


# --- the process ---


async def print_(_ctx: RunContext, _: Memory, text: str) -> Results:
    print(text)
    print(text, file=sys.stderr)
    return
    yield


async def log(
    ctx: RunContext, _: Memory, message: str, level: Any = "info", fields: dict[str, JsonValue] | None = None
) -> Results:
    ctx.log(message, level, **(fields or {}))
    return
    yield


async def flood_log(ctx: RunContext, _: Memory, count: int, message: str = "flood") -> Results:
    for n in range(count):
        ctx.log(message, n=n)
    return
    yield


async def context(ctx: RunContext, _: Memory, paths: list[str]) -> Results:
    whole = ctx.raw.to_wire()

    def at(path: str) -> JsonValue:
        value: JsonValue = whole
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        return value

    yield said(ctx, {path: at(path) for path in paths})


async def environment(ctx: RunContext, _: Memory) -> Results:
    descriptors: list[JsonValue] = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            descriptors.append({"number": int(link.name), "target": os.readlink(link)})
        except OSError:
            continue  # the descriptor of the listing itself is closed by now
    yield said(ctx, {"variables": [*sorted(os.environ)], "descriptors": descriptors})


async def exit_(_ctx: RunContext, _: Memory, code: int = 1) -> Results:
    os._exit(code)
    yield


STEPS: dict[str, Callable[..., Results]] = {
    function.__name__.rstrip("_"): function
    for function in (
        delta,
        completed,
        result,
        big,
        rubbish,
        finish,
        fail,
        raise_,
        wait,
        wait_forever,
        block,
        ignore_cancel,
        on_cancel,
        call,
        call_many,
        give_up,
        stream,
        print_,
        log,
        flood_log,
        context,
        environment,
        exit_,
    )
}
