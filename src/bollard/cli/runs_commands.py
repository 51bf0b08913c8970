"""`bollard runs …`: lists, shows, watches and stops runs of a host. What they may do is in `run_rights_commands`."""

import os
import sys
from typing import Annotated, Any, cast
from urllib.parse import quote, urlencode

import typer

from bollard.cli.app import Command, Group
from bollard.cli.columns import printable
from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import TokenOption, UrlOption, find_host
from bollard.cli.run_rights_commands import RunId, run_path
from bollard.cli.run_rights_commands import app as rights
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(cls=Group, help="runs", rich_markup_mode=None, add_completion=False, invoke_without_command=True)

Limit = Annotated[int, typer.Option("--limit", metavar="N", help="runs.limit")]
_PAGE = 20


@app.callback()
def runs(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, {"limit": str(_PAGE)}, url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="runs.list")
def list_runs(
    ctx: typer.Context,
    limit: Limit = _PAGE,
    status: Annotated[str | None, typer.Option("--status", metavar="STATUS", help="runs.status")] = None,
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="runs.agent")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    query = {"limit": _counted(limit), "status": status, "agent": agent}
    return _list(ctx.obj, {name: value for name, value in query.items() if value is not None}, url, token)


@app.command("show", cls=Command, help="runs.show")
def show(ctx: typer.Context, run: RunId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    found = asyncio.run(find_host(url, token, os.environ).get(run_path(run)))
    if shell.for_programs:
        shell.print_json(found)
    else:
        from bollard.cli.runs_text import run_lines

        for line in run_lines(found, shell.text):
            shell.print(line)
    return 0


@app.command("cancel", cls=Command, help="runs.cancel")
def cancel(ctx: typer.Context, run: RunId, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell: Shell = ctx.obj
    answer = asyncio.run(find_host(url, token, os.environ).post(run_path(run, "/cancel"), {}))
    return shell.tell(answer, shell.text("runs.cancelling", run=run))


@app.command("answer", cls=Command, help="runs.answer")
def answer(
    ctx: typer.Context,
    run: RunId,
    words: Annotated[str, typer.Argument(metavar="ANSWER", help="runs.answer_words")],
    question: Annotated[str | None, typer.Option("--question", metavar="ID", help="runs.answer_question")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell: Shell = ctx.obj
    host = find_host(url, token, os.environ)
    if question is None:
        page = asyncio.run(host.get(run_path(run, "/questions")))
        asked = cast("list[dict[str, Any]]", page["items"])
        if not asked:
            raise UsageProblem("error.no_question", "hint.no_question", run=run)
        question = str(asked[0]["question_id"])
    path = run_path(run, f"/questions/{quote(question, safe='')}/answer")
    told = asyncio.run(host.post(path, {"answer": words}))
    return shell.tell(told, shell.text("runs.answered", run=run))


@app.command("records", cls=Command, help="runs.records")
def records(
    ctx: typer.Context,
    run: RunId,
    limit: Limit = 100,
    after: Annotated[str, typer.Option("--after", metavar="PLACE", help="runs.after")] = "0",
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell: Shell = ctx.obj
    query = urlencode({"limit": _counted(limit), "after": after})
    page = asyncio.run(find_host(url, token, os.environ).get(run_path(run, f"/records?{query}")))
    if shell.for_programs:
        shell.print_json(page)
        return 0
    import json

    for item in cast("list[dict[str, Any]]", page["items"]):
        data = printable(json.dumps(item["data"], ensure_ascii=False))
        shell.print(f"{item['epoch']}.{item['seq']}  {item['type']}  {data}")
    return 0


@app.command("watch", cls=Command, help="runs.watch")
def watch(
    ctx: typer.Context,
    run: RunId,
    after: Annotated[str | None, typer.Option("--after", metavar="PLACE", help="runs.after")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    from bollard.cli.following import FollowedRun
    from bollard.cli.records import RecordLines, ShownRecords
    from bollard.cli.rendering import renderer_for

    shell: Shell = ctx.obj
    renderer, text = renderer_for(shell), shell.text
    sink = RecordLines(sys.stdout) if shell.for_programs else ShownRecords(renderer, text)
    followed = FollowedRun(
        find_host(url, token, os.environ),
        sink,
        run_id=quote(run, safe=""),
        place=after,
        lost=lambda detail: renderer.note(text("chat.lost", detail=detail)),
        resumed=lambda: renderer.note(text("chat.resumed")),
    )
    end = asyncio.run(followed.to_the_end())
    return 0 if end.data.get("status") == "completed" else 1


app.add_typer(rights)


def _counted(limit: int) -> str:
    if not 1 <= limit <= 100:
        raise UsageProblem("error.limit", "hint.limit", option="--limit", value=limit)
    return str(limit)


def _list(shell: Shell, query: dict[str, str], url: str | None, token: str | None) -> int:
    import asyncio

    page = asyncio.run(find_host(url, token, os.environ).get(f"/api/v1/runs?{urlencode(query)}"))
    if shell.for_programs:
        shell.print_json(page)
        return 0
    items = cast("list[dict[str, Any]]", page["items"])
    if not items:
        shell.print(shell.text("runs.none"))
        return 0
    from bollard.cli.runs_table import runs_table

    shell.console().print(runs_table(items, shell.text))
    if page.get("has_more"):
        shell.print(shell.text("runs.more"))
    return 0
