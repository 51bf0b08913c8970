"""`AnswerStream`: one answer of a model, with fallbacks for a model that fails before its first chunk.

After the first chunk no fallback takes over: two models would write one message. The partial answer is kept, so that
the message can be completed. There are no retries here; the host retries before the first chunk.
"""

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

from bollard.protocol import FunctionCall, JsonObject, Message, MessageChunk, ToolCall, Usage
from bollard.sdk.agent.hooks import Turn
from bollard.sdk.agent.media import has_images, without_images
from bollard.sdk.context import RunContext
from bollard.sdk.errors import AgentAPIException

ANSWER_CHARACTERS: Final = 200_000
"""Text, reasoning and arguments of one answer together. At three bytes each they fit into one result."""
CALLS_IN_ANSWER: Final = 64
"""Tool calls of one answer."""
_NO_OTHER_MODEL: Final = frozenset({"budget_exceeded", "cancelled", "revoked", "audit_unavailable"})
"""Refusals that no other model changes."""
_PLAIN_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A model that did not answer, and the reason."""

    model: str
    code: str
    reason: str
    retryable: bool
    address: str | None = None
    """The address of its provider, if a provider was asked."""
    status: int | None = None
    """The HTTP status of its provider."""
    workspace: str = ""
    """The workspace, if it has no default model."""
    command: str = ""
    """The command that gives it one."""

    @staticmethod
    def of(model: str, error: AgentAPIException) -> "Attempt":
        details = error.error.details
        reason, address, status = (details.get(name) for name in ("reason", "address", "status"))
        lacking = details if reason == "no_default_model" else {}
        return Attempt(
            model=model,
            code=error.code,
            reason=reason if isinstance(reason, str) else error.error.message,
            retryable=error.retryable,
            address=address if isinstance(address, str) else None,
            status=status if isinstance(status, int) else None,
            workspace=str(lacking.get("workspace", "")),
            command=str(lacking.get("command", "")),
        )

    def __str__(self) -> str:
        if self.command:
            return f"{self.model}: the workspace {self.workspace} has no default model, run `{self.command}`"
        place = "" if self.address is None else f" ({self.address})"
        status = "" if self.status is None else f", HTTP {self.status}"
        return f"{self.model}{place}: {self.reason}{status} ({self.code})"

    def to_json(self) -> JsonObject:
        return {"model": self.model, "code": self.code, "reason": self.reason}


class NoModelAnswered(Exception):
    """No model answered."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        super().__init__("; ".join(map(str, attempts)))
        self.attempts = tuple(attempts)

    @property
    def code(self) -> str:
        return self.attempts[-1].code if self.attempts else "not_found"

    @property
    def retryable(self) -> bool:
        return any(each.retryable for each in self.attempts)


