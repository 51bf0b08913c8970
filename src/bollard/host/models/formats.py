"""What a vendor's format is: a pure reading and writing of JSON. `backends.py` calls any of them in one way."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from bollard.host.egress.sse import SseEvent
from bollard.host.errors import InvalidRequest
from bollard.host.models.boundary import ModelCall, ModelSpec, Vectors
from bollard.host.models.failures import failed
from bollard.host.models.limits import EVENT_BYTES, TOOL_CALLS
from bollard.protocol import (
    FunctionCallChunk,
    JsonObject,
    Message,
    MessageChunk,
    RerankScore,
    ToolCallChunk,
    Usage,
)
from bollard.wire.errors import FrameError
from bollard.wire.strict_json import decode

Shape = TypeVar("Shape")
DONE: Final = b"[DONE]"
"""The data of the last event of an OpenAI stream."""
_FINISHES: Final = {
    "end_turn": "stop",
    "max_output_tokens": "length",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "model_length": "length",
    "refusal": "content_filter",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
}
"""One word for each way to end, whoever says it; those that nobody knows here stay as they are."""


class AnswerReader(Protocol):
    """One streamed answer. Every method raises `ModelFailed`, `take` also `ProviderError`."""

    def take(self, event: SseEvent) -> Iterable[MessageChunk]:
        """What an event adds. Nothing of it is empty: a chunk that was handed on cannot be taken back."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the provider said that nothing more comes."""
        ...

    def end(self) -> MessageChunk:
        """The last chunk; where the answer has no end, that is a failure."""
        ...


class ChatFormat(Protocol):
    """How one style asks and answers."""

    @property
    def path(self) -> str: ...

    def headers(self, key: str | None) -> tuple[tuple[str, str], ...]: ...

    def body(self, call: ModelCall, *, stream: bool) -> JsonObject:
        """Raises `ModelFailed` for what cannot be said in this format."""
        ...

    def whole(self, answer: bytes) -> Message:
        """Raises `ModelFailed` and `ProviderError`."""
        ...

    def reader(self) -> AnswerReader: ...


def parsed(data: bytes, shape: type[Shape], what: str) -> Shape:
    """A part of an answer; what the shape does not know is skipped. Raises `ModelFailed`."""
    try:
        return msgspec.convert(decode(data, frame_bytes=EVENT_BYTES), shape)
    except (FrameError, msgspec.ValidationError) as error:
        raise failed("broken_answer", f"{what} cannot be read: {error}") from None


def count(value: object) -> int | None:
    """A number of tokens, where it is one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def summed(prompt: int | None, completion: int | None, total: int | None = None) -> Usage | None:
    """What is known of the tokens; `None` where nothing is."""
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    if prompt is None and completion is None and total is None:
        return None
    return Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=total)


def finish_of(word: str) -> str:
    return _FINISHES.get(word, word)


def tool_chunk(index: int, *, call_id: str | None, name: str | None, arguments: str | None = None) -> MessageChunk:
    """The beginning of a tool call. Raises `ModelFailed` for one too many."""
    if index >= TOOL_CALLS:
        raise failed("broken_answer", f"the answer has more than {TOOL_CALLS} tool calls")
    function = FunctionCallChunk(name=name, arguments=arguments)
    return MessageChunk(tool_calls=(ToolCallChunk(index=index, id=call_id, type="function", function=function),))


def argument_chunk(index: int, arguments: str) -> MessageChunk:
    """More of a tool call's arguments."""
    return MessageChunk(tool_calls=(ToolCallChunk(index=index, function=FunctionCallChunk(arguments=arguments)),))


def chunks_of(message: Message) -> Iterable[MessageChunk]:
    """A whole answer as a stream of it, for a provider that does not stream although it was asked to."""
    if message.reasoning:
        yield MessageChunk(reasoning=message.reasoning)
    if message.content:
        yield MessageChunk(content=message.content)
    for index, call in enumerate(message.tool_calls or ()):
        yield tool_chunk(index, call_id=call.id, name=call.function.name, arguments=call.function.arguments)
    yield MessageChunk(finish_reason=message.finish_reason, usage=message.usage, metadata=message.metadata)


