"""Chooses the language and reads its texts from the JSON files of `cli/text`.

A folder of `text` is a language. Its files hold the messages by key. Its folder `reasons` holds the errors of the host
by `code.reason`, and by code alone for a reason without a text. Its folder `problems` holds problems by type: of
fields, of the operating system, of plugins and of the log. A sentence that is not ours is quoted. Languages have the
same keys and fields; English has no `reasons` and `problems`, because the host speaks English.
"""

import json
import re
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, cast

from bollard.host.errors import caused_by

LANGUAGES: Final = ("en_US", "zh_Hans")
_CHINESE: Final = re.compile(r"[\u4e00-\u9fff]")
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
                fields = {**details, "problem": self.problem(details), "place": self.place(details)}
                fields["field"] = self.place({}, str(details.get("field", "")))
                fields["remedy"] = self.remedy(details, str(details.get("advice", "")))
                return known["message"].format(**fields), known["hint"].format(**fields)
            except KeyError:
                pass  # a host of another version sends other details
        if (general := self._reasons.get(code)) is None:
            return message, hint
        meaning = general["message"] + self._problems["original"].format(problem=message)
        return meaning, general["hint"] + self._problems["original"].format(problem=hint) if hint else general["hint"]

    def place(self, details: Mapping[str, object], otherwise: str = "") -> str:
        """The place of a problem: the line or the byte of a text, or a field, which is `otherwise`."""
        at = details.get("place")
        if isinstance(at, dict):
            return self.problem({"problem": otherwise, **cast("Mapping[str, object]", at)})
        return self._problems.get(f"field.{otherwise}", otherwise)

    def problem(self, details: Mapping[str, object]) -> str:
        """The problem that details have: several by field, the error that caused it, or one by type. A problem without
        a text is quoted: its sentence is that of a library, of a program or of a newer host."""
        try:
            return self._problem(details)
        except (AttributeError, KeyError, TypeError, ValueError):  # a host of another version sends other details
            return self.quote(str(details.get("problem") or ""))

    def _problem(self, details: Mapping[str, object]) -> str:
        several, cause = details.get("problems"), details.get("cause")
        if isinstance(several, list):
            each = [cast("Mapping[str, object]", problem) for problem in cast("list[object]", several)]
            lines = [(self.place(one, str(one["field"])), self.problem(one)) for one in each]
            of_field = self._problems.get("of_field", "{field}: {problem}")
            joined = [of_field.format(field=field, problem=problem) for field, problem in lines]
            return self._problems.get("and", "; ").join(joined)
        said = str(details.get("problem") or "")
        if isinstance(cause, dict):
            error = cast("Mapping[str, Any]", cause)
            return self.host_error(error["code"], error["details"], said, "")[0]
        known = self._problems.get(str(details.get("problem_type")))
        inner = details.get("inner")
        fields = {**details, "inner": self.problem(cast("Mapping[str, Any]", inner))} if inner else details
        return self.quote(said) if known is None else known.format(**fields)

    def remedy(self, details: Mapping[str, object], said: str) -> str:
        """The hint of a problem, by the type of the problem."""
        cause = details.get("cause")
        if isinstance(cause, dict):
            error = cast("Mapping[str, Any]", cause)
            return self.host_error(error["code"], error["details"], "", said)[1]
        known = self._problems.get(f"{details.get('problem_type')}.hint")
        return self.quote(said) if known is None else known.format(**details)

    def quote(self, said: str) -> str:
        """A sentence that is not ours, marked as a quotation in a language other than its own."""
        if not said or _CHINESE.search(said):
            return said
        return self._problems.get("quoted", "{problem}").format(problem=said)


def run_error(code: str | None, error: str, details: Mapping[str, object], text: Text) -> str:
    """The sentence of a run that failed, by its code and the type of its problem."""
    return text.host_error("run_ended", {"reason": code, "problem": error, **details}, error, "")[0]


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
