"""Actions that a runner asked for in its results (`action.requested`, §5): `platform.request` that nobody waits for.

Each goes through the gate of the run API as the call would. The run stays until all of them have ended, so that what
came of them is in its log.
"""

from collections.abc import Callable
from typing import Final

from bollard.protocol import AgentAPIError, JsonObject, JsonValue

__all__ = ["RequestedAction", "RequestedActions"]

_ACTION: Final = "platform.request"


class RequestedAction:
    """One of them, as an `ApiCall`: its answer is for the log alone."""

    def __init__(self, params: JsonObject, ended: Callable[["RequestedAction"], None]) -> None:
        self.action = _ACTION
        self.params = params
        self.streamed = False
        self.on_given_up: Callable[[], object] | None = None
        self.on_unread: Callable[[], object] | None = None
        self.given_up = False
        self._ended = ended

    def unfit(self, result: JsonValue) -> AgentAPIError | None:
        """Nobody is sent it."""
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


class RequestedActions:
    """Those of one run that have not ended."""

    def __init__(self, ask: Callable[[RequestedAction], None], over: Callable[[], None]) -> None:
        """`ask` gives one to the gate; `over` is told when the last of them has ended."""
        self._ask = ask
        self._over = over
        self._open: set[RequestedAction] = set()

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, data: JsonObject) -> None:
        """`data` is that of the result: it has the shape of the call's parameters."""
        action = RequestedAction(data, self._ended)
        self._open.add(action)
        self._ask(action)

    def give_up(self) -> None:
        """The run is being stopped, or is over."""
        for action in tuple(self._open):
            action.give_up()

    def _ended(self, action: RequestedAction) -> None:
        if action in self._open:
            self._open.discard(action)
            if not self._open:
                self._over()
