"""Chooses the language and reads its texts from the JSON files of `cli/text`.

A folder of `text` is a language. Its files hold the messages by key. Its folder `reasons` holds the errors of the host
by `code.reason`, and by code alone for a reason without a text. Its folder `problems` holds problems by type: of
fields, of the operating system, of plugins and of the log. A sentence that is not ours is quoted. Languages have the
same keys and fields; English has no `reasons` and `problems`, because the host speaks English.
"""

import json
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, cast

from bollard.host.errors import caused_by

LANGUAGES: Final = ("en_US", "zh_Hans")
_TEXTS: Final = Path(__file__).with_name("text")


def read_texts(folder: str) -> dict[str, Any]:
    """The texts in the files of a folder, such as `zh_Hans/reasons`. A test makes sure that no key occurs twice."""
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
    def _problems(self) -> Mapping[str, str]:
        return read_texts(f"{self.language}/problems")

    def __call__(self, key: str, /, **fields: object) -> str:
        """The message of a key. A field that is an exception becomes its problem in this language."""
        return self._messages[key].format(**{name: self._shown(value) for name, value in fields.items()})

    def _shown(self, value: object) -> object:
        return self.problem(caused_by(value)) if isinstance(value, BaseException) else value

    def __contains__(self, key: object) -> bool:
        return key in self._messages

    def known(self, key: str, otherwise: str) -> str:
        """The text of a key that is built from a value of the host; `otherwise` if there is none."""
        return self(key) if key in self else otherwise

    def yes_or_no(self, answer: object) -> str:
        return self("rights.yes" if answer else "rights.no")

    def host_error(self, code: str, details: Mapping[str, object], message: str, hint: str) -> tuple[str, str]:
        """The sentence and the hint of an error of the host, found by code and `details.reason`. An error without a
        text is quoted after the meaning of its code."""
        known = self._reasons.get(f"{code}.{details.get('reason')}")
        if known is not None:
            try:
                fields = {**details, "problem": self.problem(details)}
                return known["message"].format(**fields), known["hint"].format(**fields)
            except KeyError:
                pass  # a host of another version sends other details
        if (general := self._reasons.get(code)) is None:
            return message, hint
        meaning = general["message"] + self._problems["original"].format(problem=message)
        return meaning, general["hint"] + self._problems["original"].format(problem=hint) if hint else general["hint"]

    def problem(self, details: Mapping[str, object]) -> str:
        """The problem that details have: several by field, the error that caused it, or one by type. A problem without
        a text is quoted: its sentence is that of a library, of a program or of a newer host."""
        several, cause = details.get("problems"), details.get("cause")
        if isinstance(several, list):
            each = [cast("Mapping[str, object]", problem) for problem in cast("list[object]", several)]
            lines = [self._problems["of_field"].format(field=one["field"], problem=self.problem(one)) for one in each]
            return self._problems["and"].join(lines)
        said = str(details.get("problem") or "")
        if isinstance(cause, dict):
            error = cast("Mapping[str, Any]", cause)
            return self.host_error(error["code"], error["details"], said, "")[0]
        known = self._problems.get(str(details.get("problem_type")))
        inner = details.get("inner")
        fields = {**details, "inner": self.problem(cast("Mapping[str, Any]", inner))} if inner else details
        try:
            return self.quote(said) if known is None else known.format(**fields)
        except KeyError:  # a host of another version sends other details
            return self.quote(said)

    def quote(self, said: str) -> str:
        """A sentence that is not ours, marked as a quotation in a language other than its own."""
        return self._problems.get("quoted", "{problem}").format(problem=said) if said else said


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
