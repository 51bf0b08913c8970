"""Why a document could not be read, as the reader says it. A host keeps an English sentence with the document; here it
is known again by the English catalogue, as a key and its fields."""

import re
from typing import Final

from bollard.cli.language import Text
from bollard.cli.text.en_US.knowledge import KNOWLEDGE

__all__ = ["PROBLEMS", "problem_in", "problem_of"]

PROBLEMS: Final = (
    "knowledge.problem.type",
    "knowledge.problem.slow",
    "knowledge.problem.ended",
    "knowledge.problem.attempts",
    "knowledge.problem.memory",
    "knowledge.problem.nested",
    "knowledge.problem.deep",
    "knowledge.problem.no_docx",
    "knowledge.problem.packed",
    "knowledge.problem.ratio",
    "knowledge.problem.doctype",
    "knowledge.problem.entities",
    "knowledge.problem.characters",
    "knowledge.problem.encrypted",
    "knowledge.problem.no_pdf",
    "knowledge.problem.pages",
    "knowledge.problem.pictures",
    "knowledge.problem.no_text",
    "knowledge.problem.no_zip",
    "knowledge.problem.members",
    "knowledge.problem.broken",
)
"""Every reason there is; one that could be taken for another stands behind it."""


def problem_of(sentence: str) -> tuple[str, dict[str, str]] | None:
    """Which of them a sentence is, and what it fills in; nothing for one that no known host says."""
    for key in PROBLEMS:
        if found := _PATTERNS[key].fullmatch(sentence):
            return key, found.groupdict()
    return None


def problem_in(text: Text, sentence: str) -> str:
    """The same in the language of `text`; what is not known stays as it came."""
    known = problem_of(sentence)
    return sentence if known is None else text(known[0], **known[1])


def _pattern(template: str) -> re.Pattern[str]:
    pieces = re.split(r"\{(\w+)\}", template)
    body = "".join(f"(?P<{piece}>.+)" if at % 2 else re.escape(piece) for at, piece in enumerate(pieces))
    return re.compile(body, re.DOTALL)


_PATTERNS: Final = {key: _pattern(KNOWLEDGE[key]) for key in PROBLEMS}