class AnswerInterrupted(Exception):
    """The answer broke off after its first chunk."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(f"{attempt.model} broke off its answer: {attempt.reason} ({attempt.code})")
        self.attempt = attempt


class ContextOverflow(Exception):
    """The request exceeds the context window of the model."""

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(f"the request is too long for {attempt.model}")
        self.attempt = attempt


@dataclass(slots=True)
class PartialAnswer:
    """The chunks of an answer so far."""

    text: list[str] = field(default_factory=list[str])
    reasoning: list[str] = field(default_factory=list[str])
    calls: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    """By index: id, name, arguments."""
    finish_reason: str | None = None
    usage: Usage | None = None
    metadata: JsonObject = field(default_factory=dict[str, Any])
    characters: int = 0

    @property
    def begun(self) -> bool:
        """Whether a chunk with content has arrived."""
        return self.characters > 0 or bool(self.calls)

    @property
    def full(self) -> bool:
        return self.characters > ANSWER_CHARACTERS or len(self.calls) > CALLS_IN_ANSWER

    def add(self, chunk: MessageChunk) -> str:
        """Add a chunk and return its text."""
        text = chunk.content if isinstance(chunk.content, str) else _text_of(chunk.content)
        if text:
            self.text.append(text)
        if chunk.reasoning:
            self.reasoning.append(chunk.reasoning)
        self.characters += len(text) + len(chunk.reasoning or "")
        for piece in chunk.tool_calls or ():
            call = self.calls.setdefault(piece.index, ["", "", ""])
            call[0] = piece.id or call[0]
            if piece.function is not None:
                call[1] += piece.function.name or ""
                call[2] += piece.function.arguments or ""
                self.characters += len(piece.function.arguments or "")
        self.finish_reason = chunk.finish_reason or self.finish_reason
        self.usage = chunk.usage or self.usage
        self.metadata |= chunk.metadata or {}
        return text

    def message(self) -> Message:
        """The answer so far. Calls without a name are dropped."""
        calls = tuple(
            ToolCall(id=call_id, function=FunctionCall(name=name, arguments=arguments))
            for _, (call_id, name, arguments) in sorted(self.calls.items())
            if name
        )
        return Message(
            role="assistant",
            content="".join(self.text),
            reasoning="".join(self.reasoning) or None,
            tool_calls=calls or None,
            finish_reason=self.finish_reason,
            usage=self.usage,
            metadata=self.metadata or None,
        )


class AnswerStream:
    """One request to the models of an agent: `chunks` yields the answer, then `message` has the whole of it."""

    def __init__(
        self, ctx: RunContext[Any], models: Sequence[str], turn: Turn, *, streaming: bool, overflow_ends: bool
    ) -> None:
        """`overflow_ends`: a request that is too long goes to the next model and does not raise `ContextOverflow`."""
        self._ctx = ctx
        self._models = models
        self._turn = turn
        self._streaming = streaming
        self._overflow_ends = overflow_ends
        self._able = {each.model_id: each.operations for each in ctx.resources.models}
        self._sees = {each.model_id for each in ctx.resources.models if getattr(each, "vision", None) is True}
        self.attempts: list[Attempt] = []
        self.partial = PartialAnswer()
        self.model = ""

    async def chunks(self) -> AsyncGenerator[MessageChunk, None]:
        """Yield the answer in chunks, or in one. Raises `NoModelAnswered`, `AnswerInterrupted` or `ContextOverflow`."""
        for model in self._models:
            self.model, self.partial = model, PartialAnswer()
            try:
                async with aclosing(self._ask(model)) as chunks:
                    async for chunk in chunks:
                        self.partial.add(chunk)
                        yield chunk
                        if self.partial.full:
                            self.partial.finish_reason = "length"
                            break
            except AgentAPIException as error:
                self._failed(model, error)
            else:
                return
        raise NoModelAnswered(self.attempts)

    def message(self, known: frozenset[str], step: int) -> Message:
        """The whole answer with its model and failed attempts. `known` are the call ids of earlier answers."""
        whole = self.partial.message()
        metadata: JsonObject = {**(whole.metadata or {}), "model": self.model}
        if self.attempts:
            metadata["fallbacks"] = [each.to_json() for each in self.attempts]
        calls = _unique_ids(whole.tool_calls or (), known, step)
        return whole.model_copy(update={"metadata": metadata, "tool_calls": calls or None})

    def _failed(self, model: str, error: AgentAPIException) -> None:
        """Record a failed attempt. Raises if no other model may be asked."""
        attempt = Attempt.of(model, error)
        if self.partial.begun:
            raise AnswerInterrupted(attempt) from error
        if _is_overflow(error) and not self._overflow_ends:
            raise ContextOverflow(attempt) from error
        self.attempts.append(attempt)
        if error.code in _NO_OTHER_MODEL:
            raise NoModelAnswered(self.attempts) from error
        self._ctx.log("a model did not answer", "warning", model=model, code=attempt.code, reason=attempt.reason)

    async def _ask(self, model: str) -> AsyncGenerator[MessageChunk, None]:
        models, messages = self._ctx.api.models, self._turn.messages
        if model not in self._sees and has_images(messages):
            messages = without_images(messages)
        tools, arguments = self._turn.tools or None, self._turn.extra_args or None
        able = self._able.get(model, ("invoke", "stream"))
        if "stream" in able and (self._streaming or "invoke" not in able):
            async with aclosing(models.stream(model, messages, tools, arguments)) as chunks:
                async for chunk in chunks:
                    yield chunk
        else:
            yield _as_chunk(await models.invoke(model, messages, tools, arguments))


def _is_overflow(error: AgentAPIException) -> bool:
    return error.code == "payload_too_large" or error.error.details.get("reason") == "context_length"


def _unique_ids(calls: Sequence[ToolCall], known: frozenset[str], step: int) -> tuple[ToolCall, ...]:
    """Calls with ids that are unique in the run: providers repeat theirs, and the host identifies a call by its id."""
    used = set(known)
    own: list[ToolCall] = []
    for number, call in enumerate(calls, start=1):
        fits = call.id not in used and _PLAIN_ID.fullmatch(call.id) is not None
        call_id = call.id if fits else f"step{step}_{number}"
        used.add(call_id)
        own.append(call if fits else call.model_copy(update={"id": call_id}))
    return tuple(own)


def _text_of(content: Sequence[Any]) -> str:
    return "".join(getattr(element, "text", "") for element in content)


def _as_chunk(message: Message) -> MessageChunk:
    calls = [
        {"index": index, "id": call.id, "type": "function", "function": call.function.to_wire()}
        for index, call in enumerate(message.tool_calls or ())
    ]
    fields = message.model_dump(exclude={"tool_calls"}) | {"role": "assistant", "tool_calls": calls or None}
    return MessageChunk.model_validate(fields)
