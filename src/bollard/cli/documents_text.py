"""Agents and bindings as a person reads them. What is edited and saved is their JSON; `--json` prints it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from rich.table import Table

from bollard.cli.columns import printable
from bollard.cli.language import Text
from bollard.cli.tables import plain_table

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["agent_lines", "binding_lines", "bindings_table"]


def agent_lines(body: JsonObject, text: Text) -> Iterator[str]:
    """What an agent is and how it is treated, a line for each part of its policy."""
    agent = cast("dict[str, Any]", body)
    policy: dict[str, Any] = agent["policy"]
    label = agent["label"].get(text.language) or agent["label"].get("en_US", "")
    yield text("agents.head", agent=agent["agent_id"], label=printable(label), runner=agent["runner_id"])
    yield text("agents.revision", revision=agent["revision"])
    yield text("agents.access", what=_listed(policy["access"]["permissions"], text))
    yield text("agents.state", what=", ".join(policy["state"]["scopes"]) if policy["state"]["enabled"] else _no(text))
    yield text("agents.concurrency", mode=policy["concurrency"]["mode"], by=policy["concurrency"]["steer_from"])
    gate: dict[str, Any] = policy["gate"]
    who = text("agents.everyone") if gate["talk"] == "everyone" else printable(", ".join(gate["actors"])) or _no(text)
    yield text("agents.gate", who=who)
    yield text("agents.budget", what=_listed(policy["budget"], text))
    yield text("agents.times", deadline=f"{agent['deadline_s']:g}", idle=f"{agent['idle_s']:g}")
    yield text("agents.config", config=printable(json.dumps(agent["config"], ensure_ascii=False)))


def binding_lines(body: JsonObject, text: Text) -> Iterator[str]:
    """Which events a binding takes, and whose they become."""
    binding = cast("dict[str, Any]", body)
    yield text("bindings.head", binding=binding["binding_id"], agent=binding["agent_id"])
    yield text("bindings.scope", what=_scope(binding, text))
    yield text("bindings.filters", what=_filters(binding) or _no(text))
    yield text("bindings.priority", number=binding["priority"])
    yield text("bindings.enabled", answer=text("rights.yes") if binding["enabled"] else text("rights.no"))


def bindings_table(items: Sequence[dict[str, Any]], text: Text) -> Table:
    """One row for each binding, in the order in which the host gives them."""
    table = plain_table()
    for name in ("binding", "agent", "scope", "filters"):
        table.add_column(text(f"bindings.column.{name}"), overflow="fold")
    table.add_column(text("bindings.column.priority"), justify="right")
    table.add_column(text("bindings.column.enabled"))
    for item in items:
        answer = text("rights.yes") if item["enabled"] else text("rights.no")
        cells = (item["binding_id"], item["agent_id"], _scope(item, text), _filters(item))
        table.add_row(*(printable(cell) for cell in cells), str(item["priority"]), answer)
    return table


def _scope(binding: Mapping[str, Any], text: Text) -> str:
    levels = (f"{level} {value}" for level, value in binding["scope"].items())
    return printable(", ".join(levels)) or text("bindings.everywhere")


def _filters(binding: Mapping[str, Any]) -> str:
    return printable(", ".join(f"{item['field']} = {' | '.join(item['values'])}" for item in binding["filters"]))


def _listed(values: Mapping[str, Any], text: Text) -> str:
    """`history: page, search; models: invoke`, or that there is nothing."""
    said = (f"{name}: {_joined(value)}" for name, value in values.items())
    return printable("; ".join(said)) or _no(text)


def _joined(value: list[str] | int) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)


def _no(text: Text) -> str:
    return text("rights.none")
