"""The wire formats of the loopback provider, as data: complete answers, and events of a stream."""

import json
from collections.abc import Iterator
from typing import Any, Final

from scripted_answers import Answer, Question

__all__ = ["FORMATS", "AnthropicMessages", "Format", "OpenAIChat", "OpenAIResponses", "error_body"]

ARGUMENT_PIECES: Final = 3
"""The number of chunks of a call's arguments."""
OVERLOADED: Final = "the loopback provider was told to give up here"
_STATUS_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def _event(value: object, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}\n\n".encode()


def _cut(text: str) -> list[str]:
    size = max(1, -(-len(text) // ARGUMENT_PIECES))
    return [text[start : start + size] for start in range(0, len(text), size)]


def _counted(answer: Answer, question: Question) -> tuple[int, int] | None:
    """Tokens of the request and of the answer, or `None`."""
    if answer.usage is None:
        return None
    written = len(answer.pieces) + len(answer.reasoning.split()) + 4 * len(answer.tool_calls)
    return answer.usage.get("prompt_tokens", question.words), answer.usage.get("completion_tokens", written)


def error_body(path: str, answer: Answer) -> object:
    """An error as the vendor of this path writes it."""
    kind = _STATUS_TYPES.get(answer.status, "api_error")
    message = answer.text or f"the loopback provider was told to answer {answer.status}"
    if path == "/messages":
        return {"type": "error", "error": {"type": kind, "message": message}}
    return {"error": {"message": message, "type": kind, "param": None, "code": answer.error_code or None}}


class Format:
    """The answer format of one vendor. `begin`, `pieces` and `end` are the three parts of a stream."""

    def __init__(self, answer: Answer, question: Question, number: int) -> None:
        self.answer = answer
        self.question = question
        self.id = f"loopback-{number}"
        self.counted = _counted(answer, question)
        self.finish = answer.finish_reason or ("tool_calls" if answer.tool_calls else "stop")

    def whole(self) -> object:
        raise NotImplementedError

    def begin(self) -> Iterator[bytes]:
        raise NotImplementedError

    def pieces(self) -> Iterator[bytes]:
        """One event for each token, together with the events that precede it."""
        raise NotImplementedError

    def end(self) -> Iterator[bytes]:
        raise NotImplementedError

    def noise(self) -> bytes:
        return b': keep-alive\n\nevent: nobody_knows\ndata: {"type":"nobody_knows","choices":[]}\n\n'

    def failure(self) -> bytes:
        """The error of a vendor in the middle of a stream."""
        return _event({"error": {"message": OVERLOADED, "type": "server_error", "param": None, "code": None}})

    def call_id(self, index: int) -> str:
        return self.answer.tool_calls[index].call_id or f"call_{self.id}_{index}"


class OpenAIChat(Format):
    """`POST /chat/completions`."""

    def whole(self) -> object:
        calls = [
            {
                "id": self.call_id(index),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for index, call in enumerate(self.answer.tool_calls)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": "".join(self.answer.pieces)}
        message |= {"tool_calls": calls} if calls else {}
        message |= {"reasoning_content": self.answer.reasoning} if self.answer.reasoning else {}
        choices = [{"index": 0, "message": message, "finish_reason": self.finish}]
        return {
            **self._head("chat.completion"),
            "choices": [] if self.answer.fault == "empty_choices" else choices,
            **({"usage": self._usage()} if self.counted else {}),
        }

    def begin(self) -> Iterator[bytes]:
        yield self._delta({"role": "assistant", "content": ""})

    def pieces(self) -> Iterator[bytes]:
        for word in self.answer.reasoning.split():
            yield self._delta({"reasoning_content": f"{word} "})
        for piece in self.answer.pieces:
            yield self._delta({"content": piece})
        for index, call in enumerate(self.answer.tool_calls):
            named = {"name": call.name, "arguments": ""}
            yield self._delta(
                {"tool_calls": [{"index": index, "id": self.call_id(index), "type": "function", "function": named}]}
            )
            for part in _cut(call.arguments):
                yield self._delta({"tool_calls": [{"index": index, "function": {"arguments": part}}]})

    def end(self) -> Iterator[bytes]:
        yield self._delta({}, self.finish)
        if self.counted and self.question.wants_usage:
            yield _event({**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage()})
        yield b"data: [DONE]\n\n"

    def _delta(self, delta: object, finish: str | None = None) -> bytes:
        choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
        empty = self.answer.fault == "empty_choices"
        return _event({**self._head("chat.completion.chunk"), "choices": [] if empty else choices})

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": 1_700_000_000, "model": self.question.model}

    def _usage(self) -> dict[str, int]:
        asked, written = self.counted or (0, 0)
        return {"prompt_tokens": asked, "completion_tokens": written, "total_tokens": asked + written}


class OpenAIResponses(Format):
    """`POST /responses`."""

    def whole(self) -> object:
        return self._response("incomplete" if self.finish == "length" else "completed", self._items())

    def begin(self) -> Iterator[bytes]:
        yield self._event("response.created", response=self._response("in_progress", []))

    def pieces(self) -> Iterator[bytes]:
        for index, item in enumerate(self._items()):
            place = {"item_id": item["id"], "output_index": index}
            opened = self._event("response.output_item.added", output_index=index, item={**item, **_emptied(item)})
            if item["type"] == "reasoning":
                parts = [f"{word} " for word in self.answer.reasoning.split()]
                kind, extra = "response.reasoning_summary_text.delta", {"summary_index": 0}
            elif item["type"] == "message":
                parts, kind, extra = self.answer.pieces, "response.output_text.delta", {"content_index": 0}
            else:
                parts, kind, extra = _cut(item["arguments"]), "response.function_call_arguments.delta", {}
            for part in parts:
                yield opened + self._event(kind, **place, **extra, delta=part)
                opened = b""
            yield opened + self._event("response.output_item.done", output_index=index, item=item)

    def end(self) -> Iterator[bytes]:
        status = "incomplete" if self.finish == "length" else "completed"
        yield self._event(f"response.{status}", response=self._response(status, self._items()))

    def failure(self) -> bytes:
        failed = {**self._response("failed", []), "error": {"code": "server_error", "message": OVERLOADED}}
        return self._event("response.failed", response=failed)

    def _items(self) -> list[dict[str, Any]]:
        if self.answer.fault == "empty_choices":
            return []
        items: list[dict[str, Any]] = []
        if self.answer.reasoning:
            summary = [{"type": "summary_text", "text": self.answer.reasoning}]
            items.append({"type": "reasoning", "id": f"rs_{self.id}", "summary": summary})
        if text := "".join(self.answer.pieces):
            content: list[dict[str, Any]] = [{"type": "output_text", "text": text, "annotations": []}]
            items.append({"type": "message", "id": f"msg_{self.id}", "role": "assistant", "content": content})
        for index, call in enumerate(self.answer.tool_calls):
            named = {"call_id": self.call_id(index), "name": call.name, "arguments": call.arguments}
            items.append({"type": "function_call", "id": f"fc_{self.id}_{index}", **named})
        return items

    def _response(self, status: str, items: list[dict[str, Any]]) -> dict[str, Any]:
        usage = None
        if self.counted and status != "in_progress":
            asked, written = self.counted
            usage = {"input_tokens": asked, "output_tokens": written, "total_tokens": asked + written}
        why = {"reason": "max_output_tokens"} if status == "incomplete" else None
        head = {"id": f"resp_{self.id}", "object": "response", "model": self.question.model, "status": status}
        return {**head, "output": items, "usage": usage, "error": None, "incomplete_details": why}

    def _event(self, kind: str, **values: object) -> bytes:
        return _event({"type": kind, **values}, kind)


def _emptied(item: dict[str, Any]) -> dict[str, Any]:
    """An item as it is announced, before its content."""
    return {"arguments": ""} if item["type"] == "function_call" else {"content": []}


class AnthropicMessages(Format):
    """`POST /messages`."""

    _REASONS: Final = {
        "stop": "end_turn",
        "length": "max_tokens",
        "tool_calls": "tool_use",
        "content_filter": "refusal",
    }

    def whole(self) -> object:
        return {**self._head(), "content": self._blocks(), "stop_reason": self._reason(), "usage": self._usage()}

    def begin(self) -> Iterator[bytes]:
        usage = {**self._usage(), "output_tokens": 1}
        head: dict[str, Any] = {**self._head(), "content": [], "stop_reason": None, "usage": usage}
        yield self._event("message_start", message=head) + self._event("ping")

    def pieces(self) -> Iterator[bytes]:
        calls = list(self.answer.tool_calls)
        for index, block in enumerate(self._blocks()):
            empty: dict[str, Any] = {"text": ""}
            deltas: list[dict[str, str]]
            if block["type"] == "thinking":
                empty = {"thinking": "", "signature": ""}
                deltas = [{"type": "thinking_delta", "thinking": f"{word} "} for word in self.answer.reasoning.split()]
            elif block["type"] == "text":
                deltas = [{"type": "text_delta", "text": piece} for piece in self.answer.pieces]
            else:
                empty = {"input": {}}
                deltas = [{"type": "input_json_delta", "partial_json": part} for part in _cut(calls.pop(0).arguments)]
            opened = self._event("content_block_start", index=index, content_block={**block, **empty})
            for delta in deltas:
                yield opened + self._event("content_block_delta", index=index, delta=delta)
                opened = b""
            yield opened + self._event("content_block_stop", index=index)

    def end(self) -> Iterator[bytes]:
        usage = {"output_tokens": self._usage().get("output_tokens", 0)}
        delta = {"stop_reason": self._reason(), "stop_sequence": None}
        yield self._event("message_delta", delta=delta, usage=usage) + self._event("message_stop")

    def noise(self) -> bytes:
        return b": keep-alive\n\n" + self._event("ping") + self._event("nobody_knows")

    def failure(self) -> bytes:
        return self._event("error", error={"type": "overloaded_error", "message": OVERLOADED})

    def _blocks(self) -> list[dict[str, Any]]:
        if self.answer.fault == "empty_choices":
            return []
        blocks: list[dict[str, Any]] = []
        if self.answer.reasoning:
            blocks.append({"type": "thinking", "thinking": self.answer.reasoning, "signature": "c2lnbmVk"})
        if text := "".join(self.answer.pieces):
            blocks.append({"type": "text", "text": text})
        for index, call in enumerate(self.answer.tool_calls):
            block = {"type": "tool_use", "id": self.call_id(index), "name": call.name}
            blocks.append({**block, "input": {} if self.question.stream else json.loads(call.arguments)})
        return blocks

    def _head(self) -> dict[str, Any]:
        return {"id": f"msg_{self.id}", "type": "message", "role": "assistant", "model": self.question.model}

    def _usage(self) -> dict[str, int]:
        asked, written = self.counted or (0, 0)
        return {"input_tokens": asked, "output_tokens": written} if self.counted else {}

    def _reason(self) -> str:
        return self._REASONS.get(self.finish, self.finish)

    def _event(self, kind: str, **values: object) -> bytes:
        return _event({"type": kind, **values}, kind)


FORMATS: Final[dict[str, type[Format]]] = {
    "/chat/completions": OpenAIChat,
    "/responses": OpenAIResponses,
    "/messages": AnthropicMessages,
}
"""The formats by path, without the version."""
