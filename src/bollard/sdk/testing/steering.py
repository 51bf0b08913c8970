"""Messages that a live run absorbs: waiting, leased when pulled, acknowledged or dropped when the run ends."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from bollard.protocol import (
    AgentEventContext,
    AgentInput,
    AgentRunContext,
    SteeringInputItem,
    SteeringPull,
    SteeringPullResult,
    limits,
)

SteeringStatus = Literal["queued", "injected", "acknowledged", "dropped"]


@dataclass(frozen=True, slots=True)
class Steer:
    """A message that arrives while a run is active: at once, or when a call or result of that name has happened."""

    text: str
    after: str | None = None


@dataclass(slots=True)
class _Message:
    text: str
    item: SteeringInputItem
    status: SteeringStatus = "queued"


@dataclass(slots=True)
class SteeringQueue:
    """The steering messages of one run."""

    context: AgentRunContext
    runner_id: str
    now: Callable[[], float]
    on_change: Callable[[SteeringInputItem, SteeringStatus], None] = lambda _, __: None
    """Called when a message arrives, is pulled, and is settled."""
    scheduled: list[Steer] = field(default_factory=list[Steer])
    messages: list[_Message] = field(default_factory=list[_Message])

    def schedule(self, steers: Iterable[str | Steer]) -> None:
        """Schedule messages. Those without `after` arrive now."""
        self.scheduled += [Steer(steer) if isinstance(steer, str) else steer for steer in steers]
        self.happened(None)

    def happened(self, name: str | None) -> None:
        """Deliver the messages that wait for a call or result of this name."""
        due = [steer for steer in self.scheduled if steer.after == name]
        self.scheduled = [steer for steer in self.scheduled if steer.after != name]
        for steer in due:
            self.add(steer.text)

    def add(self, text: str) -> None:
        """One more message."""
        if len(self.messages) >= limits.STEERING_QUEUE:
            raise ValueError(f"a run is sent at most {limits.STEERING_QUEUE} messages")
        number = len(self.messages) + 1
        item = SteeringInputItem(
            claimed_run_id=self.context.run_id,
            runner_id=self.runner_id,
            claimed_at=self.now(),
            event=AgentEventContext(
                event_id=f"{self.context.event.event_id}-steer-{number}",
                event_type="message.received",
                source=self.context.event.source,
            ),
            input=AgentInput(text=text),
            conversation=self.context.conversation,
            actor=self.context.actor,
        )
        self.messages.append(_Message(text, item))
        self.on_change(item, "queued")

    def pull(self, request: SteeringPull) -> SteeringPullResult:
        """Return the waiting messages and lease them to the run."""
        waiting = [message for message in self.messages if message.status == "queued"]
        taken = waiting[: 1 if request.mode == "one-at-a-time" else request.limit]
        for message in taken:
            self._settle(message, "injected")
        return SteeringPullResult(items=tuple(message.item for message in taken))

    def end(self, *, completed: bool) -> tuple[tuple[str, SteeringStatus], ...]:
        """Return the final status of each message."""
        for message in self.messages:
            self._settle(message, "acknowledged" if completed and message.status == "injected" else "dropped")
        return tuple((message.text, message.status) for message in self.messages)

    def _settle(self, message: _Message, status: SteeringStatus) -> None:
        message.status = status
        self.on_change(message.item, status)
