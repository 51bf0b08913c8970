"""A callable runner: one interface for functions and classes."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

from bollard.sdk.context import RunContext


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
