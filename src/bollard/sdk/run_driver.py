"""Drives a runner and sends its results, with exactly one terminal result. Used by the worker and the test harness.

The outlet numbers results and waits for credit. Exceptions of runner code never reach the task that runs it.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, Final, Protocol, cast

from bollard.protocol import TERMINAL_TYPES, JsonObject, Message
from bollard.sdk.context import RunContext
from bollard.sdk.errors import BadYield, describe_error, locate_error
from bollard.sdk.results import Result, TextDelta, message_completed, run_completed


class RunnerObject(Protocol):
    """A callable runner. A worker has one instance of it."""

    def call(self, ctx: RunContext[Any]) -> AsyncIterator[object] | Awaitable[object]:
        """Begin one run: results as they come, or one answer."""
        ...

    async def start(self) -> None:
        """Before the first run."""
        ...

    async def close(self) -> None:
        """After the last run."""
        ...


class FunctionRunner:
    """A runner that is a function."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def call(self, ctx: RunContext[Any]) -> AsyncIterator[object] | Awaitable[object]:
        return self._function(ctx)

    async def start(self) -> None:
        """A function needs no preparation."""

    async def close(self) -> None:
        """A function leaves nothing behind."""


class ClassRunner:
    """A runner that is the one instance of a class; its hooks are optional."""

    __slots__ = ("_instance",)

    def __init__(self, instance: Any) -> None:
        self._instance = instance

    def call(self, ctx: RunContext[Any]) -> AsyncIterator[object] | Awaitable[object]:
        return self._instance.run(ctx)

    async def start(self) -> None:
        if hasattr(self._instance, "start"):
            await self._instance.start()

    async def close(self) -> None:
        if hasattr(self._instance, "close"):
            await self._instance.close()


REFUSALS: Final = 16
"""Consecutive refused yields after which the run fails."""


class Outlet(Protocol):
    """Sends results. A result whose `emit` raised was not sent.

    `emit` raises `ResultTooLarge`, and may wait for credit or room and be cancelled there. A small terminal result does
    not wait.
    """

    def offer_text(self, text: str) -> bool:
        """Send a plain text delta if it needs no waiting. False leaves it to `emit`."""
        ...

    async def emit(self, kind: str, data: JsonObject) -> None:
        """Send one result."""
        ...


async def drive(
    runner: RunnerObject,
    ctx: RunContext[Any],
    outlet: Outlet,
    *,
    interrupt: bool,
    cancel_reason: Callable[[], str | None],
) -> None:
    """Run to the end and return after the terminal result. A cancelled run also ends with a terminal result.

    Cancel the awaiting task to cancel the run; `cancel_reason` returns the reason. With `interrupt` the runner may
    still send results after that.
    """
    run = _Run(ctx, outlet, interrupt, cancel_reason)
    try:
        answer = runner.call(ctx)
    except BaseException as error:  # noqa: BLE001 -- runner code: whatever it raises is the run's failure
        await run.end_with(error)
        return
    if isinstance(answer, AsyncIterator):
        await run.iterate(_generator(answer))
    else:
        await run.wait_for(answer)


