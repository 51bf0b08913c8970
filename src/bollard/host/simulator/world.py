"""What outlives every life of a simulated host: its store, what clients were told, and the seed that decides."""

import hashlib
from dataclasses import dataclass, field
from random import Random
from typing import Final

import msgspec

from bollard.host.errors import StorageFull
from bollard.host.simulator.history import History
from bollard.host.simulator.plans import Plan, draw_plan
from bollard.host.simulator.simulated_agents import AGENTS, CALLED, UNREAD, WORKSPACES
from bollard.host.simulator.witness import Witness
from bollard.host.store.failing import FailurePlan
from bollard.host.store.memory import MemoryStore
from bollard.trust.keys import SigningKey

__all__ = ["KEY", "NoBlobs", "SentEvent", "World"]

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
    """Nothing is kept: no simulated runner reads what it wrote."""

    def put(self, content: bytes) -> str:
        return hashlib.sha256(content).hexdigest()


@dataclass(slots=True)
class World:
    """Of one seed."""

    dice: Random
    store: MemoryStore = field(default_factory=MemoryStore)
    plan: FailurePlan = field(
        default_factory=lambda: FailurePlan(only="write.begin", error=lambda call: StorageFull(f"full at {call}"))
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
        """An event with an id of its own, for one of these agents."""
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
