"""One run of the local agent: ask a model, carry out what it asks for, ask again, until it has said what it has to say.

What a run may do is decided by the host, what a model is shown by `model_request`. Everything that a cancellation must
leave whole stands in fields: `last_words` finds there what has begun and has no end.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final

from bollard.protocol import JsonObject, Message, MessageChunk, TextContent
from bollard.sdk.agent.answer import AnswerBroken, Answering, ContextOverflow, NobodyAnswered
from bollard.sdk.agent.compaction import shrink
from bollard.sdk.agent.guard import Guard, Stop
from bollard.sdk.agent.hooks import Hooks, Turn
from bollard.sdk.agent.retrieval import citations
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.agent.steering import pulled
from bollard.sdk.agent.structured_output import checked, repair_message, response_format
from bollard.sdk.agent.texts import NUDGE, Language, broken, language_of, misfit, no_output, nobody, stopped
from bollard.sdk.agent.token_budget import Prepared, learned, nears_budget
from bollard.sdk.agent.tokens import count
from bollard.sdk.agent.tool_batch import Batch
from bollard.sdk.agent.toolset import Offering
from bollard.sdk.context import RunContext
from bollard.sdk.results import Result

_OWN_CODES: Final = frozenset({"budget_exceeded", "cancelled", "revoked"})
"""Refusals that are failures of the run under the same name."""


class AgentRun:
    """One run. `results` to its end; `last_words` when it was cancelled on the way."""

    def __init__(
        self,
        ctx: RunContext[Any],
        settings: AgentSettings,
        hooks: Hooks,
        offering: Offering,
        prepared: Prepared,
        guard: Guard,
    ) -> None:
        self._ctx = ctx
        self._config = settings
        self._hooks = hooks
        self._offering = offering
        self._prepared = prepared
        self._language: Language = language_of(ctx)
        self._guard = guard
        self._shown = settings.streaming and settings.output_schema is None
        self._answering: Answering | None = None
        self._answer: Message | None = None
        self._batch: Batch | None = None
        self._told = 0
        self._completed = 0
        self._calls: frozenset[str] = frozenset()
        self._lesson: Result | None = None
        self._listens = False
        """Whether people may have said something since the model was last told what they say."""
        self._overflowed = self._nudged = self._repaired = self._over = False

    # --- the run ---

    async def results(self) -> AsyncGenerator[Result, None]:
        """Everything the run sends, with its end."""
        try:
            while not self._over:
                if (stop := self._guard.before_step()) is not None:
                    for result in self._stop(stop):
                        yield result
                    return
                async with aclosing(self._step()) as results:
                    async for result in results:
                        yield result
        except NobodyAnswered as error:
            yield self._nobody(error)
        except AnswerBroken as error:
            for result in self._partial("error", str(error)):
                yield result
            yield self._ctx.fail(broken(str(error), self._language), retryable=error.attempt.retryable)

    def last_words(self, why: str) -> Iterator[Result]:
        """What a run that is cancelled or breaks now still has to say, so that its history is whole."""
        yield from self._partial(why, None)
        if self._batch is not None:
            for message in self._batch.results[self._told :]:
                yield self._ctx.completed(message)

    async def _step(self) -> AsyncGenerator[Result, None]:
        """One answer, and what follows from it."""
        if self._listens:
            self._say(*await pulled(self._ctx, self._config, self._prepared.budget))
        async with aclosing(self._asked()) as results:
            async for result in results:
                yield result
        if (answer := self._answer) is None:
            return
        follows = self._carried_out(answer) if answer.tool_calls else self._said(answer)
        async with aclosing(follows) as results:
            async for result in results:
                yield result

    # --- asking ---

    async def _asked(self) -> AsyncGenerator[Result, None]:
        """Ask, show what comes, and leave the answer; none where the question has to be made shorter first."""
        self._answer = None
        turn = await self._hooks.before_model(self._ctx, self._question())
        asking = Answering(self._ctx, self._config.models, turn, streaming=self._shown, overflow_ends=self._overflowed)
        self._answering = asking
        try:
            async with aclosing(asking.pieces()) as pieces:
                async for chunk in pieces:
                    if self._shown and (result := self._delta(chunk)) is not None:
                        yield result
        except ContextOverflow:
            self._answering, self._overflowed = None, True
            await self._shrink(count(turn.messages, turn.tools))
            return
        answer = await self._hooks.after_model(self._ctx, asking.message(self._calls, turn.step))
        self._guard.answered(answer)
        self._answer, self._overflowed = answer, False
        if asking.model == self._prepared.budget.model_id:
            self._lesson = learned(self._ctx, self._prepared.budget, turn.messages, turn.tools, answer.usage)

    def _question(self) -> Turn:
        config, functions = self._config, self._offering.functions
        arguments: JsonObject = {}
        if config.temperature is not None:
            arguments["temperature"] = config.temperature
        if config.max_tokens is not None:
            arguments["max_tokens"] = config.max_tokens
        if config.output_schema is not None:
            arguments["response_format"] = response_format(config.output_schema)
        if functions and self._guard.calls_left == 0:
            arguments["tool_choice"] = "none"
        elif functions and config.tool_choice == "required" and self._guard.calls == 0:
            arguments["tool_choice"] = "required"  # only to begin with: else it could never say anything
        return Turn(
            step=self._guard.steps + 1, messages=tuple(self._prepared.messages), tools=functions, extra_args=arguments
        )

    def _delta(self, chunk: MessageChunk) -> Result | None:
        """What people see of a piece. Built by hand: it comes by the thousand, and there is nothing in it to check."""
        text = chunk.content if isinstance(chunk.content, str) else text_of(chunk.content)
        if not text and not chunk.reasoning:
            return None
        body: JsonObject = {"role": "assistant", "content": text}
        if chunk.reasoning:
            body["reasoning"] = chunk.reasoning
        return Result("message.delta", {"chunk": body, "message_id": self._message_id})

    @property
    def _message_id(self) -> str:
        """The same for all that is shown until a message is whole."""
        return f"answer-{self._completed + 1}"

    # --- carrying out what was asked for ---

    async def _carried_out(self, answer: Message) -> AsyncGenerator[Result, None]:
        calls = answer.tool_calls or ()
        batch = Batch(self._ctx, self._config, self._offering, calls)
        yield self._whole(answer)
        self._answering, self._batch, self._told = None, batch, 0
        self._completed += 1
        self._calls |= {call.id for call in calls}
        refused = {**await self._hooks.before_tools(self._ctx, calls)}
        refused |= self._guard.refused([call for call in calls if call.id not in refused])
        await batch.carry_out(refused)
        results = tuple(await self._hooks.after_tools(self._ctx, batch.results))
        for message in results:
            yield self._ctx.completed(message)
            self._told += 1
        self._batch = None
        self._say(answer, *results)
        self._listens = True
        used = self._used(answer, results)
        if self._guard.before_step() is None and nears_budget(self._ctx, self._config, used):
            await self._shrink(used)

    # --- ending ---

    async def _said(self, answer: Message) -> AsyncGenerator[Result, None]:
        """An answer in words: the end, unless there is something to go on with."""
        text = text_of(answer.content)
        problem = "" if self._config.output_schema is None else checked(text, self._config.output_schema)[1]
        if not text.strip() or problem:
            self._answering = None
            ending = self._misfit(answer, problem) if text.strip() else self._silent(answer)
            if ending is not None:
                self._over = True
                yield ending
            return
        if found := citations(text, self._prepared.sources):
            answer = answer.model_copy(update={"metadata": {**(answer.metadata or {}), "citations": found}})
        yield self._whole(answer)
        self._answering = None
        self._completed += 1
        self._listens = self._nudged = self._repaired = False
        self._say(answer)
        may_go_on = self._guard.before_step() is None
        # What is pulled must be answered: without a step left for it, it is better off in a run of its own.
        if may_go_on and (more := await pulled(self._ctx, self._config, self._prepared.budget)):
            self._say(*more)
        elif (words := await self._hooks.finishing(self._ctx, answer)) is not None and may_go_on:
            self._say(Message(role="user", content=words))
        else:
            self._over = True
            if self._lesson is not None:
                yield self._lesson
            yield self._ctx.finish(answer.finish_reason or "stop")

    def _silent(self, answer: Message) -> Result | None:
        """An empty answer is asked about once; silence is no answer to a message."""
        if not self._nudged:
            self._nudged = True
            self._say(Message(role="user", content=NUDGE))
            return None
        if self._ctx.event.event_type != "message.received":
            return self._ctx.finish("silent")
        model = str((answer.metadata or {}).get("model"))
        return self._ctx.fail(no_output(model, answer.finish_reason, self._language), "runner.no_output")

    def _misfit(self, answer: Message, problem: str) -> Result | None:
        """An answer that must have a shape and has not is asked for once more."""
        if not self._repaired:
            self._repaired = True
            self._say(answer, repair_message(problem))
            return None
        return self._ctx.fail(misfit(problem, self._language))

    def _stop(self, stop: Stop) -> Iterator[Result]:
        self._over = True
        words = stopped(stop, self._language, self._guard.steps_used)
        yield self._whole(Message(role="assistant", content=words, finish_reason=stop, metadata={"stopped": stop}))
        yield self._ctx.finish(stop)

    def _nobody(self, error: NobodyAnswered) -> Result:
        code = error.code if error.code in _OWN_CODES else "runner.error"
        sentence = nobody(error, self._language)
        return Result("run.failed", {"code": code, "error": sentence, "retryable": error.retryable})

    def _partial(self, why: str, problem: str | None) -> Iterator[Result]:
        """What was shown of an answer that has no end. Calls that it asked for were not made, so they are left out."""
        asking, self._answering = self._answering, None
        if asking is None or not self._shown or not (text := "".join(asking.partial.text)):
            return
        metadata: JsonObject = {"model": asking.model, "partial": True}
        if problem is not None:
            metadata["error"] = problem
        if asking.attempts:
            metadata["fallbacks"] = [each.to_json() for each in asking.attempts]
        usage = asking.partial.usage
        yield self._whole(Message(role="assistant", content=text, finish_reason=why, usage=usage, metadata=metadata))

    # --- small things ---

    def _whole(self, message: Message) -> Result:
        return self._ctx.completed(message, message_id=self._message_id)

    def _say(self, *messages: Message) -> None:
        self._prepared.messages.extend(messages)

    def _used(self, answer: Message, added: Sequence[Message]) -> int:
        """Tokens of the next question: as the provider counted the last one, where it told."""
        usage, scale = answer.usage, self._prepared.budget.scale
        if usage is None or usage.prompt_tokens is None:
            return scale.real(count(self._prepared.messages, self._offering.functions))
        return usage.prompt_tokens + (usage.completion_tokens or 0) + scale.real(count(added))

    async def _shrink(self, used_tokens: int) -> None:
        self._prepared = await shrink(self._ctx, self._config, self._prepared, used_tokens, self._guard, self._hooks)


def text_of(content: str | tuple[Any, ...]) -> str:
    """The words of a message."""
    if isinstance(content, str):
        return content
    return "".join(element.text for element in content if isinstance(element, TextContent))
