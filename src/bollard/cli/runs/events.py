"""`bollard events …` and `bollard resolve`: posts and shows events, and previews how an event would be routed. JSON
output has every field."""

import json
import secrets
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from bollard.cli.client.documents import Resource, read_json_object
from bollard.cli.command import CommandGroup, single_command
from bollard.cli.errors import UsageProblem
from bollard.cli.language import Text
from bollard.cli.limits import LINE_CHARACTERS
from bollard.cli.options import actor_of, given_values
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import printable, shorten
from bollard.cli.terminal.times import second_of

EVENTS: Final = Resource(path="/api/v1/events", key="event_id")
EventId = Annotated[str, typer.Argument(metavar="EVENT", help="events.event")]
_DATA_CHARACTERS: Final = 2000


def event_line(event: dict[str, Any], text: Text) -> str:
    """One event in one line."""
    names = {name: printable(str(event[name])) for name in ("event_id", "type", "source", "id")}
    return text("events.head", event=names.pop("event_id"), **names)


def event_lines(event: dict[str, Any], text: Text) -> Iterator[str]:
    """An event and its outcome."""
    content: dict[str, Any] = event.get("content") or {}
    yield event_line(event, text)
    yield text("events.when", created=second_of(event["created_at"]))
    if event["run_id"] is not None:
        yield text("events.run", run=event["run_id"])
    elif "reason" in event:
        yield text("events.none", reason=printable(_rejection(event["reason"], text)[0]))
    else:
        yield text("events.waits")
    if event.get("actor_type") is not None:
        yield text("events.who", actor=printable(f"{event['actor_type']}:{event.get('actor_id') or '-'}"))
    if event.get("conversation_id") is not None:
        yield text("events.where", conversation=printable(event["conversation_id"]))
    if (raw := content.get("raw")) is not None:
        mime = printable(raw.get("mime_type") or "-")
        yield text("events.raw", artifact=raw["artifact_id"], size=raw["size_bytes"], mime=mime)
    if content.get("data"):
        yield text("events.content", data=shorten(json.dumps(content["data"], ensure_ascii=False), _DATA_CHARACTERS))


def _rejection(reason: dict[str, str], text: Text) -> tuple[str, str]:
    """Why an event has no run, and the hint."""
    fields = {"reason": reason["code"], "message": reason["message"]}
    return text.host_error("event_rejected", fields, reason["message"], reason["hint"])


app = CommandGroup("events")


@app.command("post")
def post(
    shell: HostShell,
    kind: Annotated[str, typer.Option("--type", metavar="TYPE", help="events.type")],
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="events.agent")] = None,
    source: Annotated[str, typer.Option("--source", metavar="NAME", help="events.source")] = "cli",
    event_id: Annotated[str | None, typer.Option("--id", metavar="ID", help="events.id")] = None,
    message: Annotated[str | None, typer.Option("--message", metavar="TEXT", help="events.text")] = None,
    data: Annotated[str, typer.Option("--data", metavar="JSON|@FILE", help="events.data")] = "{}",
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="events.conversation")
    ] = None,
    actor: Annotated[str | None, typer.Option("--actor", metavar="TYPE:ID", help="events.actor")] = None,
) -> int:
    body = {
        "source": source,
        "id": event_id or secrets.token_hex(16),
        "type": kind,
        "data": read_json_object("--data", data),
        "actor": None if actor is None else actor_of(actor),
        "agent": agent,
        "text": message,
        "conversation": conversation,
    }
    answer = shell.post(EVENTS.path, given_values(body))
    return shell.show(answer, _posted_lines(answer, shell.text))


def _posted_lines(answer: dict[str, Any], text: Text) -> Iterator[str]:
    """The outcome of a posted event."""
    if (reason := answer.get("reason")) is not None:
        message, hint = _rejection(reason, text)
        yield text("events.kept", event=answer["event_id"], reason=printable(message))
        yield text("hint", hint=printable(hint))
        return
    key = "events.accepted" if answer["first"] else "events.known"
    key = "events.steered" if "steering" in answer and answer["first"] else key
    # A repeated event may still wait for its run; then only its own id can be shown.
    yield text(key, event=answer["event_id"], run=answer["run_id"] or answer["event_id"])


app.add_show(EVENTS, ("event", EventId), event_lines)


