"""Channels and deliveries as a person reads them. What is edited and saved is their JSON; `--json` prints it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, cast

from rich.table import Table
from rich.text import Text as Styled

from bollard.cli.columns import printable
from bollard.cli.language import Text
from bollard.cli.tables import plain_table

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["channel_lines", "channels_table", "deliveries_table"]

_STYLES: Final = {"sent": "green", "failed": "red", "unknown": "yellow"}


def channel_lines(body: JsonObject, text: Text) -> Iterator[str]:
    """What a channel is and what it can do."""
    channel = cast("dict[str, Any]", body)
    able: dict[str, Any] = channel["abilities"]
    yield text("channels.head", channel=channel["channel_id"], kind=channel["kind"])
    yield text("channels.url", url=printable(channel.get("url") or text("channels.no_url")))
    yield text("channels.enabled", answer=text("rights.yes") if channel["enabled"] else text("rights.no"))
    yield text(f"channels.dedupe.{able['dedupe']}")
    can = [name for name in ("streaming", "edit", "reaction") if able[f"supports_{name}"]]
    yield text("channels.abilities", what=", ".join(can) or text("rights.none"))
    yield text("channels.size", size=able.get("max_message_size") or text("rights.none"))


def channels_table(items: Sequence[dict[str, Any]], text: Text) -> Table:
    """One row for each channel."""
    table = plain_table()
    for name in ("channel", "kind", "url", "enabled"):
        table.add_column(text(f"channels.column.{name}"), overflow="fold")
    for item in items:
        answer = text("rights.yes") if item["enabled"] else text("rights.no")
        url = item.get("url") or text("channels.no_url")
        table.add_row(printable(item["channel_id"]), printable(item["kind"]), printable(url), answer)
    return table


def deliveries_table(items: Sequence[dict[str, Any]], text: Text) -> Table:
    """One row for each message, newest first; times are the reader's."""
    table = plain_table()
    for name in ("created", "channel", "target", "run", "status", "reason"):
        table.add_column(text(f"channels.column.{name}"), overflow="fold")
    for item in items:
        status = item["status"]
        table.add_row(
            f"{datetime.fromtimestamp(item['created_at']).astimezone():%m-%d %H:%M}",
            printable(item["channel_id"]),
            printable(item["target"]),
            printable(item["run_id"]),
            Styled(text(f"channels.status.{status}"), _STYLES.get(status, "")),
            printable(item["reason"] or ""),
        )
    return table
