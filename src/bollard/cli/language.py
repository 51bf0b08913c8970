"""Which language to speak, and the catalogue of its sentences. Holds no sentence itself."""

import importlib
from collections.abc import Mapping
from typing import Final

__all__ = ["LANGUAGES", "Text", "choose_language", "load_text"]

LANGUAGES: Final = ("en_US", "zh_Hans")


class Text:
    """The catalogue of one language: a sentence by key, with its fields filled in."""

    def __init__(self, language: str, templates: Mapping[str, str]) -> None:
        self.language = language
        self._templates = templates

    def __call__(self, key: str, /, **fields: object) -> str:
        return self._templates[key].format(**fields)

    def __contains__(self, key: object) -> bool:
        return key in self._templates


def choose_language(environment: Mapping[str, str]) -> str:
    """What the environment asks for; English where it asks for nothing that is known."""
    asked = environment.get("BOLLARD_LANG", "")
    if asked in LANGUAGES:
        return asked
    # POSIX: LC_ALL overrules LANG. C and POSIX are no languages, they ask for nothing.
    locale = environment.get("LC_ALL") or environment.get("LANG") or ""
    return "zh_Hans" if locale.startswith("zh") else "en_US"


def load_text(language: str) -> Text:
    """The catalogue of a language of `LANGUAGES`."""
    module = importlib.import_module(f"bollard.cli.text.{language}")
    return Text(language, module.TEXT)