@app.command("list")
def list_events(
    shell: HostShell,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="events.limit")] = 20,
    *,
    follow: Annotated[bool, typer.Option("--follow", help="events.follow")] = False,
    types: Annotated[str | None, typer.Option("--types", metavar="TYPE,…", help="events.types")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="events.of_agent")] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="events.of_conversation")
    ] = None,
    source: Annotated[str | None, typer.Option("--source", metavar="NAME", help="events.of_source")] = None,
) -> int:
    chosen = given_values({"types": types, "agent": agent, "conversation": conversation, "source": source})
    if follow:
        from bollard.cli.client.event_stream import follow_events

        shell.run(follow_events(shell.client, chosen, lambda event: _print_event(shell, event)))
        return 0
    if chosen:
        raise UsageProblem("error.only_follow", "hint.only_follow", names=", ".join(f"--{name}" for name in chosen))
    page = shell.get(EVENTS.path, limit=limit)
    lines = [event_line(item, shell.text) for item in page["items"]]
    return shell.show(page, lines or [shell.text("events.empty")])


app.default(list_events, own_options=True)


def _print_event(shell: HostShell, event: dict[str, Any]) -> None:
    """One event of a stream, or a gap."""
    if shell.for_programs:
        shell.print(json.dumps(event, ensure_ascii=False))
    elif event["type"] == "gap":
        shell.print(shell.text("events.gap", reason=event["data"]["reason"]))
    else:
        data: dict[str, Any] = event["data"]
        said = next((data[name] for name in ("answer", "text", "name") if data.get(name)), "")
        parts = (second_of(event["time"]), event["type"], event["id"], event["agent_id"] or event["source"], said)
        shell.print(printable(shorten("  ".join(str(part) for part in parts if part), LINE_CHARACTERS)))


@single_command("resolve")
def resolve(
    shell: HostShell,
    kind: Annotated[str, typer.Option("--type", metavar="TYPE", help="resolve.type")] = "message.received",
    source: Annotated[str | None, typer.Option("--source", metavar="NAME", help="resolve.source")] = None,
    trigger: Annotated[str | None, typer.Option("--trigger", metavar="NAME", help="resolve.trigger")] = None,
    bot: Annotated[str | None, typer.Option("--bot", metavar="ID", help="resolve.bot")] = None,
    conversation: Annotated[
        str | None, typer.Option("--conversation", metavar="ID", help="resolve.conversation")
    ] = None,
    thread: Annotated[str | None, typer.Option("--thread", metavar="ID", help="resolve.thread")] = None,
    actor: Annotated[str | None, typer.Option("--actor", metavar="TYPE:ID", help="resolve.actor")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="resolve.agent")] = None,
    data: Annotated[str, typer.Option("--data", metavar="JSON|@FILE", help="resolve.data")] = "{}",
    message: Annotated[str | None, typer.Option("--message", metavar="TEXT", help="resolve.message")] = None,
    private: Annotated[bool | None, typer.Option("--private/--group", help="resolve.private")] = None,
    mentions: Annotated[list[str] | None, typer.Option("--mention", metavar="ID", help="resolve.mention")] = None,
) -> int:
    body = {
        "type": kind,
        "text": message,
        "is_private": private,
        "mentions": mentions,
        "locale": shell.text.language,
        "data": read_json_object("--data", data),
        "source": source,
        "trigger": trigger,
        "bot": bot,
        "agent": agent,
        "conversation": conversation,
        "thread": thread,
        "actor": None if actor is None else actor_of(actor),
    }
    answer = shell.post("/api/v1/bindings/resolve", given_values(body))
    return shell.show(answer, (printable(line) for line in _resolved_lines(answer, shell.text)))


def _resolved_lines(answer: dict[str, Any], text: Text) -> Iterator[str]:
    """The bindings one by one, then the routing, then closed gates."""
    for step in answer["steps"]:
        yield step["text"]
    decision: dict[str, Any] | None = answer["decision"]
    if decision is None:
        yield text("resolve.nobody")
        return
    runs = ", ".join(decision.get("run_ids", ()))
    kind, fields = decision["kind"], {"agent": answer["agent"], "runs": runs}
    if (refused := answer["refused"]) is None:
        busy, _ = text.host_error("conflict", {"reason": "conversation_busy"}, decision.get("message") or "", "")
        yield text(f"resolve.decision.{kind}", **fields, reason=busy)
    else:
        details = refused.get("details", {})
        message, hint = text.host_error(refused["code"], details, refused["message"], refused["hint"])
        yield text("resolve.refused", code=refused["code"], reason=message)
        yield text("hint", hint=hint)
        if f"resolve.open.{kind}" in text:
            yield text(f"resolve.open.{kind}", **fields)
    if (grant := answer["grant"]) is not None:
        yield text("resolve.granted", names=", ".join(grant["operations"]) or text("rights.none"))
