"""`bollard models …`: the models of a host. A key is a secret, and options contain only its name. Texts of a model are
escaped, so that they cannot imitate the command line."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from bollard.cli.agents.model_lines import MODELS, default_lines, document_of, model_lines, tried_lines
from bollard.cli.command import CommandGroup
from bollard.cli.errors import UsageProblem
from bollard.cli.language import Text
from bollard.cli.options import given_values, one_of, pairs_of
from bollard.cli.shell import HostShell, Shell
from bollard.cli.terminal.columns import Column, printable

_STYLES: Final = ("openai-chat", "openai-responses", "anthropic", "openai-embeddings", "rerank", "demo")
Model = Annotated[str, typer.Argument(metavar="MODEL", help="models.id")]
NewModel = Annotated[str | None, typer.Argument(metavar="MODEL", help="models.new_id")]
PresetName = Annotated[str | None, typer.Option("--preset", metavar="NAME", help="models.preset")]
KeyStdin = Annotated[bool, typer.Option("--key-stdin", help="models.key_stdin")]
KeepFailed = Annotated[bool, typer.Option("--keep", help="models.keep")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Options of a model."""

    style: Annotated[str | None, typer.Option("--style", metavar="|".join(_STYLES), help="models.style")] = None
    base_url: Annotated[str | None, typer.Option("--base-url", metavar="URL", help="models.base_url")] = None
    name: Annotated[str | None, typer.Option("--model", metavar="NAME", help="models.model")] = None
    secret: Annotated[str | None, typer.Option("--secret", metavar="NAME", help="models.secret")] = None
    proxy: Annotated[str | None, typer.Option("--proxy", metavar="URL", help="models.proxy")] = None
    proxy_secret: Annotated[str | None, typer.Option("--proxy-secret", metavar="NAME", help="models.proxy_secret")] = (
        None
    )
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
            "proxy": self.proxy,
            "proxy_secret": self.proxy_secret,
            "context_window": self.context_window,
            "max_output_tokens": self.max_output,
            "at_once": self.at_once,
            "requests_per_minute": self.per_minute,
            "price": self._price(),
        }
        style = {} if self.style is None else {"style": one_of("--style", self.style, _STYLES)}
        return {
            **style,
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
    return model["model_id"] + (f" ({text('models.marked_default')})" if model["is_default"] else "")


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
def add(
    shell: HostShell,
    options: ModelOptions,
    model: NewModel = None,
    preset: PresetName = None,
    key_stdin: KeyStdin = False,
    keep: KeepFailed = False,
) -> int:
    if preset is not None:
        from bollard.cli.agents.preset_model import PresetModel
        from bollard.host.models.presets import presets

        known = presets()
        chosen = known[one_of("--preset", preset, tuple(known))]
        return PresetModel(shell, preset, chosen, model or preset).add(
            options.document(), key_stdin=key_stdin, keep=keep
        )
    if model is None or key_stdin or keep:
        raise UsageProblem("error.models_without_preset", "hint.models_without_preset")
    document = {"style": _STYLES[0], **options.document()}
    if document["style"] != "demo" and not {"base_url", "model"} <= document.keys():
        raise UsageProblem("error.models_address", "hint.models_without_preset")
    saved = shell.put(MODELS.one(model), document)
    return shell.tell(saved, shell.text("models.added", model=model), *default_lines(saved, shell.text))


@app.command("default")
def choose_default(shell: HostShell, model: Model) -> int:
    saved = shell.put(MODELS.one(model), {**document_of(shell.get(MODELS.one(model))), "default": True})
    wins = [shell.text("models.not_default", model=printable(model))] if not saved["is_default"] else []
    return shell.tell(saved, *wins, *default_lines(saved, shell.text))


@app.command("presets")
def list_presets(shell: Shell) -> int:
    from bollard.host.models.presets import presets

    items = [
        {"preset": name, "label": each.label, "style": each.style, "base_url": each.base_url}
        | given_values({"model": each.model, "secret": each.secret})
        | ({"other_urls": list(each.other_urls)} if each.other_urls else {})
        for name, each in presets().items()
    ]
    columns = (Column("preset", "preset"), Column("address", "base_url"))  # more do not fit into 80 columns
    return shell.show_items({"items": items}, "models", columns)


@app.command("test")
def try_model(shell: HostShell, model: Model) -> int:
    tried = shell.post(MODELS.one(model, "/test"))
    shell.show(tried, tried_lines(tried, shell.text))
    return 0 if tried["ok"] else 1


app.add_delete(MODELS, ("model", Model), "remove")
