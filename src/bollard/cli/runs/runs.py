"""`bollard runs …`: lists, shows, watches, steers and cancels runs, and explains their permissions.

JSON output has every field. The reasons of a grant come from the host, in the reader's language.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import typer

from bollard.cli.agents.capabilities import reason_text
from bollard.cli.client.documents import Resource
from bollard.cli.command import CommandGroup
from bollard.cli.errors import UsageProblem
from bollard.cli.language import Text, run_error
from bollard.cli.options import PAGE_ITEMS, ActorOption, page_limit, speaker
from bollard.cli.runs.calls import COLUMNS, RECORD_PAGES, calls_of
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import Column, answer, printable, revocation, shorten, styled
from bollard.cli.terminal.times import minute_of, second_of

if TYPE_CHECKING:
    from rich.text import Text as Styled

RUNS: Final = Resource(path="/api/v1/runs", key="run_id")
RunId = Annotated[str, typer.Argument(metavar="RUN", help="runs.run_id")]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="runs.limit")]
_PAGE: Final = 20
_CHARACTERS: Final = 2000
_STYLES: Final = {"completed": "green", "failed": "red", "timeout": "red", "cancelled": "yellow"}
_PLACES: Final = (
    ("run_shown.conversation", "conversation_id"),
    ("run_shown.thread", "thread_id"),
    ("run_shown.bot", "bot_id"),
    ("run_shown.parent", "parent_run_id"),
)


def _styled_status(run: dict[str, Any], text: Text) -> Styled:
    reason = run.get("status_reason") or run["status"]
    return styled(text.known(f"status.{reason}", reason), _STYLES.get(run["status"], ""))


def _seconds(run: dict[str, Any], text: Text) -> str:
    del text
    finished = run.get("finished_at")
    return "" if finished is None else f"{finished - run['created_at']:.2f}"


_RUNS: Final = (
    Column("run", "run_id", no_wrap=True),
    Column("agent", "agent_id"),
    Column("status", _styled_status),
    Column("created", lambda run, _: minute_of(run["created_at"])),
    Column("seconds", _seconds, right=True),
)


def _reasons(item: dict[str, Any], text: Text) -> str:
    """Nothing for an allowed action, every reason for a denied one."""
    return "" if item["allowed"] else " ".join(reason_text(reason, text) for reason in item["reasons"])


_EXPLAINED: Final = (
    Column("action", "action", no_wrap=True),
    Column("thing", "thing"),
    Column("may", lambda item, text: answer(item["allowed"], text), no_wrap=True),
    Column("why", _reasons),
)


def run_lines(run: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of one run."""
    yield text("run_shown.head", run=run["run_id"], status=_status(run, text))
    yield text("run_shown.of", agent=printable(run["agent_id"]), runner=printable(run["runner_id"]))
    yield text("run_shown.because", event=run["event_id"], binding=printable(run["binding_id"]))
    if (actor := run.get("actor")) is not None:
        yield text("run_shown.who", actor=printable(f"{actor.get('actor_type')}:{actor.get('actor_id') or '-'}"))
    for key, name in _PLACES:
        if run.get(name) is not None:
            yield text(key, value=printable(str(run[name])))
    if error := run.get("error"):
        said = run_error(error["code"], str(error["message"]), error["details"], text)
        yield text("run_shown.error", error=printable(shorten(said, _CHARACTERS)))
    yield from _times(run, text)
    yield text("run_shown.grant", digest=run["grant_sha256"])
    for key, name in (("run_shown.usage", "usage"), ("run_shown.metadata", "metadata")):
        if run.get(name):
            yield text(key, value=shorten(json.dumps(run[name], ensure_ascii=False), _CHARACTERS))


def _status(run: dict[str, Any], text: Text) -> str:
    label = text.known(f"status.{run['status']}", printable(str(run["status"])))
    reason = run.get("status_reason")
    return f"{label} ({printable(str(reason))})" if reason else label


def _times(run: dict[str, Any], text: Text) -> Iterator[str]:
    yield text("run_shown.created", when=second_of(run["created_at"]))
    started, finished = run.get("started_at"), run.get("finished_at")
    if started is not None:
        yield text("run_shown.started", when=second_of(started))
    if finished is not None:
        yield text("run_shown.finished", when=second_of(finished), seconds=f"{finished - run['created_at']:.2f}")
    elif run.get("cancel_requested_at") is not None:
        yield text("run_shown.stopping", when=second_of(run["cancel_requested_at"]))


