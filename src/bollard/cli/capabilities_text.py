"""What agents can do, and why, as a person reads it. The reasons come from the host, in the reader's language.

Names and descriptions come from whoever offers a tool, so nothing hidden in them stays hidden.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text as Styled

from bollard.cli.language import Text
from bollard.cli.tables import plain_table
from bollard.host.approvals.visible import visible

__all__ = ["explained", "explained_table", "offered_table"]

_CALL: Final = "tools.call"
_STYLES: Final = {"high": "yellow", "critical": "red"}


def offered_table(items: Sequence[dict[str, Any]], text: Text) -> Table:
    """One row for each capability; of one that cannot be offered now, the reason."""
    table = plain_table()
    table.add_column(text("capabilities.column.capability"), no_wrap=True)  # to be copied
    for name in ("risk", "flow", "about"):
        table.add_column(text(f"capabilities.column.{name}"), overflow="fold")
    for item in items:
        if item["available"]:
            about = visible(item["description"].partition("\n")[0])
            table.add_row(visible(item["id"]), _risk(item["risk"], text), _flow(item["flow"], text), about)
        else:
            reason = text("capabilities.absent", reason=visible(item["reason"]))
            table.add_row(visible(item["id"]), "", "", Styled(reason, "yellow"))
    return table


def explained_table(items: Sequence[dict[str, Any]], text: Text) -> Table:
    """Everything that an agent asks for; of a yes its name is enough, of a no the reason."""
    table = plain_table()
    table.add_column(text("capabilities.column.capability"), no_wrap=True)
    for name in ("name", "can", "why"):
        table.add_column(text(f"capabilities.column.{name}"), overflow="fold")
    for item in items:
        can = _CALL in item["operations"] or item.get("code") is None
        answer = Styled(text("rights.yes"), "green") if can else Styled(text("rights.no"), "yellow")
        why = "" if can else " ".join(visible(reason["text"]) for reason in item["reasons"])
        name = item.get("name", "") if _CALL in item["operations"] else ""
        table.add_row(visible(item["id"]), visible(name), answer, why)
    return table


def explained(item: dict[str, Any], text: Text) -> Iterator[str]:
    """One answer, and everyone who had a part in it on a line of their own."""
    capability = visible(item["id"])
    if _CALL in item["operations"]:
        yield text("capabilities.can", capability=capability, name=visible(item["name"]))
    elif item.get("code") is None:
        yield text("capabilities.has", capability=capability)
    else:
        yield text("capabilities.cannot", capability=capability, code=item["code"])
    for reason in item["reasons"]:
        key = f"layer.{reason['layer']}"
        layer = text(key) if key in text else reason["layer"]
        yield "  " + text("rights.reason", layer=layer, reason=visible(reason["text"]))


def _risk(risk: str, text: Text) -> Styled:
    key = f"capabilities.risk.{risk}"
    return Styled(text(key) if key in text else risk, _STYLES.get(risk, ""))


def _flow(flow: dict[str, bool], text: Text) -> str:
    known = ("reads_private", "brings_untrusted", "sends_out")
    return ", ".join(text(f"capabilities.flow.{name}") for name in known if flow.get(name))
