"""Reads and writes saved models. A saved model names the secret of its key and never holds the key."""

from typing import Annotated, Final

import msgspec
from pydantic import Field, ValidationError

from bollard.host.agents.names import ChosenName
from bollard.host.agents.saved_body import refusal
from bollard.host.errors import InvalidRequest
from bollard.host.models.boundary import ModelSpec, ModelType, Price, Style
from bollard.host.models.limits import (
    AT_ONCE_MAX,
    EXTRA_ARGS_BYTES,
    HEADER_CHARACTERS,
    HEADERS,
    NAME_CHARACTERS,
    PER_MINUTE_MAX,
    PRICE_MAX,
    SECONDS_MAX,
    TOKENS_MAX,
    TRIES_MAX,
    URL_CHARACTERS,
)
from bollard.host.secrets.references import NAME_PATTERN
from bollard.protocol import Flag, Int, JsonObject, Number, Strict
from bollard.wire.addresses import AddressKind, url_problem

_HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$", max_length=128)]
_HeaderValue = Annotated[str, Field(max_length=HEADER_CHARACTERS, pattern=r"^[\x20-\x7e]*$")]
_Seconds = Annotated[Number, Field(gt=0, le=SECONDS_MAX)]
_Tokens = Annotated[Int, Field(ge=1, le=TOKENS_MAX)]
_Rate = Annotated[Int, Field(ge=1, le=PER_MINUTE_MAX)]
_OfMillion = Annotated[Number, Field(ge=0, le=PRICE_MAX)]
_OURS: Final = frozenset(
    {
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "accept",
        "content-type",
        "authorization",
        "x-api-key",
    }
)
"""Headers that the host writes itself."""
_TELLTALES: Final = ("token", "secret", "passw", "credential", "key", "cookie", "auth")
_TYPES: Final[dict[Style, ModelType]] = {"openai-embeddings": "embedding", "rerank": "rerank"}
_PROVIDERS: Final[dict[Style, str]] = {"anthropic": "anthropic", "demo": "bollard", "rerank": "rerank"}
_PROVIDER: Final = AddressKind(
    of="provider", example="https://api.example.org/v1", has_query=False, instead="name the key as a secret"
)


class SavedPrice(Strict):
    """Price of a million tokens."""

    input: _OfMillion = 0.0
    output: _OfMillion = 0.0
    cached_input: _OfMillion | None = None
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = "USD"


class SavedModel(Strict):
    """`PUT /api/v1/models/{model_id}`."""

    model_id: ChosenName
    model_type: ModelType | None = Field(default=None, description="Without it the style says it: llm for most.")
    style: Style = Field(description="The format that the endpoint speaks.")
    base_url: Annotated[str, Field(max_length=URL_CHARACTERS)] = Field(
        default="", description="With the version in it: https://api.openai.com/v1."
    )
    model: Annotated[str, Field(max_length=NAME_CHARACTERS)] = Field(
        default="", description="The provider's own name for it."
    )
    secret: Annotated[str, Field(pattern=NAME_PATTERN)] | None = Field(
        default=None, description="The name of the secret that holds the key."
    )
    headers: Annotated[dict[_HeaderName, _HeaderValue], Field(max_length=HEADERS)] = Field(
        default_factory=dict[str, str]
    )
    context_window: _Tokens | None = None
    max_output_tokens: _Tokens | None = None
    vision: Flag = False
    extra_args: JsonObject = Field(default_factory=dict, description="Arguments of every call.")
    price: SavedPrice | None = None
    connect_s: _Seconds = 10.0
    first_token_s: _Seconds = 60.0
    idle_s: _Seconds = 60.0
    tries: Annotated[Int, Field(ge=1, le=TRIES_MAX)] = 3
    at_once: Annotated[Int, Field(ge=1, le=AT_ONCE_MAX)] = 16
    requests_per_minute: _Rate | None = None
    tokens_per_minute: _Rate | None = None
    revision: Int | None = Field(default=None, ge=0, description="The revision that was edited.")


