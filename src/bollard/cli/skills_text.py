"""Skills as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from rich.table import Table

from bollard.cli.columns import printable
from bollard.cli.language import Text
from bollard.cli.tables import plain_table

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["skill_lines", "skills_table"]


def skill_lines(body: JsonObject, text: Text) -> Iterator[str]:
    """What a skill is for, which files it has, what it wants, and its text."""
    skill = cast("dict[str, Any]", body)
    yield text("skills.head", skill=printable(skill["skill_id"]), description=printable(skill["description"]))
    yield text("skills.version", version=skill["version"][:12], count=len(skill["versions"]))
    if skill["authored"]:
        yield text("skills.authored", by=printable(skill["versions"][0]["by"]))
    if skill["requested_tools"]:
        yield text("skills.wishes", tools=", ".join(map(printable, skill["requested_tools"])))
    for file in skill["files"]:
        yield text("skills.file", path=printable(file["path"]), size=file["size"])
    yield ""
    for line in str(skill["text"]).splitlines():
        yield printable(line)


def skills_table(items: Sequence[dict[str, Any]], text: Text) -> Table:
    """One row for each skill, those that cannot be used with why."""
    table = plain_table()
    for name in ("skill", "source", "version", "about"):
        table.add_column(text(f"skills.column.{name}"), overflow="fold")
    for item in items:
        about = item["description"] if item["usable"] else text("skills.unusable", reason=item["problem"])
        version = (item["version"] or "")[:12]
        table.add_row(printable(item["skill_id"]), printable(item["source"]), version, printable(about))
    return table
