"""Admission: decides whether an event starts a run, steers one, waits, interrupts or is rejected. Pure.

Only a message can steer, interrupt or be rejected. Any other event (a reaction, a schedule, a decision) waits for its
turn, and starts under `parallel`. Three rules keep the order of a conversation:

- A message steers only if it overtakes no other message that could steer: under `same_actor` no message of the same
  actor waits, under `conversation` no message waits at all. Other waiting runs do not matter.
- Only the oldest run that the message may steer is considered. If its queue is full, the message waits; a younger run
  might read it before earlier messages.
- `interrupt` cancels active runs and drops no waiting run: the new run goes behind them.
"""

import msgspec

from bollard.host.agents.policies import ConcurrencyPolicy
from bollard.host.scope import Actor
from bollard.protocol.limits import STEERING_QUEUE


class LaneRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run in its conversation."""

    run_id: str
    event_id: str = ""
    """Event ids sort by arrival."""
    actor: Actor | None = None
    """Who started it. `None` is an unknown actor and equals no other."""
    steerable: bool = False
    """Whether it accepts messages."""
    waiting_messages: int = 0
    """Messages that the runner has not pulled."""
    on_message: bool = True
    """Whether a message started it."""


class LaneView(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of a conversation."""

    active: tuple[LaneRun, ...] = ()
    """Oldest first."""
    queued: tuple[LaneRun, ...] = ()
    """Oldest first."""


class Start(msgspec.Struct, frozen=True):
    """Start a new run at once."""


class Steer(msgspec.Struct, frozen=True):
    """Give the message to this active run."""

    run_id: str


class Queue(msgspec.Struct, frozen=True):
    """Queue a new run behind the runs of its conversation."""


class Interrupt(msgspec.Struct, frozen=True):
    """Cancel these runs and queue a new one."""

    run_ids: tuple[str, ...]


class Reject(msgspec.Struct, frozen=True):
    """Reject the event."""

    sentence: str


Admission = Start | Steer | Queue | Interrupt | Reject


def admit(
    policy: ConcurrencyPolicy,
    *,
    steering: bool,
    lane: LaneView | None,
    actor: Actor | None,
    message: bool,
    unread: int = STEERING_QUEUE,
) -> Admission:
    """Decide for one event. `steering`: the runner supports it. `lane` is `None` without a conversation. `message`: the
    event is a message. `unread`: the maximum of unread messages per run."""
    if policy.mode == "parallel" or lane is None or not (lane.active or lane.queued):
        return Start()
    if not message:
        return Queue()
    match policy.mode:
        case "reject":
            return Reject("the agent is busy with this conversation and takes one message at a time")
        case "interrupt" if lane.active:
            return Interrupt(tuple(run.run_id for run in lane.active))
        case "steer" if steering:
            return _steered(lane, actor, unread, anyone=policy.steer_from == "conversation") or Queue()
        case _:
            return Queue()


def _steered(lane: LaneView, actor: Actor | None, unread: int, *, anyone: bool) -> Steer | None:
    if not anyone and actor is None:
        return None  # two unknown actors need not be the same person
    if any(run.on_message and (anyone or run.actor == actor) for run in lane.queued):
        return None
    for run in lane.active:
        if run.steerable and (anyone or run.actor == actor):
            return Steer(run.run_id) if run.waiting_messages < unread else None
    return None
