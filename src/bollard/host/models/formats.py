"""The interface of a vendor's format: pure functions that read and write JSON. `backends.py` calls all formats the same
way."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from bollard.host.egress.sse import SseEvent
from bollard.host.errors import InvalidRequest, caused_by
from bollard.host.models.boundary import ModelCall, Vectors
from bollard.host.models.failures import failed
from bollard.host.models.limits import EVENT_BYTES, TOOL_CALLS
from bollard.host.models.specs import SavedModel
from bollard.protocol import FunctionCallChunk, JsonObject, Message, MessageChunk, RerankScore, ToolCallChunk, Usage
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
"""Provider names of finish reasons and ours. Unknown names stay."""


class AnswerReader(Protocol):
    """One streamed answer. Every method raises `ModelFailed`, `take` also `ProviderError`."""

    def take(self, event: SseEvent) -> Iterable[MessageChunk]:
        """The chunks of an event. No chunk is empty, because an emitted chunk cannot be withdrawn."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the provider has announced the end."""
        ...

    def end(self) -> MessageChunk:
        """The last chunk. Raises `ModelFailed` if the answer is incomplete."""
        ...


class ChatFormat(Protocol):
    """The requests and answers of one style."""

    @property
    def path(self) -> str: ...

    def headers(self, key: str | None) -> tuple[tuple[str, str], ...]: ...

    def body(self, call: ModelCall, *, stream: bool) -> JsonObject:
        """Raises `ModelFailed` for a request that the format cannot express."""
        ...

    def whole(self, answer: bytes) -> Message:
        """Raises `ModelFailed` and `ProviderError`."""
        ...

    def reader(self) -> AnswerReader: ...


def parsed(data: bytes, shape: type[Shape], what: str) -> Shape:
    """Parse a part of an answer and ignore unknown fields. Raises `ModelFailed`."""
    try:
        return msgspec.convert(decode(data, frame_bytes=EVENT_BYTES), shape)
    except (FrameError, msgspec.ValidationError) as error:
        inner = caused_by(error)
        raise failed("broken_answer", f"cannot parse {what}: {error}", "model.unreadable", inner=inner) from None


def count(value: object) -> int | None:
    """The value if it is a valid number of tokens, else `None`."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def summed(prompt: int | None, completion: int | None, total: int | None = None) -> Usage | None:
    """The known token counts; `None` if none is known."""
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    if prompt is None and completion is None and total is None:
        return None
    return Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=total)


def finish_of(word: str) -> str:
    return _FINISHES.get(word, word)


def tool_chunk(index: int, *, call_id: str | None, name: str | None, arguments: str | None = None) -> MessageChunk:
    """The first chunk of a tool call. Raises `ModelFailed` above the limit of tool calls."""
    if index >= TOOL_CALLS:
        message = f"the answer has more than {TOOL_CALLS} tool calls"
        raise failed("broken_answer", message, "model.tool_calls", limit=TOOL_CALLS)
    function = FunctionCallChunk(name=name, arguments=arguments)
    return MessageChunk(tool_calls=(ToolCallChunk(index=index, id=call_id, type="function", function=function),))


def argument_chunk(index: int, arguments: str) -> MessageChunk:
    """More of a tool call's arguments."""
    return MessageChunk(tool_calls=(ToolCallChunk(index=index, function=FunctionCallChunk(arguments=arguments)),))


def chunks_of(message: Message) -> Iterable[MessageChunk]:
    """A complete answer as a stream of chunks, for a provider that ignores the request to stream."""
    if message.reasoning:
        yield MessageChunk(reasoning=message.reasoning)
    if message.content:
        yield MessageChunk(content=message.content)
    for index, call in enumerate(message.tool_calls or ()):
        yield tool_chunk(index, call_id=call.id, name=call.function.name, arguments=call.function.arguments)
    yield MessageChunk(finish_reason=message.finish_reason, usage=message.usage, metadata=message.metadata)


# --- arguments of a call ---
# A run chooses sampling and output options only. Model choice, provider-side tools and provider-side storage are up to
# the operator: any other argument must be listed in the model's own extra_args.


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
"""Arguments that the call sets itself."""
_LENGTHS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def check_arguments(spec: SavedModel) -> None:
    """Raises `InvalidRequest` if the model's extra_args contain an argument that each call sets itself."""
    if found := sorted(_OURS & spec.extra_args.keys()):
        raise InvalidRequest(
            f"extra_args of the model {spec.model_id} contain {found[0]}, which each call sets itself",
            hint=f"remove {found[0]} from extra_args",
            reason="model_argument_reserved",
            field="extra_args",
            model=spec.model_id,
            argument=found[0],
        )


def arguments_of(spec: SavedModel, call: ModelCall | None = None) -> JsonObject:
    """Merge the arguments of the model and of the call; the call wins, and `null` removes an argument.

    Every name of the output length becomes `max_tokens`, capped at the model's maximum. Raises `ModelFailed`.
    """
    wanted = call.extra_args if call is not None else {}
    for name in wanted:
        if name in _OURS or (name not in _KNOWN and name not in spec.extra_args):
            raise failed(
                "invalid_request",
                f"the argument {name[:80]!r} is not allowed",
                "model.argument",
                hint="an operator can allow it by listing it in the model's extra_args",
                argument=name[:80],
            )
    length = _length(wanted) or _length(spec.extra_args)
    merged = {name: value for name, value in {**spec.extra_args, **wanted}.items() if name not in _LENGTHS}
    # A null set by the operator stays: it removes what a format would add by default.
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
            message, hint = f"{name} is not a positive integer", "omit it, or send one"
            raise failed("invalid_request", message, "model.not_positive", hint=hint, argument=name)
    return None


# --- unsupported calls ---


class UnsupportedModel:
    """Rejects every call; a backend overrides the calls that it supports."""

    def stream(self, call: ModelCall, key: str | None) -> AsyncGenerator[MessageChunk]:  # noqa: ARG002 -- the boundary's
        raise failed("not_supported", "this model does not chat", "model.no_chat")

    async def invoke(self, call: ModelCall, key: str | None) -> Message:  # noqa: ARG002 -- the boundary's
        raise failed("not_supported", "this model does not chat", "model.no_chat")

    async def rerank(
        self,
        query: str,  # noqa: ARG002 -- the boundary's, like those below
        documents: Sequence[str],  # noqa: ARG002
        top_k: int | None,  # noqa: ARG002
        key: str | None,  # noqa: ARG002
    ) -> tuple[RerankScore, ...]:
        raise failed("not_supported", "this model does not rerank", "model.no_rerank")

    async def embed(self, texts: Sequence[str], key: str | None) -> Vectors:  # noqa: ARG002 -- the boundary's
        raise failed("not_supported", "this model does not create embeddings", "model.no_embeddings")
