"""What went wrong with a provider, as something that a caller can decide on. Pure.

A provider's own words are kept beside the failure, in part and without the key: not everybody may see them. Nobody
decides anything by them but which of the reasons it is.
"""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Literal, cast

from bollard.host.errors import ModelFailed
from bollard.host.models.limits import EXCERPT_CHARACTERS, RETRY_AFTER_MAX_S
from bollard.protocol import JsonObject, JsonValue
from bollard.wire.errors import FrameError
from bollard.wire.strict_json import decode

Reason = Literal[
    "rate_limited",
    "overloaded",
    "timeout",
    "unreachable",
    "unauthorized",
    "invalid_request",
    "context_length",
    "content_filter",
    "broken_answer",
    "not_supported",
]

_HINTS: Final[Mapping[str, str]] = {
    "rate_limited": "ask less often, or raise the limit at the provider",
    "overloaded": "try again later, or name a fallback model",
    "timeout": "try again later, or give the model more time",
    "unreachable": "check base_url, and that the provider can be reached from here",
    "unauthorized": "check the secret that holds the key, and the account at the provider",
    "invalid_request": "check the model's name and the arguments of the call",
    "context_length": "send less: shorten the history, or use a model with a larger context window",
    "content_filter": "the provider does not answer this; say it otherwise",
    "broken_answer": "check that base_url speaks the style that the model is configured with",
    "not_supported": "use a model that can do this",
}
_TOO_LONG: Final = (
    "context_length_exceeded",
    "context length",
    "context window",
    "context size",
    "context limit",
    "exceed_context",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "maximum prompt length",
    "reduce the length of the messages",
    "reduce the length of the prompt",
    "exceeds the maximum number of tokens",
    "range of input length",
    "prompt_tokens_exceeded",
)
"""How providers say that a prompt does not fit, in small letters."""
_FILTERED: Final = (
    "content_filter",
    "content_policy",
    "responsibleaipolicyviolation",
    "content management policy",
    "data_inspection_failed",
    "data_may_contain_inappropriate",
    "output blocked by content filtering",
)
_UNPAID: Final = ("insufficient_quota", "billing_error", "billing_not_active", "insufficient_balance")
_BY_WORD: Final[tuple[tuple[tuple[str, ...], Reason], ...]] = (
    (("rate_limit", "too_many_requests", "resource_exhausted"), "rate_limited"),
    (("overloaded", "server_error", "api_error", "internal", "unavailable"), "overloaded"),
    (("timeout", "timed_out"), "timeout"),
    (("authentication", "permission", "invalid_api_key", "unauthorized"), "unauthorized"),
)


def failed(
    reason: Reason,
    message: str,
    *,
    hint: str = "",
    words: str = "",
    status: int | None = None,
    retry_after_s: float | None = None,
) -> ModelFailed:
    """Nothing of the answer was handed on, as far as the one who says this knows: see `after_emitting`."""
    known = {"status": status, "retry_after_s": retry_after_s}
    details = {name: value for name, value in known.items() if value is not None}
    made = ModelFailed(message, hint=hint or _HINTS[reason], reason=reason, emitted=False, **details)
    made.provider_words = words
    return made


def after_emitting(error: ModelFailed) -> ModelFailed:
    """The same failure, of an answer of which a part was handed on."""
    details = {**error.details, "emitted": True}
    return _copy(error, error.message, details)


def with_words(error: ModelFailed) -> ModelFailed:
    """The same failure with the provider's own words, for those who may see them."""
    words, status = error.provider_words, error.details.get("status")
    if not words:
        return error
    answered = f"the provider answered HTTP {status}: {words}"
    return _copy(error, f"the provider broke off: {words}" if status is None else answered, error.details)


def without_words(error: ModelFailed) -> ModelFailed:
    """The same failure, saying where the provider's words are."""
    status = error.details.get("status")
    if not error.provider_words:
        return error
    answered = f"the provider answered HTTP {status}; the host's log has its words"
    broke_off = "the provider broke off; the host's log has its words"
    return _copy(error, broke_off if status is None else answered, error.details)


def _copy(error: ModelFailed, message: str, details: JsonObject) -> ModelFailed:
    others = {name: value for name, value in details.items() if name != "reason"}
    made = ModelFailed(
        message,
        reason=str(details["reason"]),
        hint=error.hint,
        **cast("dict[str, str | int | float | bool | None]", others),
    )
    made.provider_words = error.provider_words
    return made


