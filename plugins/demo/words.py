"""The command words of the demo, in both languages."""

import json
import re
from typing import Any, Final, Literal, cast

__all__ = ["ACTS", "Act", "act_of", "is_chinese", "number_in", "tool_in"]

Act = Literal["help", "count", "file", "call", "slow", "fail", "talk"]

ACTS: Final[dict[str, Act]] = {
    "help": "help",
    "帮助": "help",
    "count": "count",
    "数数": "count",
    "file": "file",
    "文件": "file",
    "call": "call",
    "调用": "call",
    "slow": "slow",
    "慢": "slow",
    "fail": "fail",
    "失败": "fail",
}
"""The known words."""

COUNT_DEFAULT: Final = 5
COUNT_MOST: Final = 100


def act_of(text: str) -> Act:
    """The action of the first word; any other text is echoed."""
    said = text.strip().lower()
    for word, act in ACTS.items():
        # Chinese has no spaces: any text may follow the word.
        if said == word or said.startswith(f"{word} ") or (is_chinese(word) and said.startswith(word)):
            return act
    return "talk"


def number_in(text: str) -> int:
    """The number to count to."""
    found = re.search(r"\d{1,6}", text)
    return max(1, min(COUNT_MOST, int(found[0]))) if found else COUNT_DEFAULT


def tool_in(text: str) -> tuple[str, dict[str, Any]] | None:
    """The tool to call, and its arguments; `None` unless the text is `call NAME {"argument": "value"}`."""
    found = re.fullmatch(r"(?:call\s|调用)\s*([A-Za-z0-9_:./-]+)\s*(.*)", text.strip(), re.IGNORECASE | re.DOTALL)
    if found is None:
        return None
    try:
        arguments = json.loads(found[2] or "{}")
    except ValueError:
        return None
    return (found[1], cast("dict[str, Any]", arguments)) if isinstance(arguments, dict) else None


def is_chinese(text: str) -> bool:
    """Whether to answer in Chinese."""
    return re.search(r"[\u4e00-\u9fff]", text) is not None