class _Run:
    __slots__ = ("_cancel_reason", "_ctx", "_emit", "_interrupt", "_offer_text", "_stopping", "_task")

    def __init__(
        self, ctx: RunContext[Any], outlet: Outlet, interrupt: bool, cancel_reason: Callable[[], str | None]
    ) -> None:
        self._ctx = ctx
        self._emit = outlet.emit
        self._offer_text = outlet.offer_text
        self._interrupt = interrupt
        self._cancel_reason = cancel_reason
        self._task = asyncio.current_task()
        self._stopping = False

    async def iterate(self, results: AsyncGenerator[object, None]) -> None:
        """Send the values of the generator. A value that cannot be sent raises at its `yield`."""
        refused: BaseException | None = None
        refusals = 0
        step, offer_text = results.__anext__, self._offer_text
        while True:
            try:
                value = await (step() if refused is None else results.athrow(refused))
            except StopAsyncIteration:
                await self.end(Result("run.completed", {"finish_reason": "end"}))
                return
            except BaseException as error:  # noqa: BLE001 -- runner code: whatever it raises is the run's failure
                await self.end_with(error)
                return
            if type(value) is TextDelta and self._may_send() and offer_text(value.text):
                refused, refusals = None, 0
                continue
            try:
                if await self._send(value):
                    await self._close(results)
                    return
                refused, refusals = None, 0
            except asyncio.CancelledError as error:
                self._stopping = True
                refused = error
            except Exception as error:  # noqa: BLE001 -- raised at the runner's yield; the runner may continue
                refused = error
                refusals += 1
                if refusals > REFUSALS:
                    await self.end_with(error)
                    await self._close(results)
                    return

    async def wait_for(self, answer: Awaitable[object]) -> None:
        """Await a coroutine runner. Its return value is the answer."""
        try:
            value = await answer
            ending = _ending(value)
        except BaseException as error:  # noqa: BLE001 -- runner code: whatever it raises is the run's failure
            await self.end_with(error)
            return
        explicit = isinstance(value, Result)
        if explicit and value.type not in TERMINAL_TYPES:
            try:
                await self._send(value)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 -- no caller is left
                await self.end_with(error)
                return
        if explicit or not self._is_stopping():
            await self.end(ending, explicit=explicit and value.type in TERMINAL_TYPES)
        else:
            await self._end_stopped(value)

    async def _send(self, value: object) -> bool:
        """Send one yielded value, and return whether it ended the run."""
        if not isinstance(value, Result):
            value = _as_result(value)
        kind = value.type
        if kind in TERMINAL_TYPES:
            await self._emit(kind, value.data)
            return True
        if not self._may_send():
            # Dropped. The pause keeps a runner that ignores its cancellation from blocking the loop.
            await asyncio.sleep(0)
            return False
        await self._emit(kind, value.data)
        return False

    def _may_send(self) -> bool:
        return self._interrupt or (self._cancel_reason() is None and not self._stopping)

    def _is_stopping(self) -> bool:
        return self._stopping or self._cancel_reason() is not None

    async def _end_stopped(self, value: object) -> None:
        """End a cancelled coroutine runner. With `interrupt` its answer is sent before the failure."""
        if self._interrupt and isinstance(value, str | Message):
            last = message_completed(value, message_id=None)
            try:
                await self._emit(last.type, last.data)
            except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 -- the run ends either way
                await self.end_with(error)
                return
        await self.end_with(asyncio.CancelledError())

    async def end(self, ending: Result, *, explicit: bool = False) -> None:
        """Send the terminal result. A cancelled run fails with the reason unless its own result is `explicit`."""
        if not explicit and self._is_stopping():
            await self.end_with(asyncio.CancelledError())
            return
        try:
            await self._emit(ending.type, ending.data)
        except asyncio.CancelledError as error:
            self._stopping = True
            await self.end_with(error)
        except Exception as error:  # noqa: BLE001 -- too large, or not JSON: the failure says so
            await self.end_with(error)

    async def end_with(self, error: BaseException) -> None:
        """Send `run.failed` for the error that ended the runner."""
        if isinstance(error, GeneratorExit) and self._is_torn_down():
            raise error
        cancelled = isinstance(error, asyncio.CancelledError)
        reason = self._cancel_reason()
        if reason is None and (self._stopping or (cancelled and self._task is not None and self._task.cancelling())):
            reason = "cancelled"
        sentence = f"the run was cancelled ({reason})" if cancelled and reason else describe_error(error)
        failure: JsonObject = {"code": reason or "runner.error", "error": sentence, "retryable": False}
        if not cancelled and (where := locate_error(error)):
            self._ctx.log("the runner raised", "error", error=sentence, at=where)
        try:
            await self._emit("run.failed", failure)
        except asyncio.CancelledError:
            # A second cancellation interrupted the wait; the run still needs its terminal result.
            await self._emit("run.failed", failure)

    async def _close(self, results: AsyncGenerator[object, None]) -> None:
        """Close a generator whose run has ended. Its errors are logged only."""
        try:
            await results.aclose()
        except asyncio.CancelledError:
            return  # the clean-up was interrupted; the run has ended anyway
        except BaseException as error:
            if isinstance(error, GeneratorExit) and self._is_torn_down():
                raise
            message = "the runner did not end cleanly after its terminal result"
            self._ctx.log(message, "warning", error=describe_error(error))

    def _is_torn_down(self) -> bool:
        """Return whether this coroutine is being closed, so that it must not await."""
        try:
            return asyncio.current_task() is not self._task
        except RuntimeError:
            return True


def _as_result(value: object) -> Result:
    if isinstance(value, str):
        return TextDelta(str(value))
    raise BadYield(type(value).__name__)


def _ending(value: object) -> Result:
    """Return the terminal result for the return value of a coroutine runner."""
    if isinstance(value, Result) and value.type in TERMINAL_TYPES:
        return value
    if value is None or isinstance(value, Result):
        return Result("run.completed", {"finish_reason": "end"})
    if isinstance(value, str | Message):
        return run_completed("end", value)
    raise BadYield(type(value).__name__, "returned")


async def _from_iterator(iterator: AsyncIterator[object]) -> AsyncGenerator[object, None]:
    async for value in iterator:
        yield value


def _generator(results: AsyncIterator[object]) -> AsyncGenerator[object, None]:
    if isinstance(results, AsyncGenerator):
        return cast("AsyncGenerator[object, None]", results)
    return _from_iterator(results)
