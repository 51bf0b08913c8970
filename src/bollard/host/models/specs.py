"""The saved model. It names the secret that holds its key and never holds the key."""

from typing import Annotated, Final, Self

import msgspec
from pydantic import Field

from bollard.host.agents.names import ChosenName
from bollard.host.agents.saved_proxy import ProxiedBody
from bollard.host.models.boundary import ModelType, Style
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


class SavedModel(ProxiedBody):
    """The configuration of one model: everything that a call needs except the key."""

    noun = "model"
    model_id: ChosenName
    model_type: ModelType | None = Field(default=None, description="Without it the style decides: llm for most.")
    style: Style = Field(description="The format of the endpoint.")
    base_url: Annotated[str, Field(max_length=URL_CHARACTERS)] = Field(
        default="", description="With the API version: https://api.openai.com/v1."
    )
    model: Annotated[str, Field(max_length=NAME_CHARACTERS)] = Field(
        default="", description="The name of the model at the provider."
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
    extra_args: JsonObject = Field(default_factory=dict, description="Arguments of every call; those of the call win.")
    price: SavedPrice | None = None
    connect_s: _Seconds = 10.0
    first_token_s: _Seconds = 60.0
    idle_s: _Seconds = Field(default=60.0, description="Maximum time between two chunks of an answer.")
    tries: Annotated[Int, Field(ge=1, le=TRIES_MAX)] = Field(
        default=3, description="Maximum attempts of a call; no retry after a part of the answer was emitted."
    )
    at_once: Annotated[Int, Field(ge=1, le=AT_ONCE_MAX)] = 16
    requests_per_minute: _Rate | None = None
    tokens_per_minute: _Rate | None = None
    default: Flag | None = Field(
        default=None,
        description="Whether `default` refers to this model in its workspace. Without it, the model keeps its role; "
        "a new chat model becomes the default if the demo model was.",
    )

    @property
    def served_type(self) -> ModelType:
        return self.model_type or type_of_style(self.style)

    @classmethod
    def read(cls, body: JsonObject) -> Self:
        saved = super().read(body)
        saved._check_type()
        if saved.style != "demo":
            saved._check_endpoint()
        for name, value in saved.headers.items():
            saved._check_header(name, value)
        if len(msgspec.json.encode(saved.extra_args)) > EXTRA_ARGS_BYTES:
            raise cls.invalid(
                "model_extra_args_too_large",
                "extra_args",
                f"is larger than {EXTRA_ARGS_BYTES} bytes",
                "send some of them with the call instead",
                most=EXTRA_ARGS_BYTES,
            )
        if saved.tokens_per_minute is not None and saved.served_type != "llm":
            raise cls.invalid(
                "model_without_tokens",
                "tokens_per_minute",
                f"does not apply to a model of type {saved.served_type}",
                "use requests_per_minute",
                type=saved.served_type,
            )
        if saved.default and saved.served_type != "llm":
            raise cls.invalid(
                "model_default_type",
                "default",
                f"a model of type {saved.served_type} cannot be the default model",
                "choose a chat model",
                type=saved.served_type,
            )
        headers = dict(sorted(saved.headers.items()))
        base_url = saved.base_url.rstrip("/")
        return saved.model_copy(update={"model_type": saved.served_type, "base_url": base_url, "headers": headers})

    def _check_type(self) -> None:
        of_style = type_of_style(self.style)
        if self.style != "demo" and self.served_type != of_style:
            raise self.invalid(
                "model_type_of_style",
                "model_type",
                f"style {self.style} serves models of type {of_style}",
                f"omit it, or use {of_style}",
                style=self.style,
                type=of_style,
            )

    def _check_endpoint(self) -> None:
        for field, value in (("base_url", self.base_url), ("model", self.model)):
            if not value.strip():
                hint = "set base_url with the API version, and the provider's name of the model"
                raise self.invalid("model_field_missing", field, "this field is required", hint)
        check_url(self.base_url)

    def _check_header(self, name: str, value: str) -> None:
        if name.lower() in _OURS:
            hint = "omit it; name the secret of the key in `secret`"
            raise self.invalid("model_header_reserved", f"headers.{name}", "is set by the host", hint)
        if value and any(word in name.lower() for word in _TELLTALES):
            hint = "save it with `bollard secrets set NAME`, and name it in `secret`"
            raise self.invalid("model_header_secret", f"headers.{name}", "looks like a secret in plain text", hint)


def type_of_style(style: Style) -> ModelType:
    """The type of model behind an endpoint of this format. The demo model serves every type."""
    return _TYPES.get(style, "llm")


def provider_of(spec: SavedModel) -> str:
    """The provider name in traces and in the run context."""
    return _PROVIDERS.get(spec.style, "openai")


def check_url(url: str) -> None:
    """Raises `InvalidRequest` for a malformed URL. The egress rules decide whether it may be reached (ADR 0094)."""
    if (problem := url_problem(url, _PROVIDER)) is not None:
        raise SavedModel.invalid(problem.reason, "base_url", problem.message, problem.hint, **problem.details)
