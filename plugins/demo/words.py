"""Which word asks for what, in both languages. Knows nothing of runs."""

import re
from typing import Final, Literal

__all__ = ["ACTS", "Act", "act_of", "is_chinese", "number_in"]

Act = Literal["help", "count", "file", "slow", "fail", "talk"]

ACTS: Final[dict[str, Act]] = {
    "help": "help",
    "帮助": "help",
    "count": "count",
    "数数": "count",
    "file": "file",
    "文件": "file",
    "slow": "slow",
    "慢": "slow",
    "fail": "fail",
    "失败": "fail",
}
"""The words that are understood."""

COUNT_DEFAULT: Final = 5
COUNT_MOST: Final = 100


def act_of(text: str) -> Act:
    """What the first word asks for; anything else is talk."""
    said = text.strip().lower()
    for word, act in ACTS.items():
        # Chinese is written without spaces: the word may be followed by anything.
        if said == word or said.startswith(f"{word} ") or (is_chinese(word) and said.startswith(word)):
            return act
    return "talk"


def number_in(text: str) -> int:
    """How far to count."""
    found = re.search(r"\d{1,6}", text)
    return max(1, min(COUNT_MOST, int(found[0]))) if found else COUNT_DEFAULT


def is_chinese(text: str) -> bool:
    """Whether to answer in Chinese."""
    return re.search(r"[\u4e00-\u9fff]", text) is not None