class ProviderError(Exception):
    """A provider's error in the middle of an answer, not yet fit to be shown: see `said`."""

    def __init__(self, code: str, kind: str, message: str) -> None:
        super().__init__(code or kind)
        self.code = code
        self.kind = kind
        self.message = message

    @classmethod
    def read(cls, error: object) -> "ProviderError":
        """From whatever a provider puts there."""
        if not isinstance(error, dict):
            return cls("", "", error if isinstance(error, str) else "")
        body = cast("dict[str, JsonValue]", error)
        inner = body.get("innererror")
        code = _text(body.get("code")) or (_text(cast("dict[str, JsonValue]", inner).get("code")) if inner else "")
        return cls(code, _text(body.get("type")) or _text(body.get("status")), _text(body.get("message")))


def said(error: ProviderError, key: str | None) -> ModelFailed:
    """What an error inside an answer means."""
    return failed(
        reason_of(None, error.code, error.kind, error.message),
        "the provider broke off",
        words=_excerpt(error.message or error.code or error.kind, key),
    )


def refused(
    status: int, headers: tuple[tuple[str, str], ...], body: bytes, key: str | None, now: datetime | None = None
) -> ModelFailed:
    """What an answer means that is none."""
    if 300 <= status < 400:
        return failed(
            "invalid_request",
            f"the provider sends on to another address (HTTP {status})",
            hint="no call follows there; put the right address into base_url",
            status=status,
        )
    told = _told(body)
    words = told.message or told.code or body.decode("utf-8", "replace")
    reason = reason_of(status, told.code, told.kind, words)
    unpaid = "the account at the provider has no credit left" if _is_unpaid(status, told) else ""
    return failed(
        reason,
        f"the provider answered HTTP {status}",
        words=_excerpt(words, key),
        hint=unpaid,
        status=status,
        retry_after_s=retry_after_s(headers, now or datetime.now(UTC)),
    )


def reason_of(status: int | None, code: str, kind: str, words: str) -> Reason:
    """Which of the reasons it is; an error inside an answer has no status."""
    marks, text = f"{code} {kind}".lower(), f"{code} {kind} {words}".lower()
    if any(mark in marks for mark in _UNPAID) or status in (401, 402, 403):
        return "unauthorized"
    if status == 429:
        return "rate_limited"
    if any(mark in text for mark in _TOO_LONG):
        return "context_length"
    if any(mark in text for mark in _FILTERED):
        return "content_filter"
    if status is None or status < 400:
        for known, reason in _BY_WORD:
            if any(mark in marks for mark in known):
                return reason
        return "invalid_request" if "invalid" in marks else "overloaded"
    if status == 408:
        return "timeout"
    if status == 501:
        return "not_supported"
    return "overloaded" if status >= 500 or status in (409, 425) else "invalid_request"


def retry_after_s(headers: tuple[tuple[str, str], ...], now: datetime) -> float | None:
    """When a provider wants to be asked again: seconds or a date; `None` where it does not say, or not readably."""
    told = dict(reversed(headers))
    seconds = _number(told.get("retry-after-ms"), 0.001)
    if seconds is None:
        seconds = _number(told.get("retry-after"), 1.0)
    if seconds is None and (text := told.get("retry-after")) is not None:
        try:
            date = parsedate_to_datetime(text[:64])
        except (ValueError, OverflowError):
            return None
        seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now.timestamp()
    return None if seconds is None else min(max(0.0, seconds), RETRY_AFTER_MAX_S)


def _number(text: str | None, unit: float) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value * unit if math.isfinite(value) else None


def _told(body: bytes) -> ProviderError:
    """The error in a body: `{"error": {…}}`, `{"error": "…"}`, `{"message": …}`, `{"detail": …}`, or a list of one."""
    try:
        value = decode(body)
    except FrameError:
        return ProviderError("", "", "")
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return ProviderError("", "", "")
    if (error := value.get("error")) is not None:
        return ProviderError.read(error)
    return ProviderError.read({"message": value.get("detail"), **value})


def _is_unpaid(status: int, told: ProviderError) -> bool:
    return status == 402 or any(mark in f"{told.code} {told.kind}".lower() for mark in _UNPAID)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _excerpt(words: str, key: str | None) -> str:
    """A part that can be shown: the key goes first, so that no cut leaves half of it."""
    clean = words.replace(key, "…") if key else words
    clean = " ".join("".join(each if each.isprintable() else " " for each in clean[: 8 * EXCERPT_CHARACTERS]).split())
    return clean if len(clean) <= EXCERPT_CHARACTERS else clean[: EXCERPT_CHARACTERS - 1] + "…"
