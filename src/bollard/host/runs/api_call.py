"""Calls of the run API, whether they come from a worker, from an MCP client or from a result."""

from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from bollard.protocol import AgentAPIError, JsonObject, JsonValue, Shape


class ConditionalAnswer(msgspec.Struct, frozen=True):
    """An answer that is undone if the caller does not receive it."""

    answer: Shape
    unread: Callable[[], None]
    """Undoes it."""


class ApiCall(Protocol):
    """Answered or refused once. `RunCall` of the wire is one."""

    on_given_up: Callable[[], object] | None
    """Called when the caller gives up."""

    on_unread: Callable[[], object] | None
    """Called when the caller did not receive the answer."""

    @property
    def action(self) -> str: ...

    @property
    def params(self) -> JsonObject: ...

    @property
    def streamed(self) -> bool: ...

    @property
    def given_up(self) -> bool: ...

    def unfit(self, result: JsonValue) -> AgentAPIError | None:
        """The error if this answer cannot be sent to the caller."""
        ...

    def answer(self, result: JsonValue) -> None: ...

    def refuse(self, error: AgentAPIError) -> None: ...


class StreamedCall(ApiCall, Protocol):
    """A call with a streamed answer."""

    async def chunk(self, data: JsonValue) -> None:
        """Send one chunk; waits for credit. Raises `WireError` if the reader is gone."""
        ...


_ACTION: Final = "platform.request"


class RequestedAction:
    """An `action.requested` result (§5) as a `platform.request` call whose answer only the log receives."""

    def __init__(self, params: JsonObject, ended: Callable[["RequestedAction"], None]) -> None:
        self.action = _ACTION
        self.params = params
        self.streamed = False
        self.on_given_up: Callable[[], object] | None = None
        self.on_unread: Callable[[], object] | None = None
        self.given_up = False
        self._ended = ended

    def unfit(self, result: JsonValue) -> AgentAPIError | None:
        """No caller receives the answer, so every answer fits."""
        del result

    def answer(self, result: JsonValue) -> None:
        del result
        self._ended(self)

    def refuse(self, error: AgentAPIError) -> None:
        del error
        self._ended(self)

    def give_up(self) -> None:
        self.given_up = True
        if self.on_given_up is not None:
            self.on_given_up()
        self._ended(self)
