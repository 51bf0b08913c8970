"""What a run may do and why, as a person reads it. The reasons come from the host, in the reader's language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

from rich.table import Table
from rich.text import Text as Styled

from bollard.cli.columns import printable
from bollard.cli.language import Text
from bollard.cli.records import taken_away
from bollard.cli.tables import plain_table

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["explained", "explained_table", "granted"]


def explained(item: dict[str, Any], text: Text) -> Iterator[str]:
    """One answer, and everyone who had a part in it on a line of their own."""
    what = printable(" ".join(part for part in (item["action"], item.get("thing")) if part))
    if item["allowed"]:
        yield text("rights.may", what=what)
    else:
        yield text("rights.may_not", what=what, code=item["code"])
    for reason in item["reasons"]:
        key = f"layer.{reason['layer']}"
        layer = text(key) if key in text else reason["layer"]
        yield "  " + text("rights.reason", layer=layer, reason=printable(reason["text"]))


def explained_table(items: Sequence[dict[str, Any]], text: Text) -> Table:
    """Every action with its answer; of a yes the last word is enough, of a no the reason."""
    table = plain_table()
    for name in ("action", "thing", "may"):
        table.add_column(text(f"rights.column.{name}"), no_wrap=name != "thing", overflow="fold")
    table.add_column(text("rights.column.why"), overflow="fold")
    for item in items:
        may = Styled(text("rights.yes"), "green") if item["allowed"] else Styled(text("rights.no"), "yellow")
        why = "" if item["allowed"] else " ".join(printable(reason["text"]) for reason in item["reasons"])
        table.add_row(printable(item["action"]), printable(item.get("thing") or ""), may, why)
    return table


def granted(answer: JsonObject, text: Text) -> Iterator[str]:
    """A grant in a few lines: what may be done, with what, whose state, for how long, and what was taken since."""
    grant = cast("dict[str, Any]", answer["grant"])
    rights: dict[str, Any] = grant["access"]
    scope = " · ".join(f"{name} {printable(str(value))}" for name, value in sorted(grant["scope"].items()) if value)
    yield text("rights.digest", digest=answer["grant_sha256"])
    yield text("rights.scope", scope=scope)
    operations = [f"{family}.{name}" for family, names in sorted(rights["operations"].items()) for name in names]
    yield text("rights.operations", names=", ".join(operations) or text("rights.none"))
    things = [f"{kind}:{name}" for kind, held in sorted(rights["resources"].items()) for name in held]
    yield text("rights.things", names=printable(", ".join(things)) or text("rights.none"))
    yield text("rights.state", names=", ".join(grant["state_keys"]) or text("rights.none"))
    yield text("rights.steering", answer=text("rights.yes") if rights["steering"] else text("rights.no"))
    yield text("rights.deadline", seconds=f"{grant['limits']['deadline_s']:g}")
    revoked = taken_away(cast("JsonObject", answer.get("revoked") or {}), text)
    yield text("rights.revoked", what=printable(revoked) or text("rights.none"))
