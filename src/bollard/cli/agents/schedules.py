"""`bollard schedules …`: lists, shows, saves, pauses, fires and deletes schedules, and previews their instants."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, Literal

import typer

from bollard.cli.client.documents import SCHEDULES, read_json_object
from bollard.cli.command import CommandGroup
from bollard.cli.errors import UsageProblem
from bollard.cli.language import Text
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import Column, printable
from bollard.cli.terminal.times import seconds_of

ScheduleId = Annotated[str, typer.Argument(metavar="ID", help="schedules.id")]
_PREVIEW: Final = "/api/v1/schedules/preview"
_MISSED: Final = {"skip": "schedules.missed.skip", "last": "schedules.missed.last", "all": "schedules.missed.all"}


@dataclass(frozen=True, kw_only=True)
class TimingOptions:
    """When a schedule fires."""

    cron: Annotated[str | None, typer.Option("--cron", metavar="EXPRESSION", help="schedules.cron")] = None
    every: Annotated[str | None, typer.Option("--every", metavar="DURATION", help="schedules.every")] = None
    at: Annotated[str | None, typer.Option("--at", metavar="TIME", help="schedules.at")] = None
    zone: Annotated[str | None, typer.Option("--zone", metavar="ZONE", help="schedules.zone_option")] = None
    start: Annotated[str | None, typer.Option("--start", metavar="TIME", help="schedules.start")] = None
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="schedules.until_option")] = None

    def body(self) -> dict[str, Any]:
        """The fields of the request. Raises `UsageProblem` for a malformed duration."""
        given = _given({**asdict(self), "every": None})
        return given if self.every is None else {**given, "every_s": seconds_of(self.every)}


@dataclass(frozen=True, kw_only=True)
class EventOptions:
    """The event of a tick, and what happens to missed ticks."""

    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="schedules.agent")] = None
    event_type: Annotated[str | None, typer.Option("--type", metavar="TYPE", help="schedules.type")] = None
    message: Annotated[str | None, typer.Option("--message", metavar="TEXT", help="schedules.text")] = None
    data: Annotated[str, typer.Option("--data", metavar="JSON|@FILE", help="schedules.data")] = "{}"
    conversation: Annotated[str | None, typer.Option("--conversation", metavar="ID", help="schedules.conversation")] = (
        None
    )
    reply: Annotated[str | None, typer.Option("--reply", metavar="CHANNEL:TARGET", help="schedules.reply")] = None
    missed: Annotated[Literal["skip", "last", "all"] | None, typer.Option("--missed", help="schedules.missed")] = None
    grace: Annotated[str | None, typer.Option("--grace", metavar="DURATION", help="schedules.grace")] = None
    jitter: Annotated[str | None, typer.Option("--jitter", metavar="DURATION", help="schedules.jitter")] = None

    def body(self) -> dict[str, Any]:
        """The fields of the request. Raises `UsageProblem` for malformed values."""
        return _given(
            {
                "agent_id": self.agent,
                "event_type": self.event_type,
                "text": self.message,
                "data": read_json_object("--data", self.data),
                "conversation": self.conversation,
                "reply_target": self.reply,
                "missed": self.missed,
                "grace_s": None if self.grace is None else seconds_of(self.grace),
                "jitter_s": None if self.jitter is None else seconds_of(self.jitter),
            }
        )


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def schedule_lines(schedule: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of a schedule."""
    yield text("schedules.head", schedule=schedule["schedule_id"], rule=_rule(schedule, text))
    yield text("schedules.to", what=printable(schedule.get("agent_id") or schedule["event_type"]))
    yield text(_MISSED[schedule["missed"]], limit=schedule["missed_limit"])
    yield text("schedules.grace_line", seconds=schedule["grace_s"])
    if schedule["paused"]:
        yield text("schedules.is_paused")
    if (last := schedule.get("last")) is not None:
        yield text("schedules.last", instant=last["planned_at"], outcome=_outcome(last, text))
    if (problem := schedule.get("problem")) is not None:
        sentence, _ = text.host_error(problem["code"], problem["details"], problem["message"], problem["hint"])
        yield text("schedules.problem", instant=problem["planned_at"], problem=printable(sentence))
    yield from _instants(schedule, text)


