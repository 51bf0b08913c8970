"""The recorder of one live run: numbers its records, removes the workspace's secrets, and collects them into batches.

The recorder decides nothing. It feeds every numbered record to the run's machine; the `BatchWriter` writes the batches.
"""

from typing import Final, Literal, Protocol, get_args, get_origin

import msgspec
from msgspec.structs import replace

from bollard.host.capabilities.capability import KINDS, RISKS, Effects
from bollard.host.clock import Clock
from bollard.host.limits import DELTA_ROW_BYTES
from bollard.host.log.entries import StateExpectation
from bollard.host.log.records import NewRecord, RunFacts, encode_data, says_flow
from bollard.host.runs.batches import BatchWriter, joined
from bollard.host.runs.machine import Fact, RunState
from bollard.host.runs.results import CheckedResult
from bollard.host.secrets.redactor import Scrubber, StreamScrubber
from bollard.host.store.artifact_terms import ArtifactTerms
from bollard.protocol import RESULT_PAYLOADS, JsonObject, JsonValue, front_door
from bollard.wire import Delta, WorkerResult


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
    """Removes the secrets of a workspace from the output of one run, from whole records and from streamed texts.

    The end of a streamed text that may be the start of a secret is held back until the next piece, the end of the
    message or the end of the run. Check `active` first: most workspaces have no secrets.
    """

    def __init__(self, scrubber: Scrubber) -> None:
        self._scrubber = scrubber
        self._streams: dict[Key, StreamScrubber] = {}

    @property
    def active(self) -> bool:
        return self._scrubber.active

    def text(self, message_id: str, text: str, which: str = "content") -> str:
        """The part of a streamed text that may be published now."""
        stream = self._streams.get((message_id, which))
        if stream is None:
            if len(self._streams) >= _STREAMS:
                self._streams.pop(next(iter(self._streams)))
            stream = self._streams[message_id, which] = self._scrubber.stream()
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
        cleaned = self._scrubber.kept(others, _WORDS)
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
        return self._scrubber.record(data, _WORDS, ids=observed)

    def holds(self, content: bytes) -> bool:
        """Whether the content contains a secret."""
        return self._scrubber.holds(content.decode("utf-8", "replace"))

    @property
    def longest_bytes(self) -> int:
        """The length of the longest form of a secret. A secret may span pieces of a content."""
        return self._scrubber.matcher.reach

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


_encode: Final = msgspec.json.Encoder().encode


class RecordedRun(Protocol):
    """The live run, as its recorder sees it."""

    facts: RunFacts
    epoch: int
    state: RunState
    flow: int
    writer: BatchWriter

    def step(self, fact: Fact) -> None:
        """A record has its number and is in a batch."""
        ...

    def spoke(self) -> None:
        """Text of the runner is about to be published."""
        ...


