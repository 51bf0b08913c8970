"""Asks the person in a run's conversation something and waits for the answer: the run is parked meanwhile.

A question is on disk before anybody can see it, an answer before the runner hears it. It lives as long as the call
that asked it: a run that is lost takes its questions along, and its runner asks again. An answer is data like any
message. It allows nothing: what needs a yes is an approval.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from bollard.host.background import Background
from bollard.host.capabilities.sources import CallOrder
from bollard.host.clock import Clock
from bollard.host.errors import Conflict, InvalidRequest, NotFound, Overloaded, ToolFailed
from bollard.host.limits import ANSWER_CHARACTERS, QUESTIONS_OF_RUN
from bollard.host.log.entries import ExpectationResult
from bollard.host.runs.batches import into
from bollard.host.runs.control import WaitingRuns
from bollard.host.runs.ids import IdMaker
from bollard.host.runs.live_run import LiveRun
from bollard.protocol import JsonObject


class MessageSource(Protocol):
    """The steering messages that wait for runs."""

    async def oldest(self, run: LiveRun) -> tuple[str, str] | None:
        """Pull the oldest message for the runner: the id of its event, and its text."""
        ...


_ENDED: Final = "the run ended before anybody answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One that is open."""

    question_id: str
    run_id: str
    call_id: str
    text: str
    choices: tuple[str, ...]
    asked_ms: int
    answer: "asyncio.Future[str]" = field(repr=False)

    def data(self) -> JsonObject:
        told: JsonObject = {"question_id": self.question_id, "call_id": self.call_id, "question": self.text}
        if self.choices:
            told["choices"] = [*self.choices]
        return told


class QuestionRegistry:
    """Implements `Questions` of the built-in tools. One per host."""

    def __init__(self, *, live: Mapping[str, LiveRun], parked: WaitingRuns, clock: Clock) -> None:
        self._live = live
        self._parked = parked
        self._clock = clock
        self._ids = IdMaker()
        self._open: dict[str, dict[str, Question]] = {}
        self._background = Background()

    def of_run(self, run_id: str) -> list[Question]:
        """Those that are open, the oldest first."""
        return [*self._open.get(run_id, {}).values()]

    async def ask(self, order: CallOrder, question: str, choices: tuple[str, ...]) -> str:
        """What was answered. Raises `ToolFailed` when the run is over, `Overloaded` when it asks too much."""
        run = self._live.get(order.context.run_id)
        if run is None or run.ending or run.state.cancel is not None:
            raise ToolFailed(_ENDED, hint="start another run")
        if len(self._open.get(run.facts.run_id, {})) >= QUESTIONS_OF_RUN:
            raise Overloaded(
                f"{QUESTIONS_OF_RUN} questions of this run are open already",
                hint="wait for an answer before the next question",
                limit=QUESTIONS_OF_RUN,
            )
        asked = Question(
            question_id=f"qst_{self._ids.next(self._clock.now_ms())}",
            run_id=run.facts.run_id,
            call_id=order.call_id,
            text=question,
            choices=choices,
            asked_ms=self._clock.now_ms(),
            answer=asyncio.get_running_loop().create_future(),
        )
        with self._parked.waiting(run, {"question_id": asked.question_id}):
            await self._written(run, "question.asked", asked.data())
            return await self._answer_to(run, asked)

    async def _answer_to(self, run: LiveRun, asked: Question) -> str:
        self._open.setdefault(asked.run_id, {})[asked.question_id] = asked
        try:
            return await asked.answer
        except asyncio.CancelledError:
            run.note("question.expired", {"question_id": asked.question_id, "call_id": asked.call_id})
            raise
        finally:
            self._close(asked)

    async def answer(self, run_id: str, question_id: str, answer: str, *, by: str, event_id: str | None = None) -> None:
        """Somebody answers. Raises `NotFound` (also when another answer came first), `InvalidRequest` where it is none
        of the choices, and `Conflict` when the run ends meanwhile."""
        run, asked = self._live.get(run_id), self._open.get(run_id, {}).get(question_id)
        if run is None or asked is None:
            raise NotFound("there is no such question", hint="it was answered, has expired, or its run has ended")
        check_answer(asked, answer)
        self._close(asked)  # from now on nobody else can
        told: JsonObject = {"question_id": question_id, "call_id": asked.call_id, "answer": answer, "by": by}
        if event_id is not None:
            told["event_id"] = event_id
        try:
            await self._written(run, "question.answered", told)
        except ToolFailed as error:
            raise Conflict(_ENDED, hint="start another run") from error
        if not asked.answer.done():
            asked.answer.set_result(answer)

    def message_came(self, run: LiveRun, messages: MessageSource) -> None:
        """Answer the oldest open question of the run with a message that the run was given."""
        if self._open.get(run.facts.run_id):
            self._background.begin(self._take_answer(run, messages))

    async def _take_answer(self, run: LiveRun, messages: MessageSource) -> None:
        asked = next(iter(self.of_run(run.facts.run_id)), None)
        if asked is None or (taken := await messages.oldest(run)) is None:
            return
        event_id, text = taken
        try:
            await self.answer(asked.run_id, asked.question_id, text, by="message", event_id=event_id)
        except (InvalidRequest, NotFound, Conflict):
            run.note("steering.queued", {"event_id": event_id})  # it is no answer: it waits for the runner again

    async def _written(self, run: LiveRun, kind: str, data: JsonObject) -> None:
        landed: asyncio.Future[ExpectationResult | None] = asyncio.get_running_loop().create_future()
        if not run.note(kind, data, into(landed)) or await landed is None:
            raise ToolFailed(_ENDED, hint="start another run")

    def _close(self, asked: Question) -> None:
        questions = self._open.get(asked.run_id, {})
        questions.pop(asked.question_id, None)
        if not questions:
            self._open.pop(asked.run_id, None)

    async def close(self) -> None:
        await self._background.close()


def check_answer(asked: Question, answer: str) -> None:
    """Raises `InvalidRequest`."""
    if not answer.strip() or len(answer) > ANSWER_CHARACTERS:
        raise InvalidRequest(
            f"an answer has 1 to {ANSWER_CHARACTERS} characters", hint="say it shorter", field="answer"
        )
    if asked.choices and answer not in asked.choices:
        raise InvalidRequest(
            "the answer is none of the choices", hint=f"choose one of: {', '.join(asked.choices)}", field="answer"
        )
