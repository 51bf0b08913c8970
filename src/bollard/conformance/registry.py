"""The list of cases: what a case is and how a function becomes one."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from bollard.conformance.session import Session
from bollard.protocol import ChannelLimits

__all__ = ["Case", "Cases", "Launcher"]


class Launcher(Protocol):
    """Where a case gets its worker from."""

    def __call__(
        self,
        *,
        limits: ChannelLimits | None = None,
        initialize: bool = True,
        inherited: Mapping[str, str] | None = None,
    ) -> AbstractAsyncContextManager[Session]:
        """A worker for the time of the block."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One thing a worker must do."""

    name: str
    sentence: str
    requirements: tuple[str, ...]
    shared: bool
    """Whether it may use a worker that other cases used before."""
    body: Callable[[Launcher], Awaitable[None]]


SessionBody = Callable[[Session], Awaitable[None]]
LauncherBody = Callable[[Launcher], Awaitable[None]]


class Cases:
    """The cases of one module, in order."""

    def __init__(self) -> None:
        self.all: list[Case] = []

    def shared(self, sentence: str, *requirements: str) -> Callable[[SessionBody], SessionBody]:
        """A case that leaves its worker as it found it."""
        return self._on_session(sentence, requirements, shared=True)

    def own(self, sentence: str, *requirements: str) -> Callable[[SessionBody], SessionBody]:
        """A case that needs a fresh worker, and may ruin it."""
        return self._on_session(sentence, requirements, shared=False)

    def launching(self, sentence: str, *requirements: str) -> Callable[[LauncherBody], LauncherBody]:
        """A case that starts its workers itself."""

        def register(body: LauncherBody) -> LauncherBody:
            self._add(body.__name__, sentence, requirements, False, body)
            return body

        return register

    def _on_session(
        self, sentence: str, requirements: tuple[str, ...], *, shared: bool
    ) -> Callable[[SessionBody], SessionBody]:
        def register(body: SessionBody) -> SessionBody:
            async def launch(launcher: Launcher) -> None:
                async with launcher() as session:
                    await body(session)

            self._add(body.__name__, sentence, requirements, shared, launch)
            return body

        return register

    def _add(self, name: str, sentence: str, requirements: tuple[str, ...], shared: bool, body: LauncherBody) -> None:
        self.all.append(Case(name=name, sentence=sentence, requirements=requirements, shared=shared, body=body))
