"""Removes the secrets of a workspace from the output of one run."""

from typing import Final, Literal, get_args, get_origin

from msgspec.structs import replace

from bollard.host.capabilities.capability import KINDS, RISKS, Effects
from bollard.host.log.records import encode_data
from bollard.host.secrets.redactor import Scrubber, StreamScrubber
from bollard.protocol import RESULT_PAYLOADS, JsonObject, JsonValue, front_door
from bollard.wire import WorkerResult


def protocol_words() -> frozenset[str]:
    """Every enumerated value of the protocol."""
    closed = [get_args(each) for each in vars(front_door).values() if get_origin(each) is Literal]
    return frozenset({word for words in closed for word in words if isinstance(word, str)} | set(RESULT_PAYLOADS))


_STREAMS: Final = 64
"""Texts of one run that may be held back at once. Beyond that the oldest is no longer tracked."""
_WHOLE: Final = frozenset({"message.completed", "run.completed", "run.failed"})
_PIECES: Final = ("content", "reasoning")
_CALL: Final = "tool_calls."
"""Prefix of the stream of a tool call's arguments, before its index."""
_WORDS: Final = protocol_words() | frozenset(KINDS) | frozenset(RISKS) | frozenset(get_args(Effects))
"""Values that the host interprets. They are never redacted."""
Key = tuple[str, str]
"""A message, and one of its texts."""


class RunScrubber:
    """Scrubs whole records and streamed texts.

    The end of a streamed text that may be the start of a secret is held back until the next piece, the end of the
    message or the end of the run. Check `secrets.active` first: most workspaces have no secrets.
    """

    def __init__(self, secrets: Scrubber) -> None:
        self.secrets = secrets
        """The secrets of the workspace."""
        self._streams: dict[Key, StreamScrubber] = {}

    def text(self, message_id: str, text: str, which: str = "content") -> str:
        """The part of a streamed text that may be published now."""
        stream = self._streams.get((message_id, which))
        if stream is None:
            if len(self._streams) >= _STREAMS:
                self._streams.pop(next(iter(self._streams)))
            stream = self._streams[message_id, which] = self.secrets.stream()
        return stream.feed(text)

    def delta(self, result: WorkerResult) -> WorkerResult:
        """Scrub the streamed texts of one delta."""
        chunk = result.data.get("chunk")
        if not isinstance(chunk, dict):
            return result
        message_id = result.data.get("message_id")
        name = message_id if isinstance(message_id, str) else ""
        pieces: JsonObject = {
            which: self.text(name, text, which) for which in _PIECES if isinstance(text := chunk.get(which), str)
        }
        others: JsonObject = {field: value for field, value in chunk.items() if field not in pieces}
        if isinstance(content := others.get("content"), list):
            others["content"] = [self._element(name, each) for each in content]
        if isinstance(calls := others.get("tool_calls"), list):
            others["tool_calls"] = [self._tool_call(name, each) for each in calls]
        cleaned = self.secrets.kept(others, _WORDS)
        shown = {**chunk, **(cleaned if isinstance(cleaned, dict) else {}), **pieces}
        return replace(result, data={**result.data, "chunk": shown})

    def _element(self, message_id: str, element: JsonValue) -> JsonValue:
        """Scrub a text element. It continues the text of the element before it."""
        if isinstance(element, dict) and isinstance(text := element.get("text"), str):
            return {**element, "text": self.text(message_id, text)}
        return element

    def _tool_call(self, message_id: str, call: JsonValue) -> JsonValue:
        """Scrub the streamed arguments of a tool call, each call as its own stream."""
        if not isinstance(call, dict) or not isinstance(function := call.get("function"), dict):
            return call
        index, arguments = call.get("index"), function.get("arguments")
        if not isinstance(index, int) or not isinstance(arguments, str):
            return call
        shown = self.text(message_id, arguments, f"{_CALL}{index}")
        return {**call, "function": {**function, "arguments": shown}}

    def record(self, data: bytes, *, observed: bool) -> bytes:
        """Scrub a whole record. Ids in records of the host (`observed`) stay."""
        return self.secrets.record(data, _WORDS, ids=observed)

    def holds(self, content: bytes) -> bool:
        """Whether the content contains a secret."""
        return self.secrets.holds(content.decode("utf-8", "replace"))

    @property
    def longest_bytes(self) -> int:
        """The length of the longest form of a secret. A secret may span pieces of a content."""
        return self.secrets.matcher.reach

    def completes(self, kind: str) -> bool:
        """Whether a record of this type completes the streamed texts."""
        return bool(self._streams) and kind in _WHOLE

    def rest(self) -> list[tuple[str, str, bytes]]:
        """The texts that were held back: message, text, and the delta that carries it."""
        streams, self._streams = self._streams, {}
        rest: list[tuple[str, str, bytes]] = []
        for (message_id, which), stream in streams.items():
            if text := stream.end():
                chunk: JsonObject = {"role": "assistant", "content": "", **_piece(which, text)}
                data: JsonObject = {"chunk": chunk, "message_id": message_id} if message_id else {"chunk": chunk}
                rest.append((message_id, text if which == "content" else "", encode_data(data)))
        return rest


def _piece(which: str, text: str) -> JsonObject:
    """The field of a chunk that holds this text."""
    if not which.startswith(_CALL):
        return {which: text}
    return {"tool_calls": [{"index": int(which.removeprefix(_CALL)), "function": {"arguments": text}}]}
