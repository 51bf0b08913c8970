"""Questions of runs to the person in their conversation. The run is parked until the answer.

A question is on disk before it is visible, an answer before the runner receives it. A question ends with its call: if
the run is lost, its runner asks again. An answer is data like any message and allows nothing; that takes an approval.
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
from bollard.host.runs.control import WaitingRuns
from bollard.host.runs.ids import IdMaker
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.recorder import into
from bollard.protocol import JsonObject


class MessageSource(Protocol):
    """The steering messages queued for runs."""

    async def oldest(self, run: LiveRun) -> tuple[str, str] | None:
        """Take the oldest message for the runner: the id of its event, and its text."""
        ...


_RUN_ENDED: Final = "the run ended before the question was answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One open question."""

    question_id: str
    run_id: str
    call_id: str
    text: str
    choices: tuple[str, ...]
    asked_ms: int
    answer: "asyncio.Future[str]" = field(repr=False)

    def data(self) -> JsonObject:
        data: JsonObject = {"question_id": self.question_id, "call_id": self.call_id, "question": self.text}
        if self.choices:
            data["choices"] = [*self.choices]
        return data


class QuestionRegistry:
    """The open questions of all live runs. Implements `Questions` of the built-in tools."""

    def __init__(self, *, live: Mapping[str, LiveRun], parked: WaitingRuns, clock: Clock) -> None:
        self._live = live
        self._parked = parked
        self._clock = clock
        self._ids = IdMaker()
        self._open: dict[str, dict[str, Question]] = {}
        self._background = Background()

    def of_run(self, run_id: str) -> list[Question]:
        """The open questions of the run, oldest first."""
        return [*self._open.get(run_id, {}).values()]

    async def ask(self, order: CallOrder, question: str, choices: tuple[str, ...]) -> str:
        """Wait for the answer. Raises `ToolFailed` if the run has ended, `Overloaded` at too many open questions."""
        run = self._live.get(order.context.run_id)
        if run is None or run.ending or run.state.cancel is not None:
            raise _unanswered()
        if len(self._open.get(run.facts.run_id, {})) >= QUESTIONS_OF_RUN:
            raise Overloaded(
                f"{QUESTIONS_OF_RUN} questions of this run are open already",
                reason="too_many_questions",
                hint="wait for an answer before the next question",
                limit=QUESTIONS_OF_RUN,
            )
        opened = Question(
            question_id=f"qst_{self._ids.next(self._clock.now_ms())}",
            run_id=run.facts.run_id,
            call_id=order.call_id,
            text=question,
            choices=choices,
            asked_ms=self._clock.now_ms(),
            answer=asyncio.get_running_loop().create_future(),
        )
        with self._parked.waiting(run, {"question_id": opened.question_id}):
            await self._write(run, "question.asked", opened.data())
            return await self._wait_for_answer(run, opened)

    async def _wait_for_answer(self, run: LiveRun, question: Question) -> str:
        self._open.setdefault(question.run_id, {})[question.question_id] = question
        try:
            return await question.answer
        except asyncio.CancelledError:
            run.note("question.expired", {"question_id": question.question_id, "call_id": question.call_id})
            raise
        finally:
            self._close(question)

    async def answer(self, run_id: str, question_id: str, answer: str, *, by: str, event_id: str | None = None) -> None:
        """Record the answer and resume the run. Raises `NotFound` (also if another answer came first),
        `InvalidRequest` if the answer is not one of the choices, and `Conflict` if the run ends meanwhile."""
        run, question = self._live.get(run_id), self._open.get(run_id, {}).get(question_id)
        if run is None or question is None:
            raise NotFound(
                "there is no such question",
                reason="no_question",
                hint="it was answered, has expired, or its run has ended",
            )
        check_answer(question, answer)
        self._close(question)  # no other answer is accepted from here
        data: JsonObject = {"question_id": question_id, "call_id": question.call_id, "answer": answer, "by": by}
        if event_id is not None:
            data["event_id"] = event_id
        try:
            await self._write(run, "question.answered", data)
        except ToolFailed as error:
            raise Conflict(_RUN_ENDED, reason="question_run_ended", hint="start another run") from error
        if not question.answer.done():
            question.answer.set_result(answer)

    def message_came(self, run: LiveRun, messages: MessageSource) -> None:
        """Answer the oldest open question of the run with a message queued for the run."""
        if self._open.get(run.facts.run_id):
            self._background.begin(self._answer_with_message(run, messages))

    async def _answer_with_message(self, run: LiveRun, messages: MessageSource) -> None:
        question = next(iter(self.of_run(run.facts.run_id)), None)
        if question is None or (message := await messages.oldest(run)) is None:
            return
        event_id, text = message
        try:
            await self.answer(question.run_id, question.question_id, text, by="message", event_id=event_id)
        except (InvalidRequest, NotFound, Conflict):
            run.note("steering.queued", {"event_id": event_id})  # not an answer: queued for the runner again

    async def _write(self, run: LiveRun, kind: str, data: JsonObject) -> None:
        landed: asyncio.Future[ExpectationResult | None] = asyncio.get_running_loop().create_future()
        if not run.note(kind, data, into(landed)) or await landed is None:
            raise _unanswered()

    def _close(self, question: Question) -> None:
        questions = self._open.get(question.run_id, {})
        questions.pop(question.question_id, None)
        if not questions:
            self._open.pop(question.run_id, None)

    async def close(self) -> None:
        await self._background.close()


def _unanswered() -> ToolFailed:
    return ToolFailed(_RUN_ENDED, reason="question_run_ended", hint="start another run")


def check_answer(question: Question, answer: str) -> None:
    """Raises `InvalidRequest`."""
    if not answer.strip() or len(answer) > ANSWER_CHARACTERS:
        raise InvalidRequest(
            f"the answer must have 1 to {ANSWER_CHARACTERS} characters",
            reason="answer_length",
            hint="shorten the answer",
            field="answer",
            most=ANSWER_CHARACTERS,
        )
    if question.choices and answer not in question.choices:
        choices = ", ".join(question.choices)
        raise InvalidRequest(
            "the answer is not one of the choices",
            reason="not_a_choice",
            hint=f"choose one of: {choices}",
            field="answer",
            choices=choices,
        )
