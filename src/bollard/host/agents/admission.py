"""What becomes of an event whose conversation may be busy: one pure decision. Gates were passed before, or are next.

Only a message speaks to a run that is there: it may steer it, interrupt it, or be refused because of it. Any other
event (a reaction, a schedule, a decision) waits for its turn, also where messages are refused; under `parallel` it
starts.

The order of a conversation is kept by three choices:

- A message steers only if it overtakes nobody who could have steered in its place: under `same_actor` no message of the
  same actor waits in the lane, under `conversation` no message waits at all. Somebody else's waiting run does not keep
  an actor from correcting a run of their own, and neither does an event of theirs that is no message.
- Only the oldest run that the message may steer is considered. Is its queue full, the message queues; it does not go
  to a younger run, where it could be read before the messages that came earlier.
- `interrupt` cancels what is active and drops nothing that waits: the new run goes behind the waiting ones.
"""

import msgspec

from bollard.host.agents.policies import ConcurrencyPolicy
from bollard.protocol.limits import STEERING_QUEUE

Actor = tuple[str, str]
"""Type and id of who speaks."""


class LaneRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run as its conversation sees it."""

    run_id: str
    event_id: str = ""
    """Ids of events are in the order in which they came."""
    actor: Actor | None = None
    """Who started it; `None` is nobody that can be told from anybody else."""
    steerable: bool = False
    """Whether it still takes messages."""
    waiting_messages: int = 0
    """Messages that it was given and has not pulled."""
    on_message: bool = True
    """Whether a message started it."""


class LaneView(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation at one moment."""

    active: tuple[LaneRun, ...] = ()
    """Oldest first."""
    queued: tuple[LaneRun, ...] = ()
    """First in, first."""


class Start(msgspec.Struct, frozen=True):
    """A run of its own, at once."""


class Steer(msgspec.Struct, frozen=True):
    """No run of its own: the named one is given the message."""

    run_id: str


class Queue(msgspec.Struct, frozen=True):
    """A run of its own, after everything that the conversation has before it."""


class Interrupt(msgspec.Struct, frozen=True):
    """The named runs are cancelled, and a run of its own is queued."""

    run_ids: tuple[str, ...]


class Reject(msgspec.Struct, frozen=True):
    """No run; the sender is told."""

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
    """Decide for one event. `steering`: the runner declares it. `lane` is `None` for an event of no conversation.
    `message`: it is one. `unread`: so many messages may wait for one run."""
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
        return None  # two events of nobody are not known to be of the same person
    if any(run.on_message and (anyone or run.actor == actor) for run in lane.queued):
        return None
    for run in lane.active:
        if run.steerable and (anyone or run.actor == actor):
            return Steer(run.run_id) if run.waiting_messages < unread else None
    return None
