"""An event as readers of a workspace see it, and the selection of events that a reader wants. Pure.

A feed has the accepted events, and the host events that follow from records: the end of a run, a requested approval, a
new artifact, a changed status of a channel.
"""

from typing import Final

import msgspec

from bollard.host.agents.binding import HOST_EVENTS
from bollard.host.identity.caller import Right
from bollard.host.scope import Actor
from bollard.protocol import JsonObject, JsonValue

_RECEIVED: Final = "event.received"
_RECORD_OF: Final = {"run.completed": "run.ended", "run.failed": "run.ended"}
"""The record that a host event follows from, where it has another name."""
FEED_RECORDS: Final = frozenset({_RECEIVED, *(_RECORD_OF.get(kind, kind) for kind in HOST_EVENTS)})
"""The types of records from which events are made."""
_RIGHTS: Final[dict[str, Right]] = {
    "run.completed": "runs.read",
    "run.failed": "runs.read",
    "approval.requested": "approvals.read",
    "artifact.created": "artifacts.read",
    "channel.status_changed": "channels.read",
}


class FeedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a workspace."""

    position: int
    """The id of its record, which orders the events."""
    id: str
    """The same for every reader, and after every restart. Without a dot, because a webhook signature separates by
    dots."""
    type: str
    source: str
    time_ms: int
    workspace: str
    run_id: str | None = None
    agent_id: str | None = None
    bot: str | None = None
    conversation: str | None = None
    thread: str | None = None
    actor: Actor | None = None
    flow: int = 0
    data: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])

    @property
    def right(self) -> Right:
        """The right that a reader needs."""
        return _RIGHTS.get(self.type, "events.read")

    def to_wire(self) -> JsonObject:
        return {
            "id": self.id,
            "type": self.type,
            "source": self.source,
            "time": self.time_ms / 1000,
            "seq": self.position,
            "run_id": self.run_id,
            "agent_id": self.agent_id,
            "bot_id": self.bot,
            "conversation_id": self.conversation,
            "thread_id": self.thread,
            "actor_type": None if self.actor is None else self.actor.type,
            "actor_id": None if self.actor is None else self.actor.id,
            "data": self.data,
        }


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The events that a reader wants. `None` matches every value."""

    types: frozenset[str] | None = None
    agents: frozenset[str] | None = None
    conversations: frozenset[str] | None = None
    sources: frozenset[str] | None = None

    def matches(self, event: FeedEvent) -> bool:
        return (
            (self.types is None or event.type in self.types)
            and (self.agents is None or event.agent_id in self.agents)
            and (self.conversations is None or event.conversation in self.conversations)
            and (self.sources is None or event.source in self.sources)
        )

    @property
    def records(self) -> frozenset[str]:
        """The types of records from which these events are made."""
        if self.types is None:
            return FEED_RECORDS
        return frozenset(_RECORD_OF.get(kind, kind) if kind in HOST_EVENTS else _RECEIVED for kind in self.types)


EVERYTHING: Final = Selection()


def all_of(selections: list[Selection]) -> Selection:
    """A selection with every event that one of them matches."""
    if any(each.types is None for each in selections):
        return EVERYTHING
    return Selection(types=frozenset(kind for each in selections for kind in each.types or ()))
