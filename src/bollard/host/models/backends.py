"""From a model's description to something that can be called.

The one place that knows all styles. Each is loaded by name when the first model of it is called: an idle host pays for
none of them.
"""

import importlib
from typing import Any, Final

from bollard.host.egress.places import Place
from bollard.host.errors import InvalidRequest
from bollard.host.models.arguments import check_arguments
from bollard.host.models.boundary import ModelBackend, ModelSpec, Style
from bollard.host.models.connection import Connections
from bollard.host.models.endpoint import Endpoint
from bollard.host.models.retrying import Retrying
from bollard.host.models.talking import Talker

__all__ = ["open_backend"]

_FORMATS: Final[dict[Style, tuple[str, str]]] = {
    "openai-chat": ("openai_chat", "OpenAiChat"),
    "openai-responses": ("openai_responses", "OpenAiResponses"),
    "anthropic": ("anthropic", "Anthropic"),
}
_OTHERS: Final[dict[Style, tuple[str, str]]] = {
    "openai-embeddings": ("openai_embeddings", "Embedder"),
    "rerank": ("rerank", "Reranker"),
}


def open_backend(spec: ModelSpec) -> ModelBackend:
    """Nothing is connected yet. Raises `InvalidRequest` for a description that no call could keep to."""
    if spec.style == "demo":
        return _named("demo", "DemoBackend")(spec)
    check_arguments(spec)
    try:
        place = Place.of(spec.base_url)
    except ValueError as error:
        raise InvalidRequest(
            f"base_url {error}", hint="use something like https://api.example.org/v1", field="base_url"
        ) from error
    endpoint = Endpoint(spec, Connections(place, spec.connect_s))
    if spec.style in _FORMATS:
        return Retrying(Talker(endpoint, _named(*_FORMATS[spec.style])(spec)), spec.tries)
    return Retrying(_named(*_OTHERS[spec.style])(endpoint, spec), spec.tries)


def _named(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"bollard.host.models.{module}"), name)
