"""`AgentRun`: the loop of one run. It asks a model, calls the requested tools, and asks again until there is an answer.

The host decides what the run may do, and `model_request` what the model reads. Open messages and open calls are in
fields, so that `close_open_messages` can complete them after a cancellation.
"""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final

from bollard.protocol import JsonObject, Message, MessageChunk, TextContent
from bollard.sdk.agent.answer import AnswerInterrupted, AnswerStream, ContextOverflow, NoModelAnswered
from bollard.sdk.agent.compaction import shrink_request
from bollard.sdk.agent.guard import Guard, Stop
from bollard.sdk.agent.hooks import Hooks, Turn
from bollard.sdk.agent.retrieval import citations
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.agent.steering import pull_messages
from bollard.sdk.agent.structured_output import check_answer, repair_message, response_format
from bollard.sdk.agent.texts import (
    NUDGE,
    Language,
    empty_text,
    interrupted_text,
    language_of,
    mismatch_text,
    no_model_text,
    stop_text,
)
from bollard.sdk.agent.token_budget import PreparedRequest, learned_scale, nears_budget
from bollard.sdk.agent.tokens import count
from bollard.sdk.agent.tool_batch import ToolBatch
from bollard.sdk.agent.toolset import Toolset
from bollard.sdk.context import RunContext
from bollard.sdk.results import Result

_OWN_CODES: Final = frozenset({"budget_exceeded", "cancelled", "revoked"})
"""Refusals that fail the run with the same code."""