# Which arguments a call carries to a provider. Pure.
#
# A run says how it wants to be answered, and nothing else: which model, whether tools of the provider's own reach
# outside, and what is kept there is for an operator to say. So an argument is known here, or an operator has opened it
# by naming it in the model's own arguments.


_KNOWN: Final = frozenset(
    {
        "chat_template_kwargs",
        "enable_thinking",
        "frequency_penalty",
        "logit_bias",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tokens",
        "min_p",
        "output_config",
        "parallel_tool_calls",
        "presence_penalty",
        "prompt_cache_key",
        "reasoning",
        "reasoning_effort",
        "repetition_penalty",
        "response_format",
        "safety_identifier",
        "seed",
        "stop",
        "stop_sequences",
        "temperature",
        "text",
        "thinking",
        "thinking_budget",
        "tool_choice",
        "top_k",
        "top_p",
        "user",
        "verbosity",
    }
)
_OURS: Final = frozenset({"documents", "input", "messages", "model", "n", "query", "stream", "system", "tools"})
"""What a call itself is made of."""
_LENGTHS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def check_arguments(spec: ModelSpec) -> None:
    """Raises `InvalidRequest` for arguments of a model that no call could keep to."""
    if found := sorted(_OURS & spec.extra_args.keys()):
        raise InvalidRequest(
            f"the arguments of the model {spec.model_id} have {found[0]}, which each call has its own of",
            hint=f"leave {found[0]} out of extra_args",
            field="extra_args",
        )


def arguments_of(spec: ModelSpec, call: ModelCall | None = None) -> JsonObject:
    """The model's arguments and those of the call, which win. `null` means: leave it out. Raises `ModelFailed`.

    However the length of an answer is named, it comes back as `max_tokens`, and never beyond what the model can do.
    """
    wanted = call.extra_args if call is not None else {}
    for name in wanted:
        if name in _OURS or (name not in _KNOWN and name not in spec.extra_args):
            raise failed(
                "invalid_request",
                f"the argument {name[:80]!r} is not passed on",
                hint="an operator opens it by naming it in the model's extra_args",
            )
    length = _length(wanted) or _length(spec.extra_args)
    merged = {name: value for name, value in {**spec.extra_args, **wanted}.items() if name not in _LENGTHS}
    # A null of the operator's own stays visible to the formats: it takes out what they would add by themselves.
    found = {name: value for name, value in merged.items() if value is not None or name not in wanted}
    if length is not None:
        found["max_tokens"] = min(length, spec.max_output_tokens or length)
    return found


def _length(arguments: JsonObject) -> int | None:
    for name in _LENGTHS:
        value = arguments.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
        if value is not None:
            raise failed("invalid_request", f"{name} is no positive whole number", hint="leave it out, or send one")
    return None


# What a model of one kind cannot do, said in the same words by all of them.


class UnsupportedModel:
    """Refuses everything; a backend overrides what it can do."""

    def stream(self, call: ModelCall, key: str | None) -> AsyncGenerator[MessageChunk]:  # noqa: ARG002 -- the boundary's
        raise failed("not_supported", "this model does not talk")

    async def invoke(self, call: ModelCall, key: str | None) -> Message:  # noqa: ARG002 -- the boundary's
        raise failed("not_supported", "this model does not talk")

    async def rerank(
        self,
        query: str,  # noqa: ARG002 -- the boundary's, like those below
        documents: Sequence[str],  # noqa: ARG002
        top_k: int | None,  # noqa: ARG002
        key: str | None,  # noqa: ARG002
    ) -> tuple[RerankScore, ...]:
        raise failed("not_supported", "this model does not rerank")

    async def embed(self, texts: Sequence[str], key: str | None) -> Vectors:  # noqa: ARG002 -- the boundary's
        raise failed("not_supported", "this model has no embeddings")
