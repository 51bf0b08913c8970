"""Chooses the language and loads its catalogue."""

import importlib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

LANGUAGES: Final = ("en_US", "zh_Hans")
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_NO_REASONS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType({})


class Text:
    """The catalogue of one language: a sentence by key, with its fields filled in."""

    def __init__(
        self,
        language: str,
        templates: Mapping[str, str],
        host: Mapping[str, str] = _NOTHING,
        codes: Mapping[str, str] = _NOTHING,
        advice: Mapping[str, str] = _NOTHING,
        reasons: Mapping[str, tuple[str, str]] = _NO_REASONS,
    ) -> None:
        self.language = language
        self._templates = templates
        self._host = host
        self._codes = codes
        self._advice = advice
        self._reasons = reasons

    def __call__(self, key: str, /, **fields: object) -> str:
        return self._templates[key].format(**fields)

    def __contains__(self, key: object) -> bool:
        return key in self._templates

    def known(self, key: str, otherwise: str) -> str:
        """The text of a key that is built from a value of the host; `otherwise` if there is none."""
        return self(key) if key in self else otherwise

    def yes_or_no(self, answer: object) -> str:
        return self("rights.yes" if answer else "rights.no")

    def host_error(self, code: str, details: Mapping[str, object], message: str, hint: str) -> tuple[str, str]:
        """The sentence and the hint of an error of the host, found by code and `details.reason`. An unknown error is
        shown unchanged, after the meaning of its code."""
        known = self._reasons.get(f"{code}.{details.get('reason', '')}")
        if known is not None:
            try:
                return known[0].format(**details), known[1].format(**details)
            except KeyError:
                pass
        return self.of_host(message, code), self.advice_of_host(hint, code)

    def of_host(self, sentence: str, code: str = "") -> str:
        """A sentence of the host in this language; an unknown one is shown after the meaning of its code."""
        return self._translate(sentence, code, self._codes)

    def advice_of_host(self, hint: str, code: str = "") -> str:
        """A hint of the host in this language; an unknown one is shown after the advice for its code."""
        return self._translate(hint, code, self._advice)

    def _translate(self, sentence: str, code: str, by_code: Mapping[str, str]) -> str:
        if sentence in self._host:
            return self._host[sentence]
        for template, own in self._host.items():
            if "{" in template and (found := pattern_of(template).fullmatch(sentence)):
                return own.format(**found.groupdict())
        return f"{by_code[code]} ({sentence})" if code in by_code else sentence


def pattern_of(template: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """A pattern that matches a sentence and captures its fields."""
    pieces = re.split(r"\{(\w+)\}", template)
    body = "".join(f"(?P<{piece}>.+)" if at % 2 else re.escape(piece) for at, piece in enumerate(pieces))
    return re.compile(body, flags)


def choose_language(environment: Mapping[str, str]) -> str:
    """The language of the environment; English by default."""
    language = environment.get("BOLLARD_LANG", "")
    if language in LANGUAGES:
        return language
    # POSIX: LC_ALL overrides LANG. C and POSIX name no language.
    locale = environment.get("LC_ALL") or environment.get("LANG") or ""
    return "zh_Hans" if locale.startswith("zh") else "en_US"


def load_text(language: str) -> Text:
    """The catalogue of a language of `LANGUAGES`."""
    module = importlib.import_module(f"bollard.cli.text.{language}")
    return Text(language, module.TEXT, module.HOST, module.CODES, module.ADVICE, module.REASONS)
