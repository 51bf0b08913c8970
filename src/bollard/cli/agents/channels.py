"""`bollard channels …`: lists, shows, saves and deletes channels, and lists their deliveries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bollard.cli.client.documents import CHANNELS
from bollard.cli.command import CommandGroup
from bollard.cli.language import Text
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import Column, printable, styled
from bollard.cli.terminal.times import minute_of

if TYPE_CHECKING:
    from rich.text import Text as Styled

ChannelId = Annotated[str, typer.Argument(metavar="ID", help="channels.id")]
_STYLES: Final = {"sent": "green", "failed": "red", "unknown": "yellow"}


def _url(channel: dict[str, Any], text: Text) -> str:
    return channel.get("url") or text("channels.no_url")


def channel_lines(channel: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of a channel."""
    able: dict[str, Any] = channel["abilities"]
    yield text("channels.head", channel=channel["channel_id"], kind=channel["kind"])
    yield text("channels.url", url=printable(_url(channel, text)))
    if "proxy" in channel:
        yield text("channels.through", proxy=printable(channel["proxy"]))
    yield text("channels.enabled", answer=text.yes_or_no(channel["enabled"]))
    yield from _rule_lines(channel["rules"], text)
    yield text(f"channels.dedupe.{able['dedupe']}")
    can = [name for name in ("streaming", "edit", "reaction", "buttons", "forms") if able[f"supports_{name}"]]
    yield text("channels.abilities", what=", ".join(can) or text("rights.none"))
    yield text("channels.actions", what=", ".join(channel["actions"]) or text("rights.none"))
    yield text("channels.commands", what=", ".join(f"/{name}" for name in channel["commands"]) or text("rights.none"))
    yield text("channels.agents", what=", ".join(map(printable, channel["agents"])) or text("rights.none"))
    yield text("channels.size", size=able.get("max_message_size") or text("rights.none"))


def _rule_lines(rules: dict[str, Any], text: Text) -> Iterator[str]:
    """Who gets an answer. Lists and words are in the JSON output."""
    yield text("channels.private", answer=text.yes_or_no(rules["private"]))
    yield text(f"channels.rule.groups.{rules['groups']}")
    for name in ("actor_rate", "conversation_rate"):
        if name in rules:
            yield text(f"channels.rule.{name}", limit=rules[name]["per_minute"])
    for name in ("filter_in", "filter_out"):
        if name in rules:
            yield text(f"channels.rule.{name}", count=len(rules[name]["words"]), outcome=rules[name]["outcome"])


def _saved_lines(channel: dict[str, Any], text: Text) -> Iterator[str]:
    yield text("channels.saved", channel=channel["channel_id"], revision=channel["revision"])
    if str(channel["secret"]).startswith("whsec_"):  # only a new channel has one
        yield text("channels.secret", secret=channel["secret"])


def _delivery_status(delivery: dict[str, Any], text: Text) -> Styled:
    status = delivery["status"]
    return styled(text(f"channels.status.{status}"), _STYLES.get(status, ""))


app = CommandGroup("channels")
app.add_list(
    CHANNELS,
    (
        Column("channel", "channel_id"),
        Column("kind", "kind"),
        Column("url", _url),
        Column("enabled", lambda channel, text: text.yes_or_no(channel["enabled"])),
    ),
    none="channels.none",
)
app.add_show(CHANNELS, ("channel", ChannelId), channel_lines)
app.add_save(CHANNELS, _saved_lines)
app.add_delete(CHANNELS, ("channel", ChannelId))

_DELIVERIES: Final = (
    Column("created", lambda delivery, _: minute_of(delivery["created_at"])),
    Column("channel", "channel_id"),
    Column("target", "target"),
    Column("run", "run_id"),
    Column("status", _delivery_status),
    Column("reason", lambda delivery, text: text.quote(delivery["reason"] or "")),
)


@app.command("deliveries")
def deliveries(
    shell: HostShell,
    channel: Annotated[str | None, typer.Option("--channel", metavar="ID", help="channels.only")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=100, help="channels.limit")] = 20,
) -> int:
    page = shell.get("/api/v1/deliveries", limit=limit, channel=channel)
    return shell.show_items(page, "channels", _DELIVERIES, none="channels.nothing_sent")
