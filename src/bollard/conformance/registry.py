"""The registry of cases, and the decorators that add a function to it."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from bollard.conformance.session import Session
from bollard.protocol import ChannelLimits


class Launcher(Protocol):
    """Starts a worker for a case."""

    def __call__(
        self,
        *,
        limits: ChannelLimits | None = None,
        initialize: bool = True,
        inherited: Mapping[str, str] | None = None,
    ) -> AbstractAsyncContextManager[Session]:
        """Return a worker for the duration of the block."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Case:
    """One requirement of a worker and its test."""

    name: str
    sentence: str
    requirements: tuple[str, ...]
    shared: bool
    """Whether the case may share its worker with other cases."""
    body: Callable[[Launcher], Awaitable[None]]


SessionBody = Callable[[Session], Awaitable[None]]
LauncherBody = Callable[[Launcher], Awaitable[None]]


class Cases:
    """The cases of one module, in order."""

    def __init__(self) -> None:
        self.all: list[Case] = []

    def shared(self, sentence: str, *requirements: str) -> Callable[[SessionBody], SessionBody]:
        """Register a case that leaves its worker intact."""
        return self._on_session(sentence, requirements, shared=True)

    def own(self, sentence: str, *requirements: str) -> Callable[[SessionBody], SessionBody]:
        """Register a case that needs a new worker and may break it."""
        return self._on_session(sentence, requirements, shared=False)

    def launching(self, sentence: str, *requirements: str) -> Callable[[LauncherBody], LauncherBody]:
        """Register a case that starts its workers itself."""

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