def explained(item: dict[str, Any], text: Text) -> Iterator[str]:
    """One decision, with a line for each layer."""
    what = printable(" ".join(part for part in (item["action"], item.get("thing")) if part))
    if item["allowed"]:
        yield text("rights.may", what=what)
    else:
        yield text("rights.may_not", what=what, code=item["code"])
    for reason in item["reasons"]:
        layer = text.known(f"layer.{reason['layer']}", reason["layer"])
        yield "  " + text("rights.reason", layer=layer, reason=printable(reason_text(reason, text)))


def granted(answer: dict[str, Any], text: Text) -> Iterator[str]:
    """A grant: operations, resources, state, deadline and revocations."""
    grant: dict[str, Any] = answer["grant"]
    rights: dict[str, Any] = grant["access"]
    scope = " · ".join(f"{name} {printable(str(value))}" for name, value in sorted(grant["scope"].items()) if value)
    yield text("rights.digest", digest=answer["grant_sha256"])
    yield text("rights.scope", scope=scope)
    operations = [f"{family}.{name}" for family, names in sorted(rights["operations"].items()) for name in names]
    yield text("rights.operations", names=", ".join(operations) or text("rights.none"))
    things = [f"{kind}:{name}" for kind, held in sorted(rights["resources"].items()) for name in held]
    yield text("rights.things", names=printable(", ".join(things)) or text("rights.none"))
    yield text("rights.state", names=", ".join(grant["state_keys"]) or text("rights.none"))
    yield text("rights.steering", answer=text.yes_or_no(rights["steering"]))
    yield text("rights.deadline", seconds=f"{grant['limits']['deadline_s']:g}")
    revoked = revocation(answer.get("revoked") or {}, text)
    yield text("rights.revoked", what=printable(revoked) or text("rights.none"))


app = CommandGroup("runs")


@app.default
@app.command("list")
def list_runs(
    shell: HostShell,
    limit: Limit = _PAGE,
    status: Annotated[str | None, typer.Option("--status", metavar="STATUS", help="runs.status")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="runs.agent")] = None,
) -> int:
    page = shell.get(RUNS.path, limit=page_limit(limit), status=status, agent=agent)
    shell.show_items(page, "runs", _RUNS, none="runs.none")
    if page.get("has_more") and not shell.for_programs:
        shell.print(shell.text("runs.more"))
    return 0


@app.command("show")
def show(shell: HostShell, run: RunId) -> int:
    found = shell.get(RUNS.one(run))
    records, has_more = _read_records(shell, run)
    calls = calls_of(shell.get(RUNS.one(run, "/calls"), limit=PAGE_ITEMS)["items"], records)
    shell.show({**found, "calls": calls}, run_lines(found, shell.text))
    if calls and not shell.for_programs:
        shell.print(shell.text("run_shown.calls"))
        shell.print_table("call", COLUMNS, calls)
    if has_more and not shell.for_programs:
        shell.print(shell.text("run_shown.more_calls", run=run))
    return 0


def _read_records(shell: HostShell, run: str) -> tuple[list[dict[str, Any]], bool]:
    """The first records of a run, and whether there are more."""
    records: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(RECORD_PAGES):
        page = shell.get(RUNS.one(run, "/records"), limit=PAGE_ITEMS, cursor=cursor)
        records += page["items"]
        cursor = page.get("next_cursor")
        if cursor is None:
            return records, False
    return records, True


@app.command("cancel")
def cancel(shell: HostShell, run: RunId) -> int:
    return shell.tell(shell.post(RUNS.one(run, "/cancel")), shell.text("runs.cancelling", run=run))


@app.command("answer")
def answer_question(
    shell: HostShell,
    run: RunId,
    words: Annotated[str, typer.Argument(metavar="ANSWER", help="runs.answer_words")],
    question: Annotated[str | None, typer.Option("--question", metavar="ID", help="runs.answer_question")] = None,
) -> int:
    if question is None:
        asked = shell.get(RUNS.one(run, "/questions"))["items"]
        if not asked:
            raise UsageProblem("error.no_question", "hint.no_question", run=run)
        question = str(asked[0]["question_id"])
    answer = shell.post(RUNS.one(run, f"/questions/{quote(question, safe='')}/answer"), {"answer": words})
    return shell.tell(answer, shell.text("runs.answered", run=run))


