"""The state that survives every life of a simulated host: its store, the answers to clients, and the deciding seed."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal

import msgspec
from tests.doubles.failing_store import FailurePlan
from tests.doubles.memory_store import MemoryStore
from tests.simulation.history import History
from tests.simulation.simulated_agents import AGENTS, CALLED, UNREAD, WORKSPACES

from bollard.host.errors import StorageFull
from bollard.trust.keys import SigningKey

# What a simulated message asks of its runner: drawn from dice, carried by the event, read by the scripted worker.


Ending = Literal["completes", "fails", "quits", "dies", "hangs", "deaf", "mute"]
"""One that quits calls its failure a cancel."""

_Weights = dict[Ending, int]
_ENDINGS: Final[_Weights] = {"completes": 14, "fails": 2, "quits": 1, "dies": 1, "hangs": 1, "deaf": 1, "mute": 1}
_CHILD_ENDINGS: Final[_Weights] = {"completes": 5, "fails": 1, "hangs": 1}
_DEEPEST: Final = 5
"""One more than may be, so that the limit is met."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of one run."""

    deltas: int = 0
    pauses: float = 0.0
    """How often it rests for a moment behind a delta."""
    lasts_s: float = 0.0
    """Time spread over its steps."""
    pulls: int = 0
    """How often it asks for messages that came meanwhile."""
    hasty: float = 0.0
    """How often it gives such a call up before its answer is there, or ends without waiting for it."""
    calls: int = 0
    """How often it writes state through the run API."""
    states: int = 0
    """How often it writes state as a result."""
    child: "Plan | None" = None
    """Its calls of another agent."""
    message: bool = True
    """Whether it says something whole before its end."""
    ending: Ending = "completes"


def draw_plan(dice: Random) -> Plan:
    """A plan for an event of a client."""
    return Plan(
        deltas=dice.choice([0, 1, 2, 6]),
        pauses=dice.choice([0.0, 0.5]),
        lasts_s=dice.choice([0.0, 0.1, 0.5, 1.5]),
        pulls=dice.choice([0, 1, 3, 5]),
        hasty=dice.choice([0.0, 0.0, 0.5]),
        calls=dice.choice([0, 0, 0, 2]),
        states=dice.choice([0, 0, 1]),
        child=_draw_child(dice, 1) if dice.random() < 0.12 else None,
        message=dice.random() < 0.9,
        ending=_draw_ending(dice, _ENDINGS),
    )


def _draw_child(dice: Random, depth: int) -> Plan:
    deeper = depth < _DEEPEST and dice.random() < 0.6
    return Plan(
        deltas=dice.choice([0, 1]),
        lasts_s=dice.choice([0.0, 0.2]),
        child=_draw_child(dice, depth + 1) if deeper else None,
        ending=_draw_ending(dice, _CHILD_ENDINGS),
    )


def _draw_ending(dice: Random, weights: _Weights) -> Ending:
    [ending] = dice.choices(list(weights), list(weights.values()))
    return ending


def plan_of(data: object) -> Plan:
    """The plan that an event's data is."""
    return msgspec.convert(data, Plan)


def plan_of_text(text: str) -> Plan:
    """The plan that a parent run wrote as its child's input."""
    return msgspec.json.decode(text, type=Plan)


# Sees the calls of runners and their answers, and earlier revocations.


class Witness:
    """Outlives every incarnation. Runs in the same process as the simulated workers, so it sees both sides."""

    def __init__(self) -> None:
        self._taken: dict[str, set[str]] = {}
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.pulled: dict[str, list[str]] = {}
        """By run, the events that its runner really pulled, in that order."""

    def got(self, run_id: str, event_ids: Iterable[str]) -> None:
        """The runner has the answer to a pull."""
        self.pulled.setdefault(run_id, []).extend(event_ids)

    def revoked(self, run_id: str, operations: Iterable[str]) -> None:
        """The host confirmed the revocation of these rights of the run."""
        self._taken.setdefault(run_id, set()).update(operations)
        self.counts["revocation"] += 1

    def may(self, run_id: str, operation: str) -> bool:
        """Whether the run could still have the right, as far as any client knows; asked before the call is sent."""
        return operation not in self._taken.get(run_id, ())

    def answered(self, run_id: str, operation: str, *, allowed: bool) -> None:
        self.counts[f"call {operation}"] += 1
        if not allowed:
            self.problems.append(f"{run_id}: {operation} succeeded after it was revoked")

    def refused(self, operation: str, code: str) -> None:
        self.counts[f"refused {operation} {code}"] += 1


KEY: Final = SigningKey(b"simulated-key-of-the-simulation!")
_TALKED_TO: Final = [*(agent_id for agent_id in AGENTS if agent_id != CALLED), *["steer", "steer_all"] * 3]
_CONVERSATIONS: Final = ["room", "room", "room", "hall"]
_ACTORS: Final = ["ann", "ann", "bob", ""]


class SentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that some client has; every client may send it, again and again."""

    source_id: str
    workspace: str
    agent_id: str
    plan: Plan
    kind: str
    conversation: str
    actor: str
    external: bool


class NoBlobs:
    """Nothing is stored: no simulated runner reads its content."""

    def put(self, content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()


@dataclass(slots=True)
class World:
    """Of one seed."""

    dice: Random
    store: MemoryStore = field(default_factory=MemoryStore)
    plan: FailurePlan = field(
        default_factory=lambda: FailurePlan(
            only="write.begin", error=lambda call: StorageFull(f"full at {call}", reason="test")
        )
    )
    histories: dict[str, History] = field(default_factory=lambda: {name: History(name) for name in WORKSPACES})
    events: dict[str, SentEvent] = field(default_factory=dict[str, SentEvent])
    witness: Witness = field(default_factory=Witness)
    now: float = 0.0
    problems: list[str] = field(default_factory=list[str])
    queued: set[str] = field(default_factory=set[str])
    """Runs that waited for their turn when a host died: the next one lets them have it."""

    def crowd(self, dice: Random) -> list[SentEvent]:
        """A message that gets a run which lasts, and more of the same person than the run may hold."""
        slow, brief = Plan(deltas=1, lasts_s=dice.choice([0.3, 1.0]), pulls=12, hasty=0.8), Plan(deltas=1)
        agent_id = dice.choice(["steer", "steer_all"])
        events = [
            SentEvent(
                source_id=f"crowd{len(self.events)}-{number}",
                workspace=WORKSPACES[0],
                agent_id=agent_id,
                plan=brief if number else slow,
                kind="message.received",
                conversation="crowd",
                actor="ann",
                external=False,
            )
            for number in range(2 * UNREAD + 2)
        ]
        self.events |= {event.source_id: event for event in events}
        return events

    def new_event(self, dice: Random, talked_to: list[str]) -> SentEvent:
        """An event with a new id, for one of these agents."""
        event = SentEvent(
            source_id=f"e{len(self.events)}",
            workspace=dice.choice([*[WORKSPACES[0]] * 5, WORKSPACES[1]]),
            agent_id=dice.choice(talked_to),
            plan=draw_plan(dice),
            kind="message.received" if dice.random() < 0.9 else "schedule.triggered",
            conversation=dice.choice(_CONVERSATIONS) if dice.random() < 0.95 else "",
            actor=dice.choice(_ACTORS),
            external=dice.random() < 0.05,
        )
        self.events[event.source_id] = event
        return event

    def talked_to(self, dice: Random) -> list[str]:
        """Two agents that a life talks to: few, so that messages meet in the same conversations."""
        return dice.sample(_TALKED_TO, 2)
