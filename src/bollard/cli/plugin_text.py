"""Plugins of a host as a person reads them: a table, one in full, what it asks for, the lines of its log."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.table import Table

from bollard.cli.columns import printable
from bollard.cli.language import Text
from bollard.cli.tables import plain_table

__all__ = ["asked_lines", "change_lines", "log_line", "plugin_lines", "plugins_table"]

_DIGEST_SHOWN = 12


def plugins_table(items: Sequence[dict[str, Any]], text: Text) -> Table:
    """One row for each plugin."""
    table = plain_table()
    for name in ("plugin", "version", "origin", "status", "digest"):
        table.add_column(text(f"plugins.column.{name}"), overflow="fold")
    for item in items:
        cells = (item["plugin_id"], item["version"] or "", item["origin"], item["status"], _short(item["digest"]))
        table.add_row(*(printable(cell) for cell in cells))
    return table


def plugin_lines(plugin: dict[str, Any], text: Text) -> Iterator[str]:
    """Everything that is known of one plugin."""
    yield text("plugins.head", plugin=plugin["plugin_id"], version=plugin["version"] or "", origin=plugin["origin"])
    yield text("plugins.status", status=plugin["status"], processes=_processes(plugin["processes"], text))
    if plugin["problem"]:
        yield text("plugins.problem", problem=printable(plugin["problem"]))
    for problem in plugin["problems"]:
        yield text("plugins.problem", problem=printable(problem))
    if plugin["digest"]:
        yield text("plugins.digest", digest=plugin["digest"], source=printable(plugin["source"]))
    if plugin["asks"] is not None:
        yield from asked_lines(plugin["asks"], text)
    yield text("plugins.crashes", crashes=plugin["crashes"], recent=plugin["recent_crashes"])
    if plugin["leaving_runs"]:
        yield text("plugins.leaving", count=plugin["leaving_runs"])
    for version in plugin["earlier"]:
        yield text("plugins.earlier", version=version["version"], digest=_short(version["digest"]))


def asked_lines(asks: dict[str, Any], text: Text) -> Iterator[str]:
    """What a plugin asks for, a line for each runner, then its variables and tools."""
    for name, permissions in asks["runners"].items():
        yield text("plugins.runner", name=name, what=", ".join(permissions) or text("rights.none"))
    if asks["env"]:
        yield text("plugins.env", names=", ".join(asks["env"]))
    for name, risk in asks["tools"].items():
        yield text("plugins.tool", name=name, risk=risk)


def change_lines(change: dict[str, Any]) -> Iterator[str]:
    """What is new and what is gone, marked as in a patch."""
    yield from (f"  + {printable(line)}" for line in change["added"])
    yield from (f"  - {printable(line)}" for line in change["removed"])


def log_line(line: dict[str, Any]) -> str:
    """One line of a log: when, who says it, what."""
    at = datetime.fromtimestamp(line["at_ms"] / 1000, tz=UTC).strftime("%H:%M:%S")
    said = printable(line["text"])
    mark = line["kind"] if line["kind"] != "log" else line["level"]
    return f"{at} {mark:<7} {said}"


def _processes(processes: Iterable[dict[str, Any]], text: Text) -> str:
    shown = [_worker(each["pid"], text) + (f" ({each['runs']})" if each["runs"] else "") for each in processes]
    return ", ".join(shown) or text("rights.none")


def _worker(pid: int | None, text: Text) -> str:
    return text("plugins.elsewhere") if pid is None else str(pid)


def _short(digest: str | None) -> str:
    return "" if digest is None else digest[:_DIGEST_SHOWN]
