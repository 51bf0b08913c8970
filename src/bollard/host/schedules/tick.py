"""The events of a schedule. The id of a tick is its instant, so a tick has one run over restarts and clock jumps."""

from datetime import UTC
from typing import Final

from bollard.host.channels.channel import reply_route
from bollard.host.channels.registry import ChannelRepository
from bollard.host.events.acceptance import EventRejection
from bollard.host.log.records import NO_BITS, UNTRUSTED_BIT
from bollard.host.log.saved_resources import Saved
from bollard.host.runs.event import OWN_SOURCE, NewEvent, ReplyRoute
from bollard.host.schedules.planner import SkippedTicks, local_text, utc_text
from bollard.host.schedules.schedule import Schedule
from bollard.host.scope import Scope

ACTOR_TYPE: Final = "schedule"
"""The actor of a tick is `schedule:ID`, which rules of agents can name."""
_SURFACE: Final = "schedule"


def source_of(schedule_id: str) -> str:
    """The source of the ticks. Their ids sort by time, so the greatest one is the last tick."""
    return f"{OWN_SOURCE}schedules/{schedule_id}"


def tick_event(saved: Saved[Schedule], instant: int, reply: ReplyRoute | None) -> NewEvent:
    return _event(saved, source_of(saved.id), utc_text(instant), instant, reply, manual=False)


def manual_event(saved: Saved[Schedule], now_ms: int, fire_id: str, reply: ReplyRoute | None) -> NewEvent:
    """The event of a schedule that a person fires. It is no tick."""
    return _event(saved, f"{source_of(saved.id)}/manual", fire_id, now_ms, reply, manual=True)


def skipped_event(saved: Saved[Schedule], skipped: SkippedTicks) -> NewEvent:
    """Stands for missed ticks that never start."""
    return tick_event(saved, skipped.through_ms, None)


def skipped_reason(skipped: SkippedTicks) -> EventRejection:
    count = f"at least {skipped.count}" if skipped.more else str(skipped.count)
    first = local_text(skipped.first_ms, UTC)
    return EventRejection(
        code="missed",
        message=f"missed ticks from {first} on never start: {count}",
        hint="`missed` and `grace_s` of the schedule decide about missed ticks",
    )


def route_of(saved: Saved[Schedule], channels: ChannelRepository) -> ReplyRoute | None:
    """The reply target, with the abilities of its channel."""
    target = saved.value.reply_target
    if target is None:
        return None
    channel_id, _, place = target.partition(":")
    channel = channels.sender(saved.workspace, channel_id)
    if channel is None:
        return ReplyRoute(channel=channel_id, target=place)
    return reply_route(channel_id, channel.abilities, place)


def _event(
    saved: Saved[Schedule], source: str, source_id: str, instant: int, reply: ReplyRoute | None, *, manual: bool
) -> NewEvent:
    schedule = saved.value
    data = {**schedule.data, "schedule_id": saved.id, "planned_at": utc_text(instant)}
    return NewEvent(
        source=source,
        source_id=source_id,
        event_type=schedule.event_type,
        trigger="scheduler",
        scope=Scope(
            workspace=saved.workspace,
            bot=schedule.bot,
            conversation=schedule.conversation,
            thread=schedule.thread,
            actor_type=ACTOR_TYPE,
            actor_id=saved.id,
        ),
        text=schedule.text,
        surface=_SURFACE,
        event_ms=instant,
        data={**data, "manual": True} if manual else data,
        reply=reply,
        # For the erasure of the person whose run created the schedule.
        extra=None if schedule.proposed_by is None else {"schedule": {"proposed_by": schedule.proposed_by}},
        # A model wrote the text of a proposed schedule, and may have read untrusted content before.
        carries=NO_BITS if schedule.proposed_by is None else UNTRUSTED_BIT,
    )
