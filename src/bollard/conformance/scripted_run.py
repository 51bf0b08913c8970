"""One run of the scripted runner, as a case sees it: wait for its results, cancel it, read how it ended."""

import json
from collections.abc import Callable
from typing import cast

from bollard.conformance.errors import CaseFailed
from bollard.conformance.judge import RunBook
from bollard.conformance.limits import ANSWER_S
from bollard.conformance.line import Line, brief
from bollard.protocol import JsonObject
from bollard.wire.envelope import Answer, Failure

__all__ = ["Run"]


class Run:
    """One run of the scripted runner."""

    def __init__(self, line: Line, book: RunBook) -> None:
        self._line = line
        self.book = book

    @property
    def id(self) -> str:
        return self.book.run_id

    @property
    def count(self) -> int:
        return len(self.book.results)

    @property
    def texts(self) -> list[str]:
        """The contents of the deltas so far."""
        found: list[str] = []
        for result in self.book.results:
            if result["type"] == "message.delta":
                chunk = cast("dict[str, dict[str, str]]", result["data"])["chunk"]
                found.append(chunk.get("content", ""))
        return found

    def credit(self, sequence: int) -> None:
        self._line.credit(self.book, sequence)

    def cancel(self, reason: str = "cancelled") -> None:
        self.book.cancelled = True
        self._line.note("run/cancel", {"run_id": self.id, "reason": reason})

    async def has(self, count: int, *, within: float = ANSWER_S) -> None:
        """Wait for that many results."""
        await self._before_its_end(lambda: self.count >= count, f"{count} results of {self.id}", within)

    async def _before_its_end(self, condition: Callable[[], bool], what: str, within: float) -> None:
        """A run that is over gives nothing more, so there is nothing to wait for."""
        await self._line.until(lambda: condition() or self.book.over, what, within=within)
        if not condition():
            how = self.book.terminal if self.book.terminal is not None else self.book.answer
            raise CaseFailed(what, f"the run is over with {brief(how)} after {self.count} results")

    async def answered(self, *, within: float = ANSWER_S) -> Answer | Failure:
        """The answer to `run/start`."""
        return await self._line.until(lambda: self.book.answer, f"an answer to run/start of {self.id}", within=within)

    async def ended(self, *, within: float = ANSWER_S) -> JsonObject:
        """The terminal result, once `run/start` was answered."""
        answer = await self.answered(within=within)
        if isinstance(answer, Failure):
            raise CaseFailed(f"{self.id} to run", f"run/start was refused: {answer.message} ({answer.code})")
        if self.book.terminal is None:
            raise CaseFailed("a terminal result", f"run/start was answered after {self.count} results without one")
        return self.book.terminal

    async def fails_with(self, *codes: str, within: float = ANSWER_S) -> JsonObject:
        """The run must end as `run.failed` with one of the codes."""
        terminal = await self.ended(within=within)
        data = cast("JsonObject", terminal["data"])
        if terminal["type"] != "run.failed" or data.get("code") not in codes:
            raise CaseFailed(f"run.failed with {' or '.join(codes)}", f"the run ended with {brief(terminal)}")
        return data

    async def completes(self, *, within: float = ANSWER_S) -> JsonObject:
        """The run must end as `run.completed`."""
        terminal = await self.ended(within=within)
        if terminal["type"] != "run.completed":
            raise CaseFailed("run.completed", f"the run ended with {brief(terminal)}")
        return cast("JsonObject", terminal["data"])

    async def said(self, *, within: float = ANSWER_S) -> JsonObject:
        """The first delta as the JSON object that a step emits."""
        await self._before_its_end(lambda: bool(self.texts), f"what a step of {self.id} emits", within)
        try:
            value: object = json.loads(self.texts[0])
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise CaseFailed("a delta that is a JSON object", f"its content is {brief(self.texts[0])}")
        return cast("JsonObject", value)
