"""`bollard hooks …`: lists, shows, creates, saves, tests and deletes webhook routes, and lists their last requests."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bollard.cli.client.documents import HOOKS
from bollard.cli.command import CommandGroup
from bollard.cli.errors import UsageProblem
from bollard.cli.language import Text
from bollard.cli.options import given_values, one_of, pairs_of
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import Column, printable, shorten, styled
from bollard.cli.terminal.times import second_of

if TYPE_CHECKING:
    from rich.text import Text as Styled

HookId = Annotated[str, typer.Argument(metavar="ROUTE", help="hooks.id")]
_VERIFIERS: Final = ("standard", "github", "gitlab", "stripe", "slack", "bearer")
"""The verifiers that need nothing but a secret; the others are saved as a document."""
_STYLES: Final = {"accepted": "green", "refused": "red", "failed": "red"}
_SHOWN_CHARACTERS: Final = 500


def _agent(hook: dict[str, Any], text: Text) -> str:
    return hook.get("agent") or text("hooks.by_binding")


def hook_lines(hook: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of a webhook route."""
    yield text("hooks.head", hook=hook["hook_id"], verifier=hook["verifier"]["kind"])
    yield text("hooks.agent_line", agent=_agent(hook, text))
    yield text("hooks.enabled", answer=text.yes_or_no(hook["enabled"]))
    if hook["topics"]:
        yield text("hooks.topics", topics=printable(", ".join(hook["topics"])))
    for field, template in {**hook["event"], "dedupe": hook.get("dedupe")}.items():
        if isinstance(template, str):
            yield text("hooks.template", field=field, template=printable(template))
    yield text("hooks.answer", mode=hook["answer"]["mode"])
    yield text("hooks.limits", size=hook["max_bytes"], rate=hook["requests_per_minute"])


def _saved_lines(hook: dict[str, Any], text: Text) -> Iterator[str]:
    yield text("hooks.saved", hook=hook["hook_id"], revision=hook["revision"])
    if hook.get("secret", "__kept__") != "__kept__":
        yield text("hooks.secret", secret=hook["secret"])


def _outcome(delivery: dict[str, Any], text: Text) -> Styled:
    outcome = delivery["outcome"]
    return styled(text(f"hooks.outcome.{outcome}"), _STYLES.get(outcome, ""))


app = CommandGroup("hooks")
app.add_list(
    HOOKS,
    (
        Column("hook", "hook_id"),
        Column("verifier", lambda hook, _: hook["verifier"]["kind"]),
        Column("agent", _agent),
        Column("enabled", lambda hook, text: text.yes_or_no(hook["enabled"])),
    ),
    none="hooks.none",
)
app.add_show(HOOKS, ("hook", HookId), hook_lines)


@app.command("new")
def new(
    shell: HostShell,
    hook: HookId,
    verifier: Annotated[str, typer.Option("--verifier", metavar="KIND", help="hooks.verifier")],
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="hooks.agent")] = None,
    message: Annotated[str | None, typer.Option("--message", metavar="TEMPLATE", help="hooks.text")] = None,
    secret_file: Annotated[
        str | None, typer.Option("--secret-file", metavar="FILE|-", help="hooks.secret_file")
    ] = None,
) -> int:
    body = {
        "verifier": {"kind": one_of("--verifier", verifier, _VERIFIERS)},
        "agent": agent,
        "event": None if message is None else {"text": message},
        "secret": None if secret_file is None else _text_of(secret_file).removesuffix("\n").removesuffix("\r"),
        "revision": 0,
    }
    saved = shell.put(HOOKS.one(hook), given_values(body))
    url = f"{shell.client.address}/hooks/{hook}"
    return shell.show({**saved, "url": url}, [*_saved_lines(saved, shell.text), shell.text("hooks.url", url=url)])


app.add_save(HOOKS, _saved_lines)
app.add_delete(HOOKS, ("hook", HookId))


@app.command("test")
def send_sample(
    shell: HostShell,
    hook: HookId,
    sample: Annotated[str, typer.Option("--sample", metavar="FILE|-", help="hooks.sample")],
    header: Annotated[list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="hooks.header")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="hooks.dry_run")] = False,
) -> int:
    headers = dict(pairs_of(header, "error.hook_header", "hint.hook_header"))
    body = {"body": _text_of(sample), "headers": headers, "dry_run": dry_run}
    tested = shell.post(HOOKS.one(hook, "/test"), body)
    return shell.show(tested, _tested_lines(tested, shell.text))


def _tested_lines(tested: dict[str, Any], text: Text) -> Iterator[str]:
    event: dict[str, Any] = tested["event"]
    yield text("hooks.event", type=printable(event.pop("type")), topic=printable(event.pop("topic", None) or "-"))
    for field, value in event.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield text("hooks.event_field", field=field, value=printable(shorten(shown, _SHOWN_CHARACTERS)))
    if (answer := tested["answer"]) is None:
        yield text("hooks.not_sent")
    else:
        body = printable(shorten(answer["body"], _SHOWN_CHARACTERS))
        yield text("hooks.answered", status=answer["status"], body=body)


_DELIVERIES: Final = (
    Column("received", lambda delivery, _: second_of(delivery["received_at"])),
    Column("outcome", _outcome),
    Column("reason", "reason"),
    Column("topic", "topic"),
    Column("run", "run_id"),
)


@app.command("deliveries")
def deliveries(shell: HostShell, hook: HookId) -> int:
    page = shell.get(HOOKS.one(hook, "/deliveries"))
    return shell.show_items(page, "hooks", _DELIVERIES, none="hooks.nothing_came")


def _text_of(path: str) -> str:
    """The text of a file, or of stdin for `-`. Raises `UsageProblem`."""
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem("error.document", "hint.hook_file", path=path, detail=error) from error
