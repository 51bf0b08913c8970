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
    table = plain_table()
    table.add_column(text("runs.column.run"), no_wrap=True)
    for name in ("agent", "status", "created"):
        table.add_column(text(f"runs.column.{name}"), overflow="fold")
    table.add_column(text("runs.column.seconds"), justify="right")
    for item in items:
        status, finished = item["status"], item.get("finished_at")
        reason = item.get("status_reason") or status
        said = text(key) if (key := f"status.{reason}") in text else reason
        table.add_row(
            printable(item["run_id"]),
            printable(item["agent_id"]),
            Styled(printable(said), _STYLES.get(status, "")),
            f"{datetime.fromtimestamp(item['created_at']).astimezone():%m-%d %H:%M}",
            "" if finished is None else f"{finished - item['created_at']:.2f}",
        )
    return table
