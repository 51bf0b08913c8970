"""`bollard models …`: the models of a host. A key is a secret, and options contain only its name. Texts of a model are
escaped, so that they cannot imitate the command line."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from bollard.cli.client.documents import Resource
from bollard.cli.command import CommandGroup
from bollard.cli.language import Text
from bollard.cli.options import given_values, one_of, pairs_of
from bollard.cli.shell import HostShell
from bollard.cli.terminal.columns import Column, printable

MODELS: Final = Resource(path="/api/v1/models", key="model_id")
_STYLES: Final = ("openai-chat", "openai-responses", "anthropic", "openai-embeddings", "rerank", "demo")
Model = Annotated[str, typer.Argument(metavar="MODEL", help="models.id")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Options of a model."""

    style: Annotated[str, typer.Option("--style", metavar="|".join(_STYLES), help="models.style")] = "openai-chat"
    base_url: Annotated[str | None, typer.Option("--base-url", metavar="URL", help="models.base_url")] = None
    name: Annotated[str | None, typer.Option("--model", metavar="NAME", help="models.model")] = None
    secret: Annotated[str | None, typer.Option("--secret", metavar="NAME", help="models.secret")] = None
    header: Annotated[list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="models.header")] = None
    context_window: Annotated[
        int | None, typer.Option("--context-window", metavar="TOKENS", help="models.context_window")
    ] = None
    max_output: Annotated[int | None, typer.Option("--max-output", metavar="TOKENS", help="models.max_output")] = None
    vision: Annotated[bool, typer.Option("--vision", help="models.vision")] = False
    price_input: Annotated[float | None, typer.Option("--price-input", metavar="N", help="models.price_input")] = None
    price_output: Annotated[float | None, typer.Option("--price-output", metavar="N", help="models.price_output")] = (
        None
    )
    price_cached: Annotated[float | None, typer.Option("--price-cached", metavar="N", help="models.price_cached")] = (
        None
    )
    currency: Annotated[str, typer.Option("--currency", metavar="CODE", help="models.currency")] = "USD"
    at_once: Annotated[int | None, typer.Option("--at-once", metavar="N", help="models.at_once")] = None
    per_minute: Annotated[int | None, typer.Option("--per-minute", metavar="N", help="models.per_minute")] = None

    def document(self) -> dict[str, Any]:
        """The document to save. Raises `UsageProblem`."""
        given = {
            "base_url": self.base_url,
            "model": self.name,
            "secret": self.secret,
            "context_window": self.context_window,
            "max_output_tokens": self.max_output,
            "at_once": self.at_once,
            "requests_per_minute": self.per_minute,
            "price": self._price(),
        }
        return {
            "style": one_of("--style", self.style, _STYLES),
            "vision": self.vision,
            "headers": dict(pairs_of(self.header, "error.models_pair", "hint.models_pair")),
            **given_values(given),
        }

    def _price(self) -> dict[str, Any] | None:
        prices = {"input": self.price_input, "output": self.price_output, "cached_input": self.price_cached}
        if not given_values(prices):
            return None
        return {"input": 0.0, "output": 0.0, "currency": self.currency, **given_values(prices)}


def _marked_id(model: dict[str, Any], text: Text) -> str:
    """The id, with a mark on the default model."""
    return model["model_id"] + (f" ({text('models.default')})" if model["is_default"] else "")


def model_lines(item: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of one model."""
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
    """The outcome of a test."""
    model, took = printable(tried["model_id"]), f"{tried['latency_ms']:.0f}"
    if not tried["ok"]:
        message = tried["message"]
        problem, hint = text.host_error("model_failed", {"reason": tried["reason"]}, message, tried["hint"])
        problem = problem if message in problem else f"{problem} ({message})"
        yield text("models.failed", model=model, reason=printable(tried["reason"]), problem=printable(problem))
        if hint:
            yield text("models.hint", hint=printable(hint))
        return
    yield text("models.answered", model=model, ms=took)
    if "words" in tried:
        yield text("models.words", words=printable(tried["words"]))
    if "dimensions" in tried:
        yield text("models.dimensions", count=tried["dimensions"])


app = CommandGroup("models")
app.add_list(
    MODELS,
    (
        Column("id", _marked_id),
        Column("type", "model_type"),
        Column("style", "style"),
        Column("model", "model"),
        Column("origin", lambda model, text: text(f"models.origin.{model['origin']}")),
    ),
)
app.add_show(MODELS, ("model", Model), model_lines)


@app.command("add")
def add(shell: HostShell, model: Model, options: ModelOptions) -> int:
    saved = shell.put(MODELS.one(model), options.document())
    return shell.tell(saved, shell.text("models.added", model=model))


@app.command("test")
def try_model(shell: HostShell, model: Model) -> int:
    tried = shell.post(MODELS.one(model, "/test"))
    shell.show(tried, tried_lines(tried, shell.text))
    return 0 if tried["ok"] else 1


app.add_delete(MODELS, ("model", Model), "remove")
