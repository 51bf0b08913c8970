"""Keeps the secrets of a workspace out of what one run says: of whole records, and of texts that come in pieces.

An end of a text that may be the beginning of a secret waits for the next piece; the rest of it comes when the message
is complete, or the run is over.
"""

from typing import Final, Literal, get_args, get_origin

from msgspec.structs import replace

from bollard.host.capabilities.capability import KINDS, RISKS, Effects
from bollard.host.log.records import encode_data
from bollard.host.secrets.redactor import Scrubber, StreamScrubber
from bollard.protocol import RESULT_PAYLOADS, JsonObject, JsonValue, front_door
from bollard.wire import WorkerResult

__all__ = ["RunScrubber"]


def protocol_words() -> frozenset[str]:
    """Every word that the protocol has for something."""
    closed = [get_args(each) for each in vars(front_door).values() if get_origin(each) is Literal]
    return frozenset({word for words in closed for word in words if isinstance(word, str)} | set(RESULT_PAYLOADS))


_STREAMS: Final = 64
"""Messages of one run that may wait for their next piece; beyond it the oldest is given out as it is."""
_WHOLE: Final = frozenset({"message.completed", "run.completed", "run.failed"})
_PIECES: Final = ("content", "reasoning")
_CALL: Final = "tool_calls."
"""Before the number of a tool call whose arguments come in pieces."""
_WORDS: Final = protocol_words() | frozenset(KINDS) | frozenset(RISKS) | frozenset(get_args(Effects))
"""What the host goes by, and no secret may take away."""
Key = tuple[str, str]
"""A message, and which of its texts."""


class RunScrubber:
    """One per live run. Ask `active` first: most workspaces have no secrets."""

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._streams: dict[Key, StreamScrubber] = {}

    @property
    def active(self) -> bool:
        return self._scrubber.active

    def text(self, message_id: str, text: str, which: str = "content") -> str:
        """What may be shown now of a text that comes in pieces."""
        stream = self._streams.get((message_id, which))
        if stream is None:
            if len(self._streams) >= _STREAMS:
                self._streams.pop(next(iter(self._streams)))
            stream = self._streams[message_id, which] = self._scrubber.stream()
        return stream.feed(text)

    def delta(self, result: WorkerResult) -> WorkerResult:
        """One piece of a message, as its shape allows it; what is no piece is not looked at here."""
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
        cleaned = self._scrubber.kept(others, _WORDS)
        shown = {**chunk, **(cleaned if isinstance(cleaned, dict) else {}), **pieces}
        return replace(result, data={**result.data, "chunk": shown})

    def _element(self, message_id: str, element: JsonValue) -> JsonValue:
        """A text among the elements of a content goes on where the one before it ended."""
        if isinstance(element, dict) and isinstance(text := element.get("text"), str):
            return {**element, "text": self.text(message_id, text)}
        return element

    def _tool_call(self, message_id: str, call: JsonValue) -> JsonValue:
        """The arguments of a call come in pieces too, those of each call by themselves."""
        if not isinstance(call, dict) or not isinstance(function := call.get("function"), dict):
            return call
        index, arguments = call.get("index"), function.get("arguments")
        if not isinstance(index, int) or not isinstance(arguments, str):
            return call
        shown = self.text(message_id, arguments, f"{_CALL}{index}")
        return {**call, "function": {**function, "arguments": shown}}

    def record(self, data: bytes, *, observed: bool) -> bytes:
        """A whole record; of the host's own the ids are what they are."""
        return self._scrubber.record(data, _WORDS, ids=observed)

    def holds(self, content: bytes) -> bool:
        """Whether a content has a secret in it."""
        return self._scrubber.holds(content.decode("utf-8", "replace"))

    @property
    def longest_bytes(self) -> int:
        """Of any form of a secret: what came so far before a piece of a content may be the beginning of one."""
        return self._scrubber.matcher.longest_bytes

    def completes(self, kind: str) -> bool:
        """Whether nothing more is to come for what has begun."""
        return bool(self._streams) and kind in _WHOLE

    def rest(self) -> list[tuple[str, str, bytes]]:
        """What waited for more: message, text, and the delta that says it."""
        streams, self._streams = self._streams, {}
        found: list[tuple[str, str, bytes]] = []
        for (message_id, which), stream in streams.items():
            if text := stream.end():
                chunk: JsonObject = {"role": "assistant", "content": "", **_piece(which, text)}
                data: JsonObject = {"chunk": chunk, "message_id": message_id} if message_id else {"chunk": chunk}
                found.append((message_id, text if which == "content" else "", encode_data(data)))
        return found


def _piece(which: str, text: str) -> JsonObject:
    """The part of a chunk that one text of a message is in."""
    if not which.startswith(_CALL):
        return {which: text}
    return {"tool_calls": [{"index": int(which.removeprefix(_CALL)), "function": {"arguments": text}}]}
