"""A list of runs as a person reads it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from rich.table import Table
from rich.text import Text as Styled

from bollard.cli.columns import printable
from bollard.cli.language import Text
from bollard.cli.tables import plain_table

__all__ = ["runs_table"]

_STYLES: Final = {"completed": "green", "failed": "red", "timeout": "red", "cancelled": "yellow"}


def runs_table(items: Sequence[dict[str, Any]], text: Text) -> Table:
    """Newest first, as the host gives them; times are the reader's."""
    names = ("run", "agent", "status", "reason", "created")
    table = plain_table(*(text(f"runs.column.{name}") for name in names))
    table.add_column(text("runs.column.seconds"), justify="right")
    for item in items:
        key = f"status.{item['status']}"
        created = datetime.fromtimestamp(item["created_at"]).astimezone()
        finished = item.get("finished_at")
        table.add_row(
            printable(item["run_id"]),
            printable(item["agent_id"]),
            Styled(text(key) if key in text else printable(item["status"]), _STYLES.get(item["status"], "")),
            printable(item.get("status_reason") or ""),
            created.isoformat(sep=" ", timespec="seconds")[:19],
            "" if finished is None else f"{finished - item['created_at']:.2f}",
        )
    return table
