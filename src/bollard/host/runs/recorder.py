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

# Keeps the secrets of a workspace out of what one run says: of whole records, and of texts that come in pieces.
#
# An end of a text that may be the beginning of a secret waits for the next piece; the rest of it comes when the
# message is complete, or the run is over.


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
        return self._scrubber.matcher.reach

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


_encode: Final = msgspec.json.Encoder().encode


class RecordedRun(Protocol):
    """The live run, as its recorder sees it."""

    facts: RunFacts
    epoch: int
    state: RunState
    flow: int
    writer: BatchWriter

    def step(self, fact: Fact) -> None:
        """A record has its number and is on its way."""
        ...

    def spoke(self) -> None:
        """Text of the runner is about to be shown."""
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
        """Whether a content has a secret of the workspace in it."""
        return self._scrub.active and self._scrub.holds(content)

    @property
    def secret_bytes(self) -> int:
        """The length of the longest secret; 0 where there is none."""
        return self._scrub.longest_bytes if self._scrub.active else 0

    # --- words ---

    def delta(self, delta: Delta, size: int) -> None:
        """A piece of a message in the form that the wire knows best."""
        message_id = delta.data.message_id
        name = message_id if isinstance(message_id, str) else ""
        chunk = delta.data.chunk
        if self._scrub.active:
            chunk.content = self._scrub.text(name, chunk.content)
        self._say(name, chunk.content, _encode(delta.data), size)
        self._writer.batch.source_seq = delta.sequence

    def piece(self, judged: CheckedResult) -> None:
        """A piece of a message that came as any other result."""
        if judged.delta is not None:
            self._say(*judged.delta, judged.data, 0)

    def shown(self, result: WorkerResult) -> WorkerResult:
        """The result without secrets where it is a piece of a message; a whole one lets the rest of its pieces out."""
        if not self._scrub.active:
            return result
        if self._scrub.completes(result.type):
            self.say_rest()
        return self._scrub.delta(result) if result.type == "message.delta" else result

    def say_rest(self) -> None:
        """What was held back because it might have become a secret."""
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
        """Deltas that came together become one row and one step."""
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
        """A record of the host's own."""
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
        """A record that is not a delta, behind everything before it."""
        self.close_deltas()
        self.seq += 1
        created_ms = self._clock.now_ms()
        if judged.type == "artifact.created":  # however it came: what its record says stands when all is made anew
            judged = self._expiring(judged, created_ms)
        touched, told = self._run.flow, self._run.state.flow
        if says_flow(judged.type, touched, told):
            fact: JsonObject = {**judged.fact, "flow": touched}
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
        """A content that a record of this batch names."""
        self._writer.batch.blobs.append(content)
        self.bytes += len(content)

    def _expiring(self, judged: CheckedResult, now_ms: int) -> CheckedResult:
        expires_ms = self._terms.expires_ms(now_ms)
        if expires_ms is None:
            return judged
        fact: JsonObject = {**judged.fact, "expires_ms": expires_ms}
        return replace(judged, fact=fact, data=encode_data(fact))
