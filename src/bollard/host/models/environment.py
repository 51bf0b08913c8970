"""Models that the environment of the host names, the way that other programs find theirs. Read once, at the start."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bollard.host.errors import InvalidRequest, SettingsError
from bollard.host.models.boundary import ModelSpec
from bollard.host.models.specs import check_url

__all__ = ["EnvironmentModel", "models_of_environment"]

_OPENAI_MODEL: Final = "gpt-4o-mini"
_ANTHROPIC_URL: Final = "https://api.anthropic.com/v1"
_ANTHROPIC_MODEL: Final = "claude-sonnet-4-5"


@dataclass(frozen=True, slots=True)
class EnvironmentModel:
    """One model, and its key, which is in no store."""

    spec: ModelSpec
    key: str | None = field(default=None, repr=False)


def models_of_environment(environment: Mapping[str, str]) -> tuple[EnvironmentModel, ...]:
    """`OPENAI_BASE_URL` makes `openai`, `ANTHROPIC_API_KEY` makes `anthropic`. Raises `SettingsError`."""
    said = {name: value.strip() for name, value in environment.items() if value.strip()}
    found: list[EnvironmentModel] = []
    if "OPENAI_BASE_URL" in said:
        spec = ModelSpec(
            model_id="openai",
            model_type="llm",
            style="openai-chat",
            base_url=_address("OPENAI_BASE_URL", said["OPENAI_BASE_URL"]),
            model=said.get("OPENAI_MODEL", _OPENAI_MODEL),
            vision=True,
        )
        found.append(EnvironmentModel(spec, said.get("OPENAI_API_KEY")))
    if "ANTHROPIC_API_KEY" in said:
        spec = ModelSpec(
            model_id="anthropic",
            model_type="llm",
            style="anthropic",
            base_url=_address("ANTHROPIC_BASE_URL", said.get("ANTHROPIC_BASE_URL", _ANTHROPIC_URL)),
            model=said.get("ANTHROPIC_MODEL", _ANTHROPIC_MODEL),
            vision=True,
        )
        found.append(EnvironmentModel(spec, said["ANTHROPIC_API_KEY"]))
    return tuple(found)


def _address(name: str, url: str) -> str:
    try:
        check_url(url)
    except InvalidRequest as error:
        raise SettingsError(f"{name}: {error.message}", hint=error.hint, field=name) from error
    return url.rstrip("/")