def model_from_wire(body: JsonObject) -> ModelSpec:
    """Raises `InvalidRequest`."""
    try:
        saved = SavedModel.from_wire(body)
    except ValidationError as error:
        raise refusal(error, "model") from error
    of_style = type_of_style(saved.style)
    model_type = saved.model_type or of_style
    if saved.style != "demo" and model_type != of_style:
        raise _invalid(
            "model_type",
            f"style {saved.style} serves models of type {of_style}",
            f"omit it, or use {of_style}",
            reason="model_type_of_style",
            style=saved.style,
            type=of_style,
        )
    if saved.style != "demo":
        _check_endpoint(saved)
    for name, value in saved.headers.items():
        _check_header(name, value)
    if len(msgspec.json.encode(saved.extra_args)) > EXTRA_ARGS_BYTES:
        raise _invalid(
            "extra_args",
            f"is larger than {EXTRA_ARGS_BYTES} bytes",
            "send some of them with the call instead",
            reason="model_extra_args_too_large",
            most=EXTRA_ARGS_BYTES,
        )
    if saved.tokens_per_minute is not None and model_type != "llm":
        raise _invalid(
            "tokens_per_minute",
            f"does not apply to a model of type {model_type}",
            "use requests_per_minute",
            reason="model_without_tokens",
            type=model_type,
        )
    return ModelSpec(
        model_id=saved.model_id,
        model_type=model_type,
        style=saved.style,
        base_url=saved.base_url.rstrip("/"),
        model=saved.model,
        secret=saved.secret,
        headers=tuple(sorted(saved.headers.items())),
        context_window=saved.context_window,
        max_output_tokens=saved.max_output_tokens,
        vision=saved.vision,
        extra_args=saved.extra_args,
        price=None if saved.price is None else _price(saved.price),
        connect_s=saved.connect_s,
        first_token_s=saved.first_token_s,
        idle_s=saved.idle_s,
        tries=saved.tries,
        at_once=saved.at_once,
        requests_per_minute=saved.requests_per_minute,
        tokens_per_minute=saved.tokens_per_minute,
    )


def _price(saved: SavedPrice) -> Price:
    return Price(input=saved.input, output=saved.output, cached_input=saved.cached_input, currency=saved.currency)


def model_to_wire(spec: ModelSpec) -> JsonObject:
    """The inverse of `model_from_wire`; unknown values are left out."""
    body: JsonObject = {
        "model_id": spec.model_id,
        "model_type": spec.model_type,
        "style": spec.style,
        "base_url": spec.base_url,
        "model": spec.model,
        "secret": spec.secret,
        "headers": dict(spec.headers),
        "context_window": spec.context_window,
        "max_output_tokens": spec.max_output_tokens,
        "vision": spec.vision,
        "extra_args": spec.extra_args,
        "price": None if spec.price is None else price_to_wire(spec.price),
        "connect_s": spec.connect_s,
        "first_token_s": spec.first_token_s,
        "idle_s": spec.idle_s,
        "tries": spec.tries,
        "at_once": spec.at_once,
        "requests_per_minute": spec.requests_per_minute,
        "tokens_per_minute": spec.tokens_per_minute,
    }
    return {name: value for name, value in body.items() if value is not None}


def price_to_wire(price: Price) -> JsonObject:
    body: JsonObject = {"input": price.input, "output": price.output, "currency": price.currency}
    return body if price.cached_input is None else {**body, "cached_input": price.cached_input}


def type_of_style(style: Style) -> ModelType:
    """The type of model behind an endpoint of this format. The demo model serves every type."""
    return _TYPES.get(style, "llm")


def provider_of(spec: ModelSpec) -> str:
    """The provider name in traces and in the run context."""
    return _PROVIDERS.get(spec.style, "openai")


def check_url(url: str) -> None:
    """Raises `InvalidRequest` for a malformed URL. The egress rules decide whether it may be reached (ADR 0094)."""
    if (found := url_problem(url, _PROVIDER)) is not None:
        problem, hint = found
        raise _invalid("base_url", problem, hint, reason="model_base_url_invalid", problem=problem, advice=hint)


def _check_endpoint(saved: SavedModel) -> None:
    for field, value in (("base_url", saved.base_url), ("model", saved.model)):
        if not value.strip():
            raise _invalid(
                field,
                "this field is required",
                "set base_url with the API version, and the provider's name of the model",
                reason="model_field_missing",
            )
    check_url(saved.base_url)


def _check_header(name: str, value: str) -> None:
    if name.lower() in _OURS:
        raise _invalid(
            f"headers.{name}",
            "is set by the host",
            "omit it; name the secret of the key in `secret`",
            reason="model_header_reserved",
        )
    if value and any(word in name.lower() for word in _TELLTALES):
        raise _invalid(
            f"headers.{name}",
            "looks like a secret in plain text",
            "save it with `bollard secrets set NAME`, and name it in `secret`",
            reason="model_header_secret",
        )


def _invalid(where: str, message: str, hint: str, *, reason: str, **details: str | int) -> InvalidRequest:
    field = f"model.{where}"
    return InvalidRequest(f"{field}: {message}", hint=hint, reason=reason, field=field, **details)
