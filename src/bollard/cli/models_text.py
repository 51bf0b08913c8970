"""Models as a person reads them. What a model said is shown such that it cannot pretend to be the command line."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.table import Table

from bollard.cli.columns import printable
from bollard.cli.language import Text
from bollard.cli.tables import plain_table

__all__ = ["model_lines", "models_table", "tried_lines"]


def models_table(items: Sequence[dict[str, Any]], text: Text) -> Table:
    """One line for each; the one that `default` stands for has a mark."""
    table = plain_table()
    for column in ("id", "type", "style", "model", "origin"):
        table.add_column(text(f"models.column.{column}"), overflow="fold")
    for item in items:
        mark = f" ({text('models.default')})" if item["is_default"] else ""
        table.add_row(
            printable(item["model_id"]) + mark,
            item["model_type"],
            item["style"],
            printable(item["model"]),
            text(f"models.origin.{item['origin']}"),
        )
    return table


def model_lines(item: dict[str, Any], text: Text) -> Iterator[str]:
    """Everything about one."""
    yield text("models.head", model=printable(item["model_id"]), type=item["model_type"], style=item["style"])
    if "alias_of" in item:
        yield text("models.alias", model=printable(item["alias_of"]))
    if item["base_url"]:
        yield text("models.asks", name=printable(item["model"]), url=printable(item["base_url"]))
    if "secret" in item:
        yield text("models.key", secret=printable(item["secret"]))
    if "context_window" in item:
        yield text("models.window", tokens=item["context_window"])
    if "price" in item:
        price = item["price"]
        yield text("models.price", input=price["input"], output=price["output"], currency=price["currency"])
    yield text("models.origin", origin=text(f"models.origin.{item['origin']}"))


def tried_lines(tried: dict[str, Any], text: Text) -> Iterator[str]:
    """What came of a test."""
    model, took = printable(tried["model_id"]), f"{tried['latency_ms']:.0f}"
    if not tried["ok"]:
        yield text("models.failed", model=model, reason=printable(tried["reason"]), problem=printable(tried["message"]))
        if tried["hint"]:
            yield text("models.hint", hint=printable(tried["hint"]))
        return
    yield text("models.answered", model=model, ms=took)
    if "words" in tried:
        yield text("models.words", words=printable(tried["words"]))
    if "dimensions" in tried:
        yield text("models.dimensions", count=tried["dimensions"])
