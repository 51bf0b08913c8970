"""The built-in model: needs no network, says the same to the same question, streams, calls tools when it is told to.

It is no language model. What it does with which words is in docs/reference/demo-model.md; people and tests rely on it.
"""

import asyncio
import json
import struct
from collections.abc import AsyncGenerator, Sequence
from hashlib import blake2b
from math import sqrt
from typing import Final, NoReturn

from bollard.host.errors import ModelFailed
from bollard.host.models.boundary import ModelCall, ModelSpec, Vectors
from bollard.host.models.demo_reading import Ask, read_ask, text_of
from bollard.host.models.demo_saying import Answer, count_tokens, pieces_of, plan_answer
from bollard.protocol import (
    FunctionCall,
    FunctionCallChunk,
    Message,
    MessageChunk,
    RerankScore,
    ToolCall,
    ToolCallChunk,
    Usage,
)
from bollard.segments import segment, terms

__all__ = ["DIMENSIONS", "DemoBackend"]

DIMENSIONS: Final = 64
"""Of its vectors."""
MESSAGE_TOKENS: Final = 4
"""What a message counts besides its words."""


class DemoBackend:
    """Answers from the question alone; keeps nothing between two calls."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec

    async def stream(self, call: ModelCall, key: str | None) -> AsyncGenerator[MessageChunk]:
        del key
        asked = _prompt_tokens(call)
        self._check_window(asked)
        ask = read_ask(call.messages)
        emitted = False
        if ask.command == "fail":
            if ask.rest.endswith("late"):
                emitted = True
                yield MessageChunk(content="I begin ")
            _fail(ask, emitted=emitted)
        answer = plan_answer(ask, call.tools, call.extra_args)
        said = 0
        room = _room(call, self._spec)
        for kind, text in _pieces(answer):
            await asyncio.sleep(0)  # whoever else has something to do does it between two words
            said += max(1, count_tokens(text))
            if said > room:
                break
            yield MessageChunk(content=text) if kind == "content" else MessageChunk(reasoning=text)
        if said > room:
            yield MessageChunk(finish_reason="length", usage=_usage(asked, room))
            return
        for index, made in enumerate(_tool_calls(answer, ask)):
            said += count_tokens(made.function.name) + count_tokens(made.function.arguments)
            for chunk in _call_increments(index, made):
                await asyncio.sleep(0)
                yield MessageChunk(tool_calls=(chunk,))
        yield MessageChunk(finish_reason="tool_calls" if answer.calls else "stop", usage=_usage(asked, said))

    async def invoke(self, call: ModelCall, key: str | None) -> Message:
        content: list[str] = []
        reasoning: list[str] = []
        last = MessageChunk()
        async for chunk in self.stream(call, key):
            content.append(chunk.content if isinstance(chunk.content, str) else "")
            reasoning.append(chunk.reasoning or "")
            last = chunk
        ask = read_ask(call.messages)
        made: tuple[ToolCall, ...] = ()
        if last.finish_reason == "tool_calls":
            made = _tool_calls(plan_answer(ask, call.tools, call.extra_args), ask)
        return Message(
            role="assistant",
            content="".join(content),
            reasoning="".join(reasoning) or None,
            tool_calls=made or None,
            finish_reason=last.finish_reason,
            usage=last.usage,
        )

    async def rerank(
        self, query: str, documents: Sequence[str], top_k: int | None, key: str | None
    ) -> tuple[RerankScore, ...]:
        """By the share of the query's words that a document has."""
        del key
        wanted = set(terms(query))
        scores = [
            RerankScore(index=index, score=len(wanted.intersection(segment(document).split())) / max(1, len(wanted)))
            for index, document in enumerate(documents)
        ]
        return tuple(sorted(scores, key=lambda score: (-score.score, score.index))[:top_k])

    async def embed(self, texts: Sequence[str], key: str | None) -> Vectors:
        """Words, each thrown to one of the dimensions by its hash; texts that share words are near each other."""
        del key
        return Vectors(DIMENSIONS, tuple(_vector(text) for text in texts))

    async def close(self) -> None:
        """Nothing is open."""

    def _check_window(self, prompt_tokens: int) -> None:
        window = self._spec.context_window
        if window is not None and prompt_tokens > window:
            raise ModelFailed(
                f"the question has {prompt_tokens} tokens and the window of {self._spec.model_id} {window}",
                hint="send less history, or use a model with a larger window",
                reason="context_length",
                emitted=False,
            )


def _fail(ask: Ask, *, emitted: bool) -> NoReturn:
    reason = ask.rest.removesuffix("late").strip() or "overloaded"
    raise ModelFailed(
        "the demo model was told to fail", hint="say something else than `fail`", reason=reason, emitted=emitted
    )


def _pieces(answer: Answer) -> list[tuple[str, str]]:
    thought = [("reasoning", piece) for piece in pieces_of(answer.reasoning)]
    return thought + [("content", piece) for piece in pieces_of(answer.content)]


def _tool_calls(answer: Answer, ask: Ask) -> tuple[ToolCall, ...]:
    """Ids differ between batches, so that an answer is never taken for that of an earlier batch."""
    return tuple(
        ToolCall(
            id=f"call_{ask.round + 1}_{index + 1}",
            function=FunctionCall(name=name, arguments=json.dumps(arguments, ensure_ascii=False)),
        )
        for index, (name, arguments) in enumerate(answer.calls)
    )


def _call_increments(index: int, call: ToolCall) -> list[ToolCallChunk]:
    """The name first, then the arguments in two parts: as providers send them."""
    half = len(call.function.arguments) // 2
    parts = (call.function.arguments[:half], call.function.arguments[half:])
    named = FunctionCallChunk(name=call.function.name, arguments="")
    return [
        ToolCallChunk(index=index, id=call.id, type="function", function=named),
        *(ToolCallChunk(index=index, function=FunctionCallChunk(arguments=part)) for part in parts),
    ]


def _prompt_tokens(call: ModelCall) -> int:
    tools = sum(count_tokens(tool.model_dump_json()) for tool in call.tools)
    return tools + sum(MESSAGE_TOKENS + count_tokens(text_of(message)) for message in call.messages)


def _room(call: ModelCall, spec: ModelSpec) -> int:
    asked = call.extra_args.get("max_tokens")
    limits = [limit for limit in (asked, spec.max_output_tokens) if isinstance(limit, int) and limit > 0]
    return min(limits, default=1 << 30)


def _usage(prompt: int, completion: int) -> Usage:
    return Usage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion)


def _vector(text: str) -> bytes:
    values = [0.0] * DIMENSIONS
    for word in segment(text).split():
        digest = blake2b(word.encode(), digest_size=2).digest()
        values[digest[0] % DIMENSIONS] += 1.0 if digest[1] & 1 else -1.0
    length = sqrt(sum(value * value for value in values))
    if length == 0.0:  # no words, or words that cancelled each other out: any unit vector will do
        values[0] = length = 1.0
    return struct.pack(f"<{DIMENSIONS}f", *(value / length for value in values))