@app.command("records")
def records(
    shell: HostShell,
    run: RunId,
    limit: Limit = 100,
    after: Annotated[str, typer.Option("--after", metavar="PLACE", help="runs.after")] = "0",
) -> int:
    page = shell.get(RUNS.one(run, "/records"), limit=page_limit(limit), after=after)
    return shell.show(page, (_record_line(item) for item in page["items"]))


def _record_line(record: dict[str, Any]) -> str:
    data = printable(json.dumps(record["data"], ensure_ascii=False))
    return f"{record['epoch']}.{record['seq']}  {record['type']}  {data}"


@app.command("watch")
def watch(
    shell: HostShell,
    run: RunId,
    after: Annotated[str | None, typer.Option("--after", metavar="PLACE", help="runs.after")] = None,
) -> int:
    from bollard.cli.client.run_stream import FollowedRun, sink_for
    from bollard.cli.terminal.text_renderer import renderer_for

    renderer = renderer_for(shell)
    sink, run_id = sink_for(shell, renderer), quote(run, safe="")
    followed = FollowedRun(shell.client, sink, renderer, shell.text, run_id=run_id, place=after)
    end = shell.run(followed.to_the_end())
    return 0 if end.data.get("status") == "completed" else 1


@app.command("steer")
def steer(
    shell: HostShell,
    run: RunId,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="runs.steer.text")],
    actor: ActorOption = None,
) -> int:
    body: dict[str, Any] = {"input": {"text": text.encode("utf-8", "replace").decode()}, "id": secrets.token_hex(16)}
    if (who := speaker(actor, named=shell.client.is_named)) is not None:
        body["actor"] = who
    answer = shell.post(RUNS.one(run, "/steer"), body)
    key = "runs.steered" if "steering" in answer else "runs.not_steered"
    return shell.tell(answer, shell.text(key, run=answer["run_id"] or answer["event_id"]))


@app.command("explain")
def explain(
    shell: HostShell,
    run: RunId,
    action: Annotated[str | None, typer.Argument(metavar="ACTION", help="runs.explain.action")] = None,
    thing: Annotated[str | None, typer.Argument(metavar="THING", help="runs.explain.thing")] = None,
) -> int:
    found = shell.get(RUNS.one(run, "/explain"), action=action, thing=thing, locale=shell.text.language)
    if action is None and not shell.for_programs:
        shell.print_table("rights", _EXPLAINED, found["items"])
        return 0
    return shell.show(found, (line for item in found["items"] for line in explained(item, shell.text)))


@app.command("grant")
def grant(shell: HostShell, run: RunId) -> int:
    found = shell.get(RUNS.one(run, "/grant"))
    return shell.show(found, granted(found, shell.text))


@app.command("revoke")
def revoke(
    shell: HostShell,
    run: RunId,
    operation: Annotated[
        list[str] | None, typer.Option("--operation", metavar="NAME", help="runs.revoke.operation")
    ] = None,
    resource: Annotated[
        list[str] | None, typer.Option("--resource", metavar="KIND:ID", help="runs.revoke.resource")
    ] = None,
    everything: Annotated[bool, typer.Option("--everything", help="runs.revoke.everything")] = False,
) -> int:
    wanted = {"operations": operation, "resources": _by_kind(resource or []), "everything": everything}
    body = {name: value for name, value in wanted.items() if value}
    if not body:
        raise UsageProblem("error.nothing_revoked", "hint.nothing_revoked", run=run)
    answer = shell.post(RUNS.one(run, "/revoke"), body)
    return shell.tell(answer, shell.text("runs.revoked", run=run, what=revocation(answer["revoked"], shell.text)))


def _by_kind(resources: list[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for given in resources:
        kind, colon, name = given.partition(":")
        if not (kind and colon and name):
            raise UsageProblem("error.resource", "hint.resource", value=given)
        found.setdefault(kind, []).append(name)
    return found
