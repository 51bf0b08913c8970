"""Questions of runs to the person in their conversation. The run is parked until the answer.

A question is on disk before it is visible, an answer before the runner receives it. A question ends with its call: if
the run is lost, its runner asks again. An answer is data like any message and allows nothing; that takes an approval.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from bollard.host.approvals.interactions import interaction_route
from bollard.host.background import Background
from bollard.host.capabilities.sources import CallOrder
from bollard.host.clock import Clock
from bollard.host.errors import Conflict, InvalidRequest, NotFound, Overloaded, ToolFailed
from bollard.host.limits import ANSWER_CHARACTERS, QUESTIONS_OF_RUN
from bollard.host.log.entries import ExpectationResult
from bollard.host.log.records import InteractionRoute
from bollard.host.runs.control import WaitingRuns
from bollard.host.runs.ids import IdMaker
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.recorder import into
from bollard.host.scope import Actor
from bollard.protocol import JsonObject, JsonValue

_NUMBER_DIGITS: Final = 4
"""Digits of a number that names a choice."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A message of a conversation in which a question is open."""

    event_id: str
    actor: Actor | None
    text: str


class MessageSource(Protocol):
    """The steering messages queued for runs."""

    async def take(self, run: LiveRun, event_id: str) -> bool:
        """Take one message out of the queue of the run. Returns whether it was there."""
        ...


_RUN_ENDED: Final = "the run ended before the question was answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One open question."""

    question_id: str
    run_id: str
    conversation_run: str
    """The run of the conversation: the run that asks, or the one that called it."""
    actor: Actor | None
    """The person who is asked: the actor of that run."""
    call_id: str
    text: str
    choices: tuple[str, ...]
    asked_ms: int
    interaction: InteractionRoute | None = None
    answer: "asyncio.Future[str]" = field(repr=False)

    def data(self) -> JsonObject:
        data: JsonObject = {"question_id": self.question_id, "call_id": self.call_id, "question": self.text}
        if self.choices:
            data["choices"] = [*self.choices]
        return data

    def with_route(self, **fields: JsonValue) -> JsonObject:
        """Data of a record of the question, which also shows its interaction."""
        data: JsonObject = {"question_id": self.question_id, "call_id": self.call_id, **fields}
        return data if self.interaction is None else {**data, "interaction": msgspec.to_builtins(self.interaction)}


