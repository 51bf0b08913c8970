"""Estimates the tokens of texts and requests, without the tokenizer of the model. Pure.

A tokenizer cuts by script, so this counts by script. A short Latin word is one token and a long one a little more per
letter; a Chinese character is more than one on average, because the rarer ones are spelled in bytes; digits, signs and
line breaks count nearly each. The weights are fitted to be within 15 % of a real tokenizer (a byte-pair one of 32 000
tokens) for English, Chinese and code alike; `tests/local_agent/test_tokens.py` holds them to it. Newer tokenizers need
fewer tokens for Chinese, so the estimate is on the safe side.

If a provider reports its count, the ratio of the two numbers corrects the next estimate: `Scale`.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from bollard.protocol import FunctionTool, JsonValue, Message, TextContent

WORD_FREE_LETTERS: Final = 5
LETTER_TOKENS: Final = 0.17
"""For each letter of a word after the fifth."""
DIGIT_TOKENS: Final = 0.8
HAN_TOKENS: Final = 1.5
KANA_HANGUL_TOKENS: Final = 1.3
SIGN_TOKENS: Final = 0.82
LETTER_ELSEWHERE_TOKENS: Final = 0.55
"""A letter of Greek, Cyrillic and the like, or one with an accent."""
OTHER_TOKENS: Final = 3.0
"""Emoji and other characters that are encoded as bytes."""
IMAGE_TOKENS: Final = 1100
MESSAGE_TOKENS: Final = 4
TOOL_TOKENS: Final = 8

CHARACTERS_OF_TOKEN: Final = 16
"""Nearly every text has fewer; the start of the search when a text is cut."""

SCALE_LEAST: Final = 0.4
"""The ratio of a current tokenizer for Chinese."""
SCALE_MOST: Final = 2.5
SCALE_WEIGHT: Final = 0.5
"""The weight of the newest observation against the earlier ones."""
OBSERVED_LEAST: Final = 64
"""Shorter prompts mostly measure the overhead of the provider."""

_WORD: Final = re.compile(r"[A-Za-z]+")
_DIGIT: Final = re.compile(r"[0-9]")
_HAN: Final = re.compile(r"[\u2e80-\u2fdf\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_KANA_HANGUL: Final = re.compile(r"[\u3040-\u30ff\u1100-\u11ff\u3130-\u318f\uac00-\ud7af]")
_WIDE_SIGN: Final = re.compile(r"[\u2010-\u205e\u3000-\u303f\uff00-\uffef]")
_SIGNS: Final = re.compile(r"([!-/:-@\[-`{-~])\1*")
_BREAK: Final = re.compile(r"\n|\t+| {2,}")
_ELSEWHERE: Final = re.compile(r"[\u00a1-\u10ff\u1200-\u1fff]")
_PLAIN: Final = re.compile(
    r"[\x00-\x7f\u00a1-\u1fff\u2010-\u205e\u2e80-\u2fdf\u3000-\u30ff\u3130-\u318f\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)


def count_text(text: str) -> int:
    """The tokens of a text."""
    if not text:
        return 0
    total = 0.0
    for word in _WORD.findall(text):
        total += 1 + max(0, len(word) - WORD_FREE_LETTERS) * LETTER_TOKENS
    for run in _SIGNS.finditer(text):
        total += SIGN_TOKENS + (run.end() - run.start() - 1) / 8  # a ruler of dashes is a few tokens
    total += len(_DIGIT.findall(text)) * DIGIT_TOKENS
    total += len(_BREAK.findall(text))
    if not text.isascii():
        total += len(_HAN.findall(text)) * HAN_TOKENS
        total += len(_KANA_HANGUL.findall(text)) * KANA_HANGUL_TOKENS
        total += len(_WIDE_SIGN.findall(text))
        total += len(_ELSEWHERE.findall(text)) * LETTER_ELSEWHERE_TOKENS
        total += (len(text) - len(_PLAIN.findall(text))) * OTHER_TOKENS
    return max(1, round(total))


def count_message(message: Message) -> int:
    """Tokens of a message, with what every message costs."""
    if isinstance(message.content, str):
        total = count_text(message.content)
    else:
        total = sum(
            count_text(part.text) if isinstance(part, TextContent) else IMAGE_TOKENS for part in message.content
        )
    for call in message.tool_calls or ():
        total += count_text(call.function.name) + count_text(call.function.arguments) + MESSAGE_TOKENS
    if message.name:
        total += count_text(message.name)
    return total + MESSAGE_TOKENS


def count(messages: Iterable[Message], tools: Sequence[FunctionTool] | None = None) -> int:
    """The tokens of a whole request."""
    total = sum(count_message(message) for message in messages)
    for tool in tools or ():
        parameters: JsonValue = tool.function.parameters
        total += count_text(json.dumps(parameters, ensure_ascii=False)) + count_text(tool.function.name) + TOOL_TOKENS
        total += count_text(tool.function.description or "")
    return total


def cut_to_tokens(text: str, tokens: int, mark: str = " …") -> str:
    """The beginning of a text, at most so many tokens, with a mark if it was cut."""
    if tokens <= 0:
        return ""
    near = text[: CHARACTERS_OF_TOKEN * tokens]
    if len(near) == len(text) or count_text(near + mark) <= tokens:
        near = text
    if count_text(near) <= tokens:
        return text
    low, high = 0, len(near)
    while low < high:  # binary search for the longest beginning that fits
        middle = (low + high + 1) // 2
        if count_text(text[:middle] + mark) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low] + mark if low else ""


@dataclass(frozen=True, slots=True)
class Scale:
    """The tokens of a provider for each token counted here. One ratio for each model."""

    ratio: float = 1.0

    @classmethod
    def of(cls, value: JsonValue) -> "Scale":
        """The stored ratio; 1 if it is not a sensible number."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            return cls()
        return cls(min(SCALE_MOST, max(SCALE_LEAST, float(value)))) if value > 0 else cls()

    def real(self, counted: int) -> int:
        """The tokens as the provider will count them."""
        return round(counted * self.ratio)

    def counted(self, real: int) -> int:
        """The inverse: the tokens counted here for so many of the provider."""
        return int(real / self.ratio)

    def observed(self, counted: int, prompt_tokens: int | None) -> "Scale":
        """The scale after a provider reported its count of a request."""
        if prompt_tokens is None or counted < OBSERVED_LEAST or prompt_tokens <= 0:
            return self
        ratio = self.ratio + (prompt_tokens / counted - self.ratio) * SCALE_WEIGHT
        return Scale(min(SCALE_MOST, max(SCALE_LEAST, ratio)))