class RunRecorder:
    """Numbers the records of one live run, removes secrets, and collects the records into batches."""

    def __init__(self, run: RecordedRun, seq: int, scrub: RunScrubber, clock: Clock, terms: ArtifactTerms) -> None:
        self._run = run
        self._writer = run.writer
        self._scrub = scrub
        self._clock = clock
        self._terms = terms
        self.seq = seq
        """The number of the newest record."""
        self.bytes = 0
        """Bytes recorded so far: deltas, records, and the contents that came with them."""

    def withholds(self, content: bytes) -> bool:
        """Whether the content contains a secret of the workspace."""
        return self._scrub.active and self._scrub.holds(content)

    @property
    def secret_bytes(self) -> int:
        """The length of the longest secret, or 0."""
        return self._scrub.longest_bytes if self._scrub.active else 0

    # --- deltas ---

    def delta(self, delta: Delta, size: int) -> None:
        """Add a delta from its compact wire form."""
        message_id = delta.data.message_id
        name = message_id if isinstance(message_id, str) else ""
        chunk = delta.data.chunk
        if self._scrub.active:
            chunk.content = self._scrub.text(name, chunk.content)
        self._say(name, chunk.content, _encode(delta.data), size)
        self._writer.batch.source_seq = delta.sequence

    def piece(self, judged: CheckedResult) -> None:
        """Add a delta that came as a result."""
        if judged.delta is not None:
            self._say(*judged.delta, judged.data, 0)

    def scrubbed(self, result: WorkerResult) -> WorkerResult:
        """Scrub the result if it is a delta. A result that completes a message releases the held-back texts."""
        if not self._scrub.active:
            return result
        if self._scrub.completes(result.type):
            self.say_rest()
        return self._scrub.delta(result) if result.type == "message.delta" else result

    def say_rest(self) -> None:
        """Add the texts that were held back."""
        for message_id, text, data in self._scrub.rest():
            self._say(message_id, text, data, len(data))

    def _say(self, message_id: str, text: str, data: bytes, size: int) -> None:
        batch = self._writer.batch
        self.seq += 1
        batch.deltas.append((self.seq, data))
        batch.texts.append((message_id, text))
        batch.size += size
        batch.delta_bytes += len(data)
        self.bytes += len(data)
        if batch.delta_bytes >= DELTA_ROW_BYTES:
            self.close_deltas()

    def close_deltas(self) -> None:
        """Turn the collected deltas into one row and one step of the machine."""
        batch = self._writer.batch
        if not batch.deltas:
            return
        self._run.spoke()
        texts = batch.close_deltas(self._run.facts.run_id, self._run.epoch, self._clock.now_ms())
        self._run.step(Fact("message.delta", {}, self.seq, joined(texts)))

    # --- records ---

    def observe(
        self, kind: str, data: JsonObject, expects: StateExpectation | None = None, *, pressing: bool = True
    ) -> None:
        """Add a record of the host itself."""
        judged = CheckedResult(kind, encode_data(data), fact=data, observed=True)
        self.add(judged, None, expects, pressing=pressing)

    def add(
        self,
        judged: CheckedResult,
        source_seq: int | None,
        expects: StateExpectation | None = None,
        *,
        pressing: bool = True,
    ) -> None:
        """Add a record that is not a delta."""
        self.close_deltas()
        self.seq += 1
        created_ms = self._clock.now_ms()
        if judged.type == "artifact.created":  # projections are rebuilt from records, so the expiry must be in there
            judged = self._expiring(judged, created_ms)
        flow, recorded = self._run.flow, self._run.state.flow
        if says_flow(judged.type, flow, recorded):
            fact: JsonObject = {**judged.fact, "flow": flow}
            judged = replace(judged, fact=fact, data=encode_data(fact))
        if self._scrub.active:
            judged = replace(judged, data=self._scrub.record(judged.data, observed=judged.observed))
        self.bytes += len(judged.data)
        batch = self._writer.batch
        batch.pressing = batch.pressing or pressing
        if expects is not None:
            batch.expects.append(msgspec.structs.replace(expects, record=len(batch.records), now_ms=created_ms))
        batch.add(
            NewRecord(
                workspace=self._run.facts.workspace,
                type=judged.type,
                data=judged.data,
                created_ms=created_ms,
                observed=judged.observed,
                run_id=self._run.facts.run_id,
                seq=self.seq,
                epoch=self._run.epoch,
                source_seq=source_seq,
            )
        )
        self._run.step(Fact(judged.type, judged.fact, self.seq))

    def attach(self, content: bytes) -> None:
        """Add a content that a record of this batch refers to."""
        self._writer.batch.blobs.append(content)
        self.bytes += len(content)

    def _expiring(self, judged: CheckedResult, now_ms: int) -> CheckedResult:
        expires_ms = self._terms.expires_ms(now_ms)
        if expires_ms is None:
            return judged
        fact: JsonObject = {**judged.fact, "expires_ms": expires_ms}
        return replace(judged, fact=fact, data=encode_data(fact))
