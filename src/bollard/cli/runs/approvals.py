"""`bollard approvals …`: lists, shows and decides approvals."""

import sys
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from bollard.cli.client.documents import Resource
from bollard.cli.command import CommandGroup
from bollard.cli.language import Text
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import Column, printable
from bollard.cli.terminal.times import second_of

APPROVALS: Final = Resource(path="/api/v1/approvals", key="approval_id")
ApprovalId = Annotated[str, typer.Argument(metavar="APPROVAL", help="approvals.id")]
Yes = Annotated[bool, typer.Option("--yes", help="approvals.yes")]
_PAGE: Final = 100
_COLUMNS: Final = (
    Column("approval", "approval_id", no_wrap=True),
    Column("tool", "capability"),
    Column("agent", "agent_id"),
    Column("risk", lambda approval, text: text(f"approvals.risk.{approval['risk']}")),
    Column("state", lambda approval, text: text(f"approvals.state.{approval['status']}")),
    Column("until", lambda approval, _: second_of(approval["expires_at"])),
)

app = CommandGroup("approvals")


@app.default
def list_requested(shell: HostShell) -> int:
    return list_approvals(shell, "requested")


@app.command("list")
def list_approvals(
    shell: HostShell,
    status: Annotated[str | None, typer.Option("--status", metavar="STATUS", help="approvals.status")] = None,
) -> int:
    return shell.show_items(
        shell.get(APPROVALS.path, limit=_PAGE, status=status), "approvals", _COLUMNS, none="approvals.none"
    )


@app.command("show")
def show(
    shell: HostShell,
    approval: ApprovalId,
    content: Annotated[int | None, typer.Option("--content", metavar="N", help="approvals.content")] = None,
) -> int:
    if content is not None:
        return _show_content(shell, approval, content)
    found = _read(shell, approval)
    return shell.show(found, approval_lines(found, shell.text))


@app.command("allow")
def allow(
    shell: HostShell,
    approval: ApprovalId,
    run: Annotated[bool, typer.Option("--run", help="approvals.run")] = False,
    unseen: Annotated[bool, typer.Option("--unseen", help="approvals.unseen")] = False,
    digest: Annotated[str | None, typer.Option("--digest", metavar="SHA256", help="approvals.digest")] = None,
    yes: Yes = False,
) -> int:
    return _decide(shell, approval, "allow_run" if run else "allow_once", digest, yes=yes, unseen=unseen)


@app.command("deny")
def deny(
    shell: HostShell,
    approval: ApprovalId,
    stop: Annotated[bool, typer.Option("--stop", help="approvals.stop")] = False,
    yes: Yes = False,
) -> int:
    return _decide(shell, approval, "deny_stop" if stop else "deny", None, yes=yes, unseen=False)


def _decide(shell: HostShell, approval: str, decision: str, digest: str | None, *, yes: bool, unseen: bool) -> int:
    """Decide the approval that was shown. The host refuses the decision if the approval has changed."""
    found = _read(shell, approval)
    if not shell.for_programs:
        shell.show(found, approval_lines(found, shell.text))
        # The host refuses a caller without the right to decide. The prompt would only delay that error.
        asks = found["status"] == "requested" and "refusal" not in found and not yes and sys.stdin.isatty()
        question = shell.text(f"approvals.confirm.{decision}")
        if asks and typer.prompt(question, default="", show_default=False) not in ("y", "yes"):
            shell.print(shell.text("approvals.undecided"))
            return 1
    body: dict[str, Any] = {"decision": decision, "digest": digest or found["digest"]}
    if found["display"]["attached"] and decision.startswith("allow"):
        body["inspected"] = not unseen
    answer = shell.post(APPROVALS.one(approval, "/decide"), body)
    return shell.tell(answer, shell.text(f"approvals.decided.{decision}", name=printable(found["name"])))


def _read(shell: HostShell, approval: str) -> dict[str, Any]:
    return shell.get(APPROVALS.one(approval), locale=shell.text.language)


def _show_content(shell: HostShell, approval: str, number: int) -> int:
    """The complete content, because the decision confirms that it was seen."""
    line = 0
    while True:
        page = shell.get(APPROVALS.one(approval, f"/contents/{number}"), line=line, limit=_PAGE)
        shell.show(page, (printable(each) for each in page["lines"]))
        line += len(page["lines"])
        if line >= page["total"] or not page["lines"]:
            return 0


def approval_lines(found: dict[str, Any], text: Text) -> Iterator[str]:
    """Every line after a label of the host, so that content cannot imitate a label."""
    status = text(f"approvals.state.{found['status']}")
    yield text("approvals.head", approval=found["approval_id"], status=status)
    if found["status"] == "requested":
        yield text("approvals.until", at=second_of(found["expires_at"]))
    part = ""
    for line in found["display"]["lines"]:
        if line["part"] != part and line["part"] != "about":
            yield text("approvals.part", label=printable(line["label"]))
        part = line["part"]
        name = printable(line["label"] if part == "about" else line["place"])
        yield f"  {name} | {printable(line['text'])}"
        for note in line.get("notes", []):
            yield f"  {name} ! {text(f'approvals.note.{note}')}"
    for content in found["display"]["attached"]:
        yield text("approvals.open", approval=found["approval_id"], number=content["number"])
    if "by" in found:
        yield text("approvals.by", by=printable(found["by"]), at=second_of(found["decided_at"]))
