"""Scripted models: replies from a list, in order. Reranking and embedding are computed and deterministic."""

import base64
import hashlib
import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from bollard import protocol
from bollard.protocol import JsonObject
from bollard.sdk.errors import AgentAPIException, api_failure

Reply = (
    str
    | protocol.Message
    | protocol.MessageChunk
    | protocol.AgentAPIError
    | Exception
    | Sequence["str | protocol.MessageChunk | protocol.AgentAPIError | Exception"]
    | Callable[[protocol.ModelsInvoke], Any]
)
"""Text; a message; chunks of a stream; an error, alone or after chunks; or a function that returns one of these."""

OPERATIONS: Final = ("invoke", "stream", "rerank", "embed")
DIMENSIONS: Final = 8
"""Length of an embedding."""


def tool_calls(*calls: tuple[str, JsonObject], content: str = "") -> protocol.Message:
    """A reply in which the model asks for tools: `tool_calls(("weather", {"city": "Rome"}))`."""
    asked = tuple(
        protocol.ToolCall(
            id=f"call_{number}",
            function=protocol.FunctionCall(name=name, arguments=json.dumps(arguments, ensure_ascii=False)),
        )
        for number, (name, arguments) in enumerate(calls, start=1)
    )
    return protocol.Message(role="assistant", content=content, tool_calls=asked, finish_reason="tool_calls")


def overlap(query: str, text: str) -> float:
    """Return the share of the query's words that the text contains, in place of a relevance score."""
    wanted = set(re.findall(r"\w+", query.lower()))
    return len(wanted & set(re.findall(r"\w+", text.lower()))) / len(wanted) if wanted else 0.0


class ScriptedModel:
    """A model that replies from a script. `requests` records its requests."""

    def __init__(
        self,
        replies: Iterable[Reply] = (),
        *,
        model_type: str = "llm",
        operations: Sequence[str] = OPERATIONS,
        context_window: int | None = None,
    ) -> None:
        self.model_type = model_type
        self.operations = tuple(operations)
        self.context_window = context_window
        self.requests: list[protocol.ModelsInvoke] = []
        self._replies: Iterator[Reply] = iter(replies)

    def invoke(self, request: protocol.ModelsInvoke) -> protocol.Message:
        """Return the next reply as one message."""
        return _assembled(list(self.stream(request)))

    def stream(self, request: protocol.ModelsInvoke) -> Iterator[protocol.MessageChunk]:
        """Yield the next reply in increments."""
        self.requests.append(request)
        reply = next(self._replies, None)
        if callable(reply) and not isinstance(reply, Exception):
            reply = reply(request)
        if reply is None:
            count = len(self.requests)
            raise api_failure("runtime_error", f"the script of {request.model_id} has no reply for request {count}")
        yield from _chunks(reply)

    def rerank(self, request: protocol.ModelsRerank) -> protocol.RerankResult:
        """Rank documents by `overlap`."""
        scores = [
            protocol.RerankScore(index=i, score=overlap(request.query, text))
            for i, text in enumerate(request.documents)
        ]
        ranked = sorted(scores, key=lambda item: (-item.score, item.index))
        return protocol.RerankResult(results=tuple(ranked[: request.top_k]))

    def embed(self, request: protocol.ModelsEmbed) -> protocol.Embeddings:
        """Return vectors that depend only on the text."""
        vectors = tuple(base64.b64encode(_vector(text)).decode() for text in request.texts)
        return protocol.Embeddings(vectors_base64=vectors, dimensions=DIMENSIONS)


def _vector(text: str) -> bytes:
    digest = hashlib.sha256(text.encode()).digest()
    values = array("f", [(digest[i] - 127.5) / 127.5 for i in range(DIMENSIONS)])
    return values.tobytes()


def _chunks(reply: Any) -> Iterator[protocol.MessageChunk]:
    if isinstance(reply, protocol.AgentAPIError):
        raise AgentAPIException(reply)
    if isinstance(reply, Exception):
        raise reply
    if isinstance(reply, str):
        yield from (protocol.MessageChunk(content=piece) for piece in re.findall(r"\S+\s*|\s+", reply))
        yield protocol.MessageChunk(finish_reason="stop")
    elif isinstance(reply, protocol.MessageChunk):
        yield reply
    elif isinstance(reply, protocol.Message):
        yield _chunk_of(reply)
    elif isinstance(reply, Mapping):
        yield _chunk_of(protocol.Message.model_validate({"role": "assistant"} | dict(reply)))  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(reply, Sequence):
        for piece in reply:  # pyright: ignore[reportUnknownVariableType]
            yield from (protocol.MessageChunk(content=piece),) if isinstance(piece, str) else _chunks(piece)
    else:
        raise TypeError(f"a model cannot reply with a {type(reply).__name__}; script text, a message, or an error")


def _chunk_of(message: protocol.Message) -> protocol.MessageChunk:
    asked = message.tool_calls and tuple(
        protocol.ToolCallChunk(
            index=index,
            id=call.id,
            type="function",
            function=protocol.FunctionCallChunk(name=call.function.name, arguments=call.function.arguments),
        )
        for index, call in enumerate(message.tool_calls)
    )
    return protocol.MessageChunk.model_validate(
        message.model_dump(exclude={"tool_calls"}) | {"tool_calls": asked or None}
    )


def _assembled(chunks: Sequence[protocol.MessageChunk]) -> protocol.Message:
    calls: dict[int, dict[str, str]] = {}
    whole: dict[str, Any] = {"role": "assistant"}
    text = "".join(chunk.content for chunk in chunks if isinstance(chunk.content, str))
    elements = [element for chunk in chunks if not isinstance(chunk.content, str) for element in chunk.content]
    for chunk in chunks:
        for item in chunk.tool_calls or ():
            call = calls.setdefault(item.index, {"id": "", "name": "", "arguments": ""})
            call["id"] = item.id or call["id"]
            if item.function is not None:
                call["name"] += item.function.name or ""
                call["arguments"] += item.function.arguments or ""
        for name in ("finish_reason", "usage", "metadata"):
            if getattr(chunk, name) is not None:
                whole[name] = getattr(chunk, name)
    reasoning = "".join(chunk.reasoning or "" for chunk in chunks)
    asked = tuple(
        protocol.ToolCall(id=call["id"], function=protocol.FunctionCall(name=call["name"], arguments=call["arguments"]))
        for _, call in sorted(calls.items())
    )
    return protocol.Message.model_validate(
        whole | {"content": tuple(elements) or text, "tool_calls": asked or None, "reasoning": reasoning or None}
    )