class QuestionRegistry:
    """The open questions of all live runs. Implements `Questions` of the built-in tools."""

    def __init__(
        self,
        *,
        live: Mapping[str, LiveRun],
        parked: WaitingRuns,
        clock: Clock,
        written: Callable[[], None] = lambda: None,
    ) -> None:
        """`written` is called after each record of a question: its interaction can be sent."""
        self._written = written
        self._live = live
        self._parked = parked
        self._clock = clock
        self._ids = IdMaker()
        self._open: dict[str, Question] = {}
        self._of_run: dict[str, dict[str, Question]] = {}
        self._of_conversation: dict[str, dict[str, Question]] = {}
        """By the run of the conversation."""
        self._background = Background()

    def of_run(self, run_id: str) -> list[Question]:
        """The open questions of the run, oldest first."""
        return [*self._of_run.get(run_id, {}).values()]

    def in_workspace(self, workspace: str) -> list[Question]:
        """The open questions of all runs of a workspace, oldest first."""
        return [
            each
            for each in self._open.values()
            if (run := self._live.get(each.run_id)) is not None and run.facts.workspace == workspace
        ]

    def find(self, question_id: str) -> Question | None:
        return self._open.get(question_id)

    async def ask(self, order: CallOrder, question: str, choices: tuple[str, ...]) -> str:
        """Wait for the answer. Raises `ToolFailed` if the run has ended, `Overloaded` at too many open questions."""
        run = self._live.get(order.context.run_id)
        if run is None or run.ending or run.state.cancel is not None:
            raise _unanswered()
        if len(self._of_run.get(run.facts.run_id, {})) >= QUESTIONS_OF_RUN:
            raise Overloaded(
                f"{QUESTIONS_OF_RUN} questions of this run are open already",
                reason="too_many_questions",
                hint="wait for an answer before the next question",
                limit=QUESTIONS_OF_RUN,
            )
        question_id, lineage = f"qst_{self._ids.next(self._clock.now_ms())}", self._parked.lineage(run)
        opened = Question(
            question_id=question_id,
            run_id=run.facts.run_id,
            conversation_run=lineage[-1].facts.run_id,
            actor=lineage[-1].facts.actor,
            call_id=order.call_id,
            text=question,
            choices=choices,
            asked_ms=self._clock.now_ms(),
            interaction=interaction_route(lineage, question_id),
            answer=asyncio.get_running_loop().create_future(),
        )
        with self._parked.waiting(run, {"question_id": opened.question_id}):
            await self._write(run, "question.asked", opened.with_route(**opened.data()))
            return await self._wait_for_answer(run, opened)

    async def _wait_for_answer(self, run: LiveRun, question: Question) -> str:
        self._open[question.question_id] = question
        self._of_run.setdefault(question.run_id, {})[question.question_id] = question
        self._of_conversation.setdefault(question.conversation_run, {})[question.question_id] = question
        try:
            return await question.answer
        except asyncio.CancelledError:
            run.note("question.expired", question.with_route(reason="given_up"))  # an ending run records it itself
            raise
        finally:
            self._close(question)

    async def answer(self, run_id: str, question_id: str, answer: str, *, by: str, event_id: str | None = None) -> None:
        """Record the answer and resume the run. Raises `NotFound` (also if another answer came first),
        `InvalidRequest` if the answer is not one of the choices, and `Conflict` if the run ends meanwhile."""
        run, question = self._live.get(run_id), self._open.get(question_id)
        if run is None or question is None or question.run_id != run_id:
            raise no_question()
        check_answer(question, answer)
        self._close(question)  # no other answer is accepted from here
        data = question.with_route(answer=answer, by=by)
        if event_id is not None:
            data["event_id"] = event_id
        try:
            await self._write(run, "question.answered", data)
        except ToolFailed as error:
            raise Conflict(_RUN_ENDED, reason="question_run_ended", hint="start another run") from error
        if not question.answer.done():
            question.answer.set_result(answer)

    # --- answers by a message ---

    def awaits(self, run_id: str, actor: Actor | None, text: str) -> bool:
        """Whether a message with this text would answer a question in the conversation of the run."""
        return self._answered_by(run_id, actor, text) is not None

    def message_came(self, run: LiveRun, message: Message, messages: MessageSource) -> None:
        """Answer the oldest open question to the sender that the message fits. The message is queued for the run."""
        if (found := self._answered_by(run.facts.run_id, message.actor, message.text)) is not None:
            self._background.begin(self._answer_with_message(run, *found, message.event_id, messages))

    def _answered_by(self, run_id: str, actor: Actor | None, text: str) -> tuple[Question, str] | None:
        for question in self._of_conversation.get(run_id, {}).values():
            if question.actor == actor and (answer := read_answer(question, text)) is not None:
                return question, answer
        return None

    async def _answer_with_message(
        self, run: LiveRun, question: Question, answer: str, event_id: str, messages: MessageSource
    ) -> None:
        if question.question_id not in self._open or not await messages.take(run, event_id):
            return
        try:
            await self.answer(question.run_id, question.question_id, answer, by="message", event_id=event_id)
        except (InvalidRequest, NotFound, Conflict):
            run.note("steering.queued", {"event_id": event_id})  # not an answer: queued for the runner again

    async def _write(self, run: LiveRun, kind: str, data: JsonObject) -> None:
        landed: asyncio.Future[ExpectationResult | None] = asyncio.get_running_loop().create_future()
        if not run.note(kind, data, into(landed)) or await landed is None:
            raise _unanswered()
        self._written()

    def _close(self, question: Question) -> None:
        self._open.pop(question.question_id, None)
        for index, key in ((self._of_run, question.run_id), (self._of_conversation, question.conversation_run)):
            questions = index.get(key, {})
            questions.pop(question.question_id, None)
            if not questions:
                index.pop(key, None)

    async def close(self) -> None:
        await self._background.close()


def no_question() -> NotFound:
    return NotFound(
        "there is no such question", reason="no_question", hint="it was answered, has expired, or its run has ended"
    )


def read_answer(question: Question, text: str) -> str | None:
    """The answer that a message gives: a choice by its text or its number, or any text for a question without choices.
    `None` if it is none."""
    said = text.strip()
    if not question.choices:
        return said if 0 < len(said) <= ANSWER_CHARACTERS else None
    if said in question.choices:
        return said
    number = int(said) if said.isascii() and said.isdigit() and len(said) <= _NUMBER_DIGITS else 0
    return question.choices[number - 1] if 1 <= number <= len(question.choices) else None


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
