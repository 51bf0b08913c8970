"""One call of the run API as whoever answers it sees it: from a worker's channel, or from a harness beside it."""

from collections.abc import Callable
from typing import Protocol

import msgspec

from bollard.protocol import AgentAPIError, JsonObject, JsonValue, Shape

__all__ = ["ApiCall", "Lent", "StreamedCall"]


class Lent(msgspec.Struct, frozen=True):
    """An answer that counts only if its caller gets it."""

    answer: Shape
    unread: Callable[[], None]
    """Takes it back."""


class ApiCall(Protocol):
    """Answered or refused once. `RunCall` of the wire is one."""

    on_given_up: Callable[[], object] | None
    """Set by whoever works on the call, to be told that nobody waits for it any more."""

    on_unread: Callable[[], object] | None
    """Set by whoever answers the call, to be told that the caller has not got the answer."""

    @property
    def action(self) -> str: ...

    @property
    def params(self) -> JsonObject: ...

    @property
    def streamed(self) -> bool: ...

    @property
    def given_up(self) -> bool: ...

    def unfit(self, result: JsonValue) -> AgentAPIError | None:
        """Why the caller could not be given this answer, if so."""
        ...

    def answer(self, result: JsonValue) -> None: ...

    def refuse(self, error: AgentAPIError) -> None: ...


class StreamedCall(ApiCall, Protocol):
    """One that is answered in pieces."""

    async def chunk(self, data: JsonValue) -> None:
        """Hand one piece on; waits for credit. Raises `WireError` when nobody reads."""
        ...
