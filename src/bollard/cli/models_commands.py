"""`bollard models …`: the models of a host. Keys are secrets, and only their names are given here."""

from typing import TYPE_CHECKING, Annotated, Any, Final, cast
from urllib.parse import quote

import typer

from bollard.cli.app import Command, Group
from bollard.cli.choices import one_of
from bollard.cli.documents import DocumentKind
from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import TokenOption, UrlOption, at_host
from bollard.cli.listing import listed
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["app"]

app = typer.Typer(cls=Group, help="models", rich_markup_mode=None, add_completion=False, invoke_without_command=True)

MODELS = DocumentKind(path="/api/v1/models", key="model_id")
_STYLES: Final = ("openai-chat", "openai-responses", "anthropic", "openai-embeddings", "rerank", "demo")
_FAILED: Final = 1
Model = Annotated[str, typer.Argument(metavar="MODEL", help="models.id")]


@app.callback()
def models(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token) if ctx.invoked_subcommand is None else 0


@app.command("list", cls=Command, help="models.list")
def list_models(ctx: typer.Context, url: UrlOption = None, token: TokenOption = None) -> int:
    return _list(ctx.obj, url, token)


@app.command("show", cls=Command, help="models.show")
def show(ctx: typer.Context, model: Model, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    return _shown(shell, asyncio.run(MODELS.get(client, model)))


@app.command("add", cls=Command, help="models.add")
def add(
    ctx: typer.Context,
    model: Model,
    style: Annotated[str, typer.Option("--style", metavar="|".join(_STYLES), help="models.style")] = "openai-chat",
    base_url: Annotated[str | None, typer.Option("--base-url", metavar="URL", help="models.base_url")] = None,
    name: Annotated[str | None, typer.Option("--model", metavar="NAME", help="models.model")] = None,
    secret: Annotated[str | None, typer.Option("--secret", metavar="NAME", help="models.secret")] = None,
    header: Annotated[list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="models.header")] = None,
    context_window: Annotated[
        int | None, typer.Option("--context-window", metavar="TOKENS", help="models.context_window")
    ] = None,
    max_output: Annotated[int | None, typer.Option("--max-output", metavar="TOKENS", help="models.max_output")] = None,
    vision: Annotated[bool, typer.Option("--vision", help="models.vision")] = False,
    price_input: Annotated[float | None, typer.Option("--price-input", metavar="N", help="models.price_input")] = None,
    price_output: Annotated[
        float | None, typer.Option("--price-output", metavar="N", help="models.price_output")
    ] = None,
    price_cached: Annotated[
        float | None, typer.Option("--price-cached", metavar="N", help="models.price_cached")
    ] = None,
    currency: Annotated[str, typer.Option("--currency", metavar="CODE", help="models.currency")] = "USD",
    at_once: Annotated[int | None, typer.Option("--at-once", metavar="N", help="models.at_once")] = None,
    per_minute: Annotated[int | None, typer.Option("--per-minute", metavar="N", help="models.per_minute")] = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    body: JsonObject = {"style": one_of("--style", style, _STYLES), "vision": vision, "headers": _pairs(header)}
    given: JsonObject = {
        "base_url": base_url,
        "model": name,
        "secret": secret,
        "context_window": context_window,
        "max_output_tokens": max_output,
        "at_once": at_once,
        "requests_per_minute": per_minute,
        "price": _price(price_input, price_output, price_cached, currency),
    }
    body |= {field: value for field, value in given.items() if value is not None}
    saved = asyncio.run(MODELS.put(client, model, body))
    return shell.tell(saved, shell.text("models.added", model=model))


@app.command("test", cls=Command, help="models.test")
def try_model(ctx: typer.Context, model: Model, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    tried = cast("dict[str, Any]", asyncio.run(client.post(f"{MODELS.path}/{quote(model, safe='')}/test", {})))
    if shell.for_programs:
        shell.print_json(tried)
    else:
        from bollard.cli.models_text import tried_lines

        for line in tried_lines(_told(tried, shell), shell.text):
            shell.print(line)
    return 0 if tried["ok"] else _FAILED


@app.command("remove", cls=Command, help="models.remove")
def remove(ctx: typer.Context, model: Model, url: UrlOption = None, token: TokenOption = None) -> int:
    import asyncio

    shell, client = at_host(ctx, url, token)
    answer = asyncio.run(MODELS.delete(client, model))
    return shell.tell(answer, shell.text("models.removed", model=model))


def _told(tried: dict[str, Any], shell: Shell) -> dict[str, Any]:
    """What came of a test, with what the host says about it in the reader's language."""
    if tried["ok"]:
        return tried
    of_host = shell.text.of_host
    return {**tried, "message": of_host(tried["message"], tried["reason"]), "hint": of_host(tried["hint"])}


def _pairs(given: list[str] | None) -> "JsonObject":
    found: JsonObject = {}
    for each in given or []:
        name, equals, value = each.partition("=")
        if not name or not equals:
            raise UsageProblem("error.models_pair", "hint.models_pair", word=each)
        found[name] = value
    return found


def _price(sent: float | None, said: float | None, cached: float | None, currency: str) -> "JsonObject | None":
    if sent is None and said is None and cached is None:
        return None
    price: JsonObject = {"input": sent or 0.0, "output": said or 0.0, "currency": currency}
    return price if cached is None else {**price, "cached_input": cached}


def _shown(shell: Shell, found: "JsonObject") -> int:
    if shell.for_programs:
        return shell.tell(found)
    from bollard.cli.models_text import model_lines

    return shell.tell(found, *model_lines(cast("dict[str, Any]", found), shell.text))


def _list(shell: Shell, url: str | None, token: str | None) -> int:
    items = listed(shell, MODELS, url, token)
    if not items:
        return 0
    from bollard.cli.models_text import models_table

    shell.console().print(models_table(items, shell.text))
    return 0
