"""`bollard approvals …`: what agents ask people to allow, shown as the host shows it, and decided."""

import os
import sys
from typing import Annotated, Any, cast
from urllib.parse import quote, urlencode

import typer

from bollard.cli.app import Command, Group
from bollard.cli.columns import printable
from bollard.cli.host_client import HostClient, TokenOption, UrlOption, find_host
from bollard.cli.moments import second_of
from bollard.cli.shell import Shell

__all__ = ["app"]

app = typer.Typer(cls=Group, help="approvals", rich_markup_mode=None, add_completion=False, invoke_without_command=True)

ApprovalId = Annotated[str, typer.Argument(metavar="APPROVAL", help="approvals.id")]
Yes = Annotated[bool, typer.Option("--yes", help="approvals.yes")]
_PATH = "/api/v1/approvals"
_PAGE = 100


@app.callback()
def approvals(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, "requested", url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="approvals.list")
def list_approvals(
    ctx: typer.Context,
    status: Annotated[str | None, typer.Option("--status", metavar="STATUS", help="approvals.status")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    return _list(ctx.obj, status, url, token)


@app.command("show", cls=Command, help="approvals.show")
def show(
    ctx: typer.Context,
    approval: ApprovalId,
    content: Annotated[int | None, typer.Option("--content", metavar="N", help="approvals.content")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell, client = cast("Shell", ctx.obj), find_host(url, token, os.environ)
    if content is not None:
        asyncio.run(_print_content(shell, client, approval, content))
        return 0
    found = asyncio.run(_read(shell, client, approval))
    if shell.for_programs:
        shell.print_json(found)
    else:
        _print(shell, found)
    return 0


@app.command("allow", cls=Command, help="approvals.allow")
def allow(
    ctx: typer.Context,
    approval: ApprovalId,
    run: Annotated[bool, typer.Option("--run", help="approvals.run")] = False,
    unseen: Annotated[bool, typer.Option("--unseen", help="approvals.unseen")] = False,
    digest: Annotated[str | None, typer.Option("--digest", metavar="SHA256", help="approvals.digest")] = None,
    yes: Yes = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    decision = "allow_run" if run else "allow_once"
    return _decide(ctx.obj, find_host(url, token, os.environ), approval, decision, digest, yes=yes, unseen=unseen)


@app.command("deny", cls=Command, help="approvals.deny")
def deny(
    ctx: typer.Context,
    approval: ApprovalId,
    stop: Annotated[bool, typer.Option("--stop", help="approvals.stop")] = False,
    yes: Yes = False,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    decision = "deny_stop" if stop else "deny"
    return _decide(ctx.obj, find_host(url, token, os.environ), approval, decision, None, yes=yes, unseen=False)


def _decide(
    shell: Shell,
    client: HostClient,
    approval: str,
    decision: str,
    digest: str | None,
    *,
    yes: bool,
    unseen: bool,
) -> int:
    """Decide what is shown here and now: the host refuses it where it is not what it has."""
    import asyncio

    found = asyncio.run(_read(shell, client, approval))
    if not shell.for_programs:
        _print(shell, found)
        asks = found["status"] == "requested" and not yes and sys.stdin.isatty()
        if asks and not _confirmed(shell, decision):
            shell.print(shell.text("approvals.undecided"))
            return 1
    body: dict[str, Any] = {"decision": decision, "digest": digest or found["digest"]}
    if found["display"]["attached"] and decision.startswith("allow"):
        body["inspected"] = not unseen
    answer = asyncio.run(client.post(f"{_one(approval)}/decide", body))
    return shell.tell(answer, shell.text(f"approvals.decided.{decision}", name=printable(found["name"])))


def _confirmed(shell: Shell, decision: str) -> bool:
    return typer.prompt(shell.text(f"approvals.confirm.{decision}"), default="", show_default=False) in ("y", "yes")


async def _read(shell: Shell, client: HostClient, approval: str) -> dict[str, Any]:
    query = urlencode({"locale": shell.text.language})
    return cast("dict[str, Any]", await client.get(f"{_one(approval)}?{query}"))


async def _print_content(shell: Shell, client: HostClient, approval: str, number: int) -> None:
    """All of it: whoever says that they saw it had it before them."""
    line = 0
    while True:
        query = urlencode({"line": line, "limit": _PAGE})
        page = cast("dict[str, Any]", await client.get(f"{_one(approval)}/contents/{number}?{query}"))
        if shell.for_programs:
            shell.print_json(page)
        else:
            for each in page["lines"]:
                shell.print(printable(each))
        line += len(page["lines"])
        if line >= page["total"] or not page["lines"]:
            return


def _print(shell: Shell, found: dict[str, Any]) -> None:
    """Every line behind a label of the host's own, so that no line of the content can be taken for one."""
    text = shell.text
    status = text(f"approvals.state.{found['status']}")
    shell.print(text("approvals.head", approval=found["approval_id"], status=status))
    if found["status"] == "requested":
        shell.print(text("approvals.until", at=second_of(found["expires_at"])))
    part = ""
    for line in found["display"]["lines"]:
        if line["part"] != part and line["part"] != "about":
            shell.print(text("approvals.part", label=printable(line["label"])))
        part = line["part"]
        name = printable(line["label"] if part == "about" else line["place"])
        shell.print(f"  {name} | {printable(line['text'])}")
        for note in line.get("notes", []):
            shell.print(f"  {name} ! {text(f'approvals.note.{note}')}")
    for content in found["display"]["attached"]:
        shell.print(text("approvals.open", approval=found["approval_id"], number=content["number"]))
    if "by" in found:
        shell.print(text("approvals.by", by=printable(found["by"]), at=second_of(found["decided_at"])))


def _one(approval: str) -> str:
    return f"{_PATH}/{quote(approval, safe='')}"


def _list(shell: Shell, status: str | None, url: str | None, token: str | None) -> int:
    import asyncio

    query = urlencode({"limit": _PAGE, **({} if status is None else {"status": status})})
    page = asyncio.run(find_host(url, token, os.environ).get(f"{_PATH}?{query}"))
    if shell.for_programs:
        shell.print_json(page)
        return 0
    items, text = cast("list[dict[str, Any]]", page["items"]), shell.text
    if not items:
        shell.print(text("approvals.none"))
        return 0
    from bollard.cli.tables import plain_table

    table = plain_table()
    table.add_column(text("approvals.column.approval"), no_wrap=True)  # to be copied
    for column in ("tool", "agent", "risk", "state", "until"):
        table.add_column(text(f"approvals.column.{column}"), overflow="fold")
    for item in items:
        table.add_row(
            item["approval_id"],
            printable(item["capability"]),
            printable(item["agent_id"]),
            text(f"approvals.risk.{item['risk']}"),
            text(f"approvals.state.{item['status']}"),
            second_of(item["expires_at"]),
        )
    shell.console().print(table)
    return 0