class AgentRun:
    """One run: `results` to its end, and `close_open_messages` if it is cancelled or fails before."""

    def __init__(
        self,
        ctx: RunContext[Any],
        settings: AgentSettings,
        hooks: Hooks,
        toolset: Toolset,
        prepared: PreparedRequest,
        guard: Guard,
    ) -> None:
        self._ctx = ctx
        self._config = settings
        self._hooks = hooks
        self._toolset = toolset
        self._prepared = prepared
        self._language: Language = language_of(ctx)
        self._guard = guard
        self._shown = settings.streaming and settings.output_schema is None
        self._open_answer: AnswerStream | None = None
        self._answer: Message | None = None
        self._batch: ToolBatch | None = None
        self._results_sent = 0
        self._completed = 0
        self._calls: frozenset[str] = frozenset()
        self._scale_update: Result | None = None
        self._may_have_steering = False
        """Whether steering messages may have arrived since the last pull."""
        self._overflowed = self._nudged = self._repaired = self._over = False

    # --- the run ---

    async def results(self) -> AsyncGenerator[Result, None]:
        """Yield the results of the run, the terminal one last."""
        try:
            while not self._over:
                if (stop := self._guard.before_step()) is not None:
                    for result in self._stop(stop):
                        yield result
                    return
                async with aclosing(self._step()) as results:
                    async for result in results:
                        yield result
        except NoModelAnswered as error:
            yield self._no_answer(error)
        except AnswerInterrupted as error:
            for result in self._partial("error", str(error)):
                yield result
            yield self._ctx.fail(interrupted_text(error, self._language), retryable=error.attempt.retryable)

    def close_open_messages(self, why: str) -> Iterator[Result]:
        """Yield what completes the open message and the open calls of a run that is cancelled or fails."""
        yield from self._partial(why, None)
        if self._batch is not None:
            for message in self._batch.results[self._results_sent :]:
                yield self._ctx.completed(message)

    async def _step(self) -> AsyncGenerator[Result, None]:
        """One answer, then its tool calls or the end."""
        if self._may_have_steering:
            self._append(*await pull_messages(self._ctx, self._config, self._prepared.budget))
        async with aclosing(self._ask_model()) as results:
            async for result in results:
                yield result
        if (answer := self._answer) is None:
            return
        follows = self._call_tools(answer) if answer.tool_calls else self._end_with(answer)
        async with aclosing(follows) as results:
            async for result in results:
                yield result

    # --- the model ---

    async def _ask_model(self) -> AsyncGenerator[Result, None]:
        """Ask the model, yield the deltas, and store the answer. Without an answer the request was too long."""
        self._answer = None
        turn = await self._hooks.before_model(self._ctx, self._question())
        stream = AnswerStream(
            self._ctx, self._config.models, turn, streaming=self._shown, overflow_ends=self._overflowed
        )
        self._open_answer = stream
        try:
            async with aclosing(stream.chunks()) as chunks:
                async for chunk in chunks:
                    if self._shown and (result := self._delta(chunk)) is not None:
                        yield result
        except ContextOverflow:
            self._open_answer, self._overflowed = None, True
            await self._shrink_request(count(turn.messages, turn.tools))
            return
        answer = await self._hooks.after_model(self._ctx, stream.message(self._calls, turn.step))
        self._guard.count_answer(answer)
        self._answer, self._overflowed = answer, False
        if stream.model == self._prepared.budget.model_id:
            self._scale_update = learned_scale(
                self._ctx, self._prepared.budget, turn.messages, turn.tools, answer.usage
            )

    def _question(self) -> Turn:
        config, functions = self._config, self._toolset.functions
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
            arguments["tool_choice"] = "required"  # for the first call only: otherwise the model could never answer
        return Turn(
            step=self._guard.steps + 1, messages=tuple(self._prepared.messages), tools=functions, extra_args=arguments
        )

    def _delta(self, chunk: MessageChunk) -> Result | None:
        """The delta of a chunk. Built without validation: there are thousands, and a chunk is valid already."""
        text = chunk.content if isinstance(chunk.content, str) else text_of(chunk.content)
        if not text and not chunk.reasoning:
            return None
        body: JsonObject = {"role": "assistant", "content": text}
        if chunk.reasoning:
            body["reasoning"] = chunk.reasoning
        return Result("message.delta", {"chunk": body, "message_id": self._message_id})

    @property
    def _message_id(self) -> str:
        """The id of the open message, shared by its deltas."""
        return f"answer-{self._completed + 1}"

    # --- tools ---

    async def _call_tools(self, answer: Message) -> AsyncGenerator[Result, None]:
        calls = answer.tool_calls or ()
        batch = ToolBatch(self._ctx, self._config, self._toolset, calls)
        yield self._completed_message(answer)
        self._open_answer, self._batch, self._results_sent = None, batch, 0
        self._completed += 1
        self._calls |= {call.id for call in calls}
        refused = {**await self._hooks.before_tools(self._ctx, calls)}
        refused |= self._guard.refuse_calls([call for call in calls if call.id not in refused])
        await batch.run(refused)
        results = tuple(await self._hooks.after_tools(self._ctx, batch.results))
        for message in results:
            yield self._ctx.completed(message)
            self._results_sent += 1
        self._batch = None
        self._append(answer, *results)
        self._may_have_steering = True
        used = self._used(answer, results)
        if self._guard.before_step() is None and nears_budget(self._ctx, self._config, used):
            await self._shrink_request(used)

    # --- the end ---

    async def _end_with(self, answer: Message) -> AsyncGenerator[Result, None]:
        """Record an answer without calls, and end the run unless a message or a hook continues it."""
        text = text_of(answer.content)
        problem = "" if self._config.output_schema is None else check_answer(text, self._config.output_schema)[1]
        if not text.strip() or problem:
            self._open_answer = None
            ending = self._mismatch(answer, problem) if text.strip() else self._silent(answer)
            if ending is not None:
                self._over = True
                yield ending
            return
        if found := citations(text, self._prepared.sources):
            answer = answer.model_copy(update={"metadata": {**(answer.metadata or {}), "citations": found}})
        yield self._completed_message(answer)
        self._open_answer = None
        self._completed += 1
        self._may_have_steering = self._nudged = self._repaired = False
        self._append(answer)
        may_go_on = self._guard.before_step() is None
        # A pulled message must be answered. Without a step left for it, it stays queued and gets a run of its own.
        if may_go_on and (more := await pull_messages(self._ctx, self._config, self._prepared.budget)):
            self._append(*more)
        elif (words := await self._hooks.finishing(self._ctx, answer)) is not None and may_go_on:
            self._append(Message(role="user", content=words))
        else:
            self._over = True
            if self._scale_update is not None:
                yield self._scale_update
            yield self._ctx.finish(answer.finish_reason or "stop")

    def _silent(self, answer: Message) -> Result | None:
        """Ask once more after an empty answer. A message without any answer fails the run."""
        if not self._nudged:
            self._nudged = True
            self._append(Message(role="user", content=NUDGE))
            return None
        if self._ctx.event.event_type != "message.received":
            return self._ctx.finish("silent")
        model = str((answer.metadata or {}).get("model"))
        return self._ctx.fail(empty_text(model, answer.finish_reason, self._language), "runner.no_output")

    def _mismatch(self, answer: Message, problem: str) -> Result | None:
        """Ask once more for an answer that fits the output schema."""
        if not self._repaired:
            self._repaired = True
            self._append(answer, repair_message(problem))
            return None
        return self._ctx.fail(mismatch_text(problem, self._language))

    def _stop(self, stop: Stop) -> Iterator[Result]:
        self._over = True
        words = stop_text(stop, self._language, self._guard.steps_used)
        yield self._completed_message(
            Message(role="assistant", content=words, finish_reason=stop, metadata={"stopped": stop})
        )
        yield self._ctx.finish(stop)

    def _no_answer(self, error: NoModelAnswered) -> Result:
        code = error.code if error.code in _OWN_CODES else "runner.error"
        sentence = no_model_text(error, self._language, granted=bool(self._ctx.resources.models))
        return Result("run.failed", {"code": code, "error": sentence, "retryable": error.retryable})

    def _partial(self, why: str, problem: str | None) -> Iterator[Result]:
        """The shown part of an interrupted answer, without its calls, which were not made."""
        stream, self._open_answer = self._open_answer, None
        if stream is None or not self._shown or not (text := "".join(stream.partial.text)):
            return
        metadata: JsonObject = {"model": stream.model, "partial": True}
        if problem is not None:
            metadata["error"] = problem
        if stream.attempts:
            metadata["fallbacks"] = [each.to_json() for each in stream.attempts]
        usage = stream.partial.usage
        yield self._completed_message(
            Message(role="assistant", content=text, finish_reason=why, usage=usage, metadata=metadata)
        )

    # --- the request ---

    def _completed_message(self, message: Message) -> Result:
        return self._ctx.completed(message, message_id=self._message_id)

    def _append(self, *messages: Message) -> None:
        self._prepared.messages.extend(messages)

    def _used(self, answer: Message, added: Sequence[Message]) -> int:
        """Tokens of the next request, based on the count of the provider if it reports one."""
        usage, scale = answer.usage, self._prepared.budget.scale
        if usage is None or usage.prompt_tokens is None:
            return scale.real(count(self._prepared.messages, self._toolset.functions))
        return usage.prompt_tokens + (usage.completion_tokens or 0) + scale.real(count(added))

    async def _shrink_request(self, used_tokens: int) -> None:
        self._prepared = await shrink_request(
            self._ctx, self._config, self._prepared, used_tokens, self._guard, self._hooks
        )


def text_of(content: str | tuple[Any, ...]) -> str:
    """The text of a message."""
    if isinstance(content, str):
        return content
    return "".join(element.text for element in content if isinstance(element, TextContent))
