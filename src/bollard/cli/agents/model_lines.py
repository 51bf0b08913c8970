"""What people read about a model and its test, and the document that saves it."""

from collections.abc import Iterator
from typing import Any, Final

from bollard.cli.client.documents import Resource
from bollard.cli.language import Text
from bollard.cli.terminal.columns import printable

MODELS: Final = Resource(path="/api/v1/models", key="model_id")
_SHOWN_ONLY: Final = frozenset({"provider", "origin", "is_default", "alias_of", "revision"})
"""Fields of an answer that a saved document does not have."""


def model_lines(item: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of one model."""
    yield text("models.head", model=printable(item["model_id"]), type=item["model_type"], style=item["style"])
    if "alias_of" in item:
        yield text("models.alias", model=printable(item["alias_of"]))
    if item["base_url"]:
        yield text("models.asks", name=printable(item["model"]), url=printable(item["base_url"]))
    if "secret" in item:
        yield text("models.key", secret=printable(item["secret"]))
    if "proxy" in item:
        yield text("models.through", proxy=printable(item["proxy"]))
    if "context_window" in item:
        yield text("models.window", tokens=item["context_window"])
    if "price" in item:
        price = item["price"]
        yield text("models.price", input=price["input"], output=price["output"], currency=price["currency"])
    yield text("models.origin", origin=text(f"models.origin.{item['origin']}"))


def tried_lines(tried: dict[str, Any], text: Text) -> Iterator[str]:
    """The outcome of a test."""
    model, took = printable(tried["model_id"]), f"{tried['latency_ms']:.0f}"
    if not tried["ok"]:
        why = {"problem": tried["message"], "cause": tried["cause"]}
        inner = tried["cause"]["details"]  # the hint of a cause says more
        problem, hint = text.problem(why), text.remedy(inner if "cause" in inner else why, tried["hint"])
        yield text("models.failed", model=model, reason=printable(tried["reason"]), problem=printable(problem))
        if "base_url" in tried:
            key = "models.address_status" if "status" in tried else "models.address"
            yield text(key, url=printable(tried["base_url"]), status=tried.get("status", ""))
        if hint:
            yield text("models.hint", hint=printable(hint))
        return
    yield text("models.answered", model=model, ms=took)
    if "words" in tried:
        yield text("models.words", words=printable(tried["words"]))
    if "dimensions" in tried:
        yield text("models.dimensions", count=tried["dimensions"])


def default_lines(saved: dict[str, Any], text: Text) -> Iterator[str]:
    """Says that a saved model is the default one."""
    if saved["is_default"]:
        yield text("models.is_default", model=printable(saved["model_id"]))


def document_of(shown: dict[str, Any]) -> dict[str, Any]:
    """The document to save again. Its revision makes the host refuse it if the model changed since."""
    return {name: value for name, value in shown.items() if name not in _SHOWN_ONLY} | {"revision": shown["revision"]}
