"""Chooses the language and reads its texts from the JSON files of `cli/text`.

A folder of `text` is a language. Its files hold the messages by key. Its folder `reasons` holds the errors of the host
by `code.reason`, and by code alone for a reason without a text. Languages have the same keys and fields; English has no
`reasons`, because the host speaks English.
"""

import json
import re
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

LANGUAGES: Final = ("en_US", "zh_Hans")
_TEXTS: Final = Path(__file__).with_name("text")


def read_texts(folder: str) -> dict[str, Any]:
    """The texts in the files of a folder, such as `zh_Hans/reasons`. A test makes sure that no key stands in two."""
    texts: dict[str, Any] = {}
    for path in _TEXTS.joinpath(folder).glob("*.json"):
        texts |= json.loads(path.read_bytes())
    return texts


class Text:
    """The texts of one language: a message by key, with its fields filled in."""

    def __init__(self, language: str) -> None:
        self.language = language
        self._messages: Mapping[str, str] = read_texts(language)

    @cached_property
    def _reasons(self) -> Mapping[str, Mapping[str, str]]:
        return read_texts(f"{self.language}/reasons")

    @cached_property
    def _sentences(self) -> Mapping[str, str]:
        return read_texts(f"{self.language}/sentences")

    def __call__(self, key: str, /, **fields: object) -> str:
        return self._messages[key].format(**fields)

    def __contains__(self, key: object) -> bool:
        return key in self._messages

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
                return known["message"].format(**details), known["hint"].format(**details)
            except KeyError:
                pass
        return self.of_host(message, code), self.advice_of_host(hint, code)

    def of_host(self, sentence: str, code: str = "") -> str:
        """A sentence of the host in this language; an unknown one is shown after the meaning of its code."""
        return self._translate(sentence, code, "message")

    def advice_of_host(self, hint: str, code: str = "") -> str:
        """A hint of the host in this language; an unknown one is shown after the advice for its code."""
        return self._translate(hint, code, "hint")

    def _translate(self, sentence: str, code: str, part: str) -> str:
        if sentence in self._sentences:
            return self._sentences[sentence]
        for template, own in self._sentences.items():
            if "{" in template and (found := pattern_of(template).fullmatch(sentence)):
                return own.format(**found.groupdict())
        return f"{self._reasons[code][part]} ({sentence})" if code in self._reasons else sentence


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


@cache
def load_text(language: str) -> Text:
    """The texts of a language of `LANGUAGES`."""
    return Text(language)
