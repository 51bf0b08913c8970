"""The records of one live run as they come to be: numbered, without the workspace's secrets, collected into turns.

It decides nothing: each record is told as a fact once it has its number, and turns are written by the `TurnWriter`.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec.structs import replace

from bollard.host.clock import Clock
from bollard.host.log.entries import StateExpectation
from bollard.host.log.facts import RunFacts
from bollard.host.log.flow_bits import says_flow
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.runs.machine import Fact
from bollard.host.runs.payloads import Judged
from bollard.host.runs.scrubbing import RunScrubber
from bollard.host.runs.turn import joined
from bollard.host.runs.turn_writer import TurnWriter
from bollard.host.store.artifact_terms import ArtifactTerms
from bollard.protocol import JsonObject
from bollard.wire import Delta, WorkerResult

__all__ = ["Recording", "RecordingPorts"]

_encode: Final = msgspec.json.Encoder().encode


class RecordingPorts(msgspec.Struct, frozen=True):
    """What a recording asks and tells."""

    clock: Clock
    terms: ArtifactTerms
    fact: Callable[[Fact], None]
    """A record has its number and is on its way."""
    flow: Callable[[], tuple[int, int]]
    """What the run has touched, and what its records say of it so far."""
    spoke: Callable[[], None]
    """Words of the runner are about to be shown."""


class Recording:
    """One per live run."""

    def __init__(
        self, facts: RunFacts, epoch: int, seq: int, writer: TurnWriter, scrub: RunScrubber, ports: RecordingPorts
    ) -> None:
        self._facts = facts
        self._epoch = epoch
        self._writer = writer
        self._scrub = scrub
        self._ports = ports
        self.seq = seq
        """The number of the newest record."""

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
        self._writer.turn.source_seq = delta.sequence

    def piece(self, judged: Judged) -> None:
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
        turn = self._writer.turn
        self.seq += 1
        turn.deltas.append((self.seq, data))
        turn.texts.append((message_id, text))
        turn.size += size

    def close_deltas(self) -> None:
        """Deltas that came together become one row and one step."""
        turn = self._writer.turn
        if not turn.deltas:
            return
        self._ports.spoke()
        texts = turn.close_deltas(self._facts.run_id, self._epoch, self._ports.clock.now_ms())
        self._ports.fact(Fact("message.delta", {}, self.seq, joined(texts)))

    # --- records ---

    def observe(
        self, kind: str, data: JsonObject, expects: StateExpectation | None = None, *, pressing: bool = True
    ) -> None:
        """A record of the host's own."""
        judged = Judged(kind, encode_data(data), fact=data, observed=True)
        self.add(judged, None, expects, pressing=pressing)

    def add(
        self,
        judged: Judged,
        source_seq: int | None,
        expects: StateExpectation | None = None,
        *,
        pressing: bool = True,
    ) -> None:
        """A record that is not a delta, behind everything before it."""
        self.close_deltas()
        self.seq += 1
        created_ms = self._ports.clock.now_ms()
        if judged.type == "artifact.created":  # however it came: what its record says stands when all is made anew
            judged = self._expiring(judged, created_ms)
        touched, told = self._ports.flow()
        if says_flow(judged.type, touched, told):
            fact: JsonObject = {**judged.fact, "flow": touched}
            judged = replace(judged, fact=fact, data=encode_data(fact))
        if self._scrub.active:
            judged = replace(judged, data=self._scrub.record(judged.data, observed=judged.observed))
        turn = self._writer.turn
        turn.pressing = turn.pressing or pressing
        if expects is not None:
            turn.expects.append(msgspec.structs.replace(expects, record=len(turn.records), now_ms=created_ms))
        turn.add(
            NewRecord(
                workspace=self._facts.workspace,
                type=judged.type,
                data=judged.data,
                created_ms=created_ms,
                observed=judged.observed,
                run_id=self._facts.run_id,
                seq=self.seq,
                epoch=self._epoch,
                source_seq=source_seq,
            )
        )
        self._ports.fact(Fact(judged.type, judged.fact, self.seq))

    def _expiring(self, judged: Judged, now_ms: int) -> Judged:
        expires_ms = self._ports.terms.expires_ms(now_ms)
        if expires_ms is None:
            return judged
        fact: JsonObject = {**judged.fact, "expires_ms": expires_ms}
        return replace(judged, fact=fact, data=encode_data(fact))