def _rule(schedule: dict[str, Any], text: Text) -> str:
    if "cron" in schedule:
        return text("schedules.rule.cron", cron=printable(schedule["cron"]), zone=printable(schedule["zone"]))
    if "every_s" in schedule:
        return text("schedules.rule.every", seconds=schedule["every_s"])
    return text("schedules.rule.at", instant=printable(schedule["at"]))


def _outcome(last: dict[str, Any], text: Text) -> str:
    if (reason := last["reason"]) is None:
        return text("schedules.started", run=last["run_id"] or last["event_id"])
    fields = {"reason": reason["code"], "message": reason["message"]}
    return printable(text.host_error("event_rejected", fields, reason["message"], reason["hint"])[0])


def _instants(preview: dict[str, Any], text: Text) -> Iterator[str]:
    yield text("schedules.next" if preview["next"] else "schedules.no_next")
    for instant in preview["next"]:
        yield f"  {instant}"


def _saved_lines(schedule: dict[str, Any], text: Text) -> Iterator[str]:
    yield text("schedules.saved", schedule=schedule["schedule_id"], revision=schedule["revision"])
    yield from _instants(schedule, text)


app = CommandGroup("schedules")
app.add_list(
    SCHEDULES,
    (
        Column("schedule", "schedule_id"),
        Column("rule", _rule),
        Column("to", lambda schedule, _: schedule.get("agent_id") or schedule["event_type"]),
        Column("next", lambda schedule, _: schedule["next"][0] if schedule["next"] else "-"),
        Column("paused", lambda schedule, text: text.yes_or_no(schedule["paused"])),
    ),
    none="schedules.none",
)
app.add_show(SCHEDULES, ("schedule", ScheduleId), schedule_lines)
app.add_save(SCHEDULES, _saved_lines)


@app.command("add")
def add(
    shell: HostShell,
    schedule: ScheduleId,
    timing: TimingOptions,
    event: EventOptions,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="schedules.yes")] = False,
) -> int:
    body = {**timing.body(), **event.body()}
    if not yes:
        _confirm(shell, shell.post(_PREVIEW, timing.body()))
    # Revision 0: a schedule of this id is not replaced.
    saved = shell.put(SCHEDULES.one(schedule), {**body, "revision": 0})
    return shell.show(saved, _saved_lines(saved, shell.text))


def _confirm(shell: HostShell, preview: dict[str, Any]) -> None:
    """Show the next instants and ask on a terminal; elsewhere require `--yes`."""
    if not shell.has_person:
        raise UsageProblem("error.schedule_yes", "hint.schedule_yes")
    for line in _instants(preview, shell.text):
        shell.print(line)
    if not shell.confirm("schedules.question"):
        raise UsageProblem("error.schedule_refused", "hint.schedule_refused")


@app.command("preview")
def preview(shell: HostShell, timing: TimingOptions) -> int:
    found = shell.post(_PREVIEW, timing.body())
    return shell.show(found, _instants(found, shell.text))


@app.command("pause")
def pause(shell: HostShell, schedule: ScheduleId) -> int:
    return _set_paused(shell, schedule, paused=True)


@app.command("resume")
def resume(shell: HostShell, schedule: ScheduleId) -> int:
    return _set_paused(shell, schedule, paused=False)


def _set_paused(shell: HostShell, schedule: str, *, paused: bool) -> int:
    saved = shell.put(SCHEDULES.one(schedule), {**shell.get(SCHEDULES.one(schedule)), "paused": paused})
    sentence = shell.text("schedules.paused" if paused else "schedules.resumed", schedule=schedule)
    return shell.show(saved, [sentence, *([] if paused else _instants(saved, shell.text))])


@app.command("fire")
def fire(shell: HostShell, schedule: ScheduleId) -> int:
    accepted = shell.post(SCHEDULES.one(schedule, "/fire"))
    return shell.tell(accepted, shell.text("schedules.fired", schedule=schedule, run=accepted["run_id"]))


app.add_delete(SCHEDULES, ("schedule", ScheduleId))
