"""`bollard bindings …`: lists, shows, saves and deletes bindings."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from bollard.cli.client.documents import BINDINGS
from bollard.cli.command import CommandGroup
from bollard.cli.language import Text
from bollard.cli.terminal.columns import Column, printable

BindingId = Annotated[str, typer.Argument(metavar="ID", help="bindings.id")]


def binding_lines(binding: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of a binding."""
    yield text("bindings.head", binding=binding["binding_id"], agent=binding["agent_id"])
    yield text("bindings.scope", what=_scope(binding, text))
    yield text("bindings.filters", what=_filters(binding, text) or text("rights.none"))
    yield text("bindings.priority", number=binding["priority"])
    yield text("bindings.enabled", answer=text.yes_or_no(binding["enabled"]))


def _scope(binding: dict[str, Any], text: Text) -> str:
    levels = (f"{level} {value}" for level, value in binding["scope"].items())
    return printable(", ".join(levels)) or text("bindings.everywhere")


def _filters(binding: dict[str, Any], text: Text) -> str:
    del text
    return printable(", ".join(f"{item['field']} = {' | '.join(item['values'])}" for item in binding["filters"]))


app = CommandGroup("bindings")
app.add_list(
    BINDINGS,
    (
        Column("binding", "binding_id"),
        Column("agent", "agent_id"),
        Column("scope", _scope),
        Column("filters", _filters),
        Column("priority", "priority", right=True),
        Column("enabled", lambda binding, text: text.yes_or_no(binding["enabled"])),
    ),
    none="bindings.none",
)
app.add_show(BINDINGS, ("binding", BindingId), binding_lines)
app.add_save(
    BINDINGS, lambda saved, text: [text("bindings.saved", binding=saved["binding_id"], agent=saved["agent_id"])]
)
app.add_delete(BINDINGS, ("binding", BindingId))
