"""Maps provider errors to `ModelFailed` reasons. Pure.

The provider's message is kept beside the failure, truncated and without the key, because not every caller may see it.
It only serves to choose the reason.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, cast

from bollard.host.egress.retry_after import retry_after_s
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
    "rate_limited": "send fewer requests, or raise the limit at the provider",
    "overloaded": "retry later, or configure a fallback model",
    "timeout": "retry later, or raise the timeouts of the model",
    "unreachable": "check base_url and the connection from the host to the provider",
    "unauthorized": "check the secret that holds the key, and the account at the provider",
    "invalid_request": "check the model's name and the arguments of the call",
    "context_length": "send less: shorten the history, or use a model with a larger context window",
    "content_filter": "the provider blocks this content; rephrase it",
    "broken_answer": "check that the endpoint at base_url uses the configured style",
    "not_supported": "use a model that supports this",
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
"""Provider messages for a prompt that is too long, in lower case."""
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
    problem_type: str = "",
    /,
    *,
    hint: str = "",
    words: str = "",
    status: int | None = None,
    retry_after_s: float | None = None,
    **values: Any,
) -> ModelFailed:
    """A failure before any part of the answer was emitted; see `after_emitting`. A translation of the message is found
    by `problem_type`, and filled with `values`; both may be those of a `Why`."""
    known = {"status": status, "retry_after_s": retry_after_s, "problem_type": problem_type or None}
    details = {"problem": message, **{name: value for name, value in known.items() if value is not None}, **values}
    made = ModelFailed(message, hint=hint or _HINTS[reason], reason=reason, emitted=False, **details)
    made.provider_words = words
    return made


def at_endpoint(error: ModelFailed, model: str, address: str) -> ModelFailed:
    """The same failure with the id and the address of its model."""
    return _copy(error, error.message, {**error.details, "model": model, "address": address})


def after_emitting(error: ModelFailed) -> ModelFailed:
    """The same failure after a part of the answer was emitted: not retryable."""
    return _copy(error, _message_of(error), {**error.details, "emitted": True})


def with_words(error: ModelFailed) -> ModelFailed:
    """The same failure with the provider's message, for callers who may see it."""
    words, status = error.provider_words, error.details.get("status")
    if not words:
        return error
    answered = f"the provider answered HTTP {status}: {words}"
    kind = "model.aborted_with" if status is None else "model.refused_with"
    details: JsonObject = {**error.details, "problem_type": kind, "inner": {"problem": words}}
    return _copy(error, f"the provider aborted the answer: {words}" if status is None else answered, details)


def without_words(error: ModelFailed) -> ModelFailed:
    """The same failure with a pointer to the host's log, which has the provider's message."""
    status = error.details.get("status")
    if not error.provider_words:
        return error
    answered = f"the provider answered HTTP {status}; see the host's log for its message"
    broke_off = "the provider aborted the answer; see the host's log for its message"
    details = {**error.details, "problem_type": "model.aborted_logged" if status is None else "model.refused_logged"}
    return _copy(error, broke_off if status is None else answered, details)


def _copy(error: ModelFailed, message: str, details: JsonObject) -> ModelFailed:
    """`message` is without the model, which comes from the details."""
    others = {name: value for name, value in details.items() if name != "reason"}
    made = ModelFailed(
        f"{_prefix(details)}{message}",
        reason=str(details["reason"]),
        hint=error.hint,
        **cast("dict[str, Any]", {**others, "problem": message}),
    )
    made.provider_words = error.provider_words
    return made


def _prefix(details: JsonObject) -> str:
    return f"model {details['model']} at {details['address']}: " if "address" in details else ""


def _message_of(error: ModelFailed) -> str:
    return error.message.removeprefix(_prefix(error.details))


class ProviderError(Exception):
    """An error inside a provider's answer, before redaction: see `failure_in_answer`."""

    def __init__(self, code: str, kind: str, message: str) -> None:
        super().__init__(code or kind)
        self.code = code
        self.kind = kind
        self.message = message

    @classmethod
    def read(cls, error: object) -> "ProviderError":
        """Parse the `error` field of an answer, whatever its type."""
        if not isinstance(error, dict):
            return cls("", "", error if isinstance(error, str) else "")
        body = cast("dict[str, JsonValue]", error)
        inner = body.get("innererror")
        code = _text(body.get("code")) or (_text(cast("dict[str, JsonValue]", inner).get("code")) if inner else "")
        return cls(code, _text(body.get("type")) or _text(body.get("status")), _text(body.get("message")))


def failure_in_answer(error: ProviderError, key: str | None) -> ModelFailed:
    """The failure for an error inside an answer."""
    return failed(
        reason_of(None, error.code, error.kind, error.message),
        "the provider aborted the answer",
        "model.aborted",
        words=_excerpt(error.message or error.code or error.kind, key),
    )


def refused(
    status: int, headers: tuple[tuple[str, str], ...], body: bytes, key: str | None, now: datetime | None = None
) -> ModelFailed:
    """The failure for an HTTP status that is not a success."""
    if 300 <= status < 400:
        return failed(
            "invalid_request",
            f"the provider redirects to another address (HTTP {status})",
            "model.redirects",
            hint="redirects are not followed; set base_url to the final address",
            status=status,
        )
    error = _parse_error(body)
    words = error.message or error.code or body.decode("utf-8", "replace")
    reason = reason_of(status, error.code, error.kind, words)
    unpaid = "the account at the provider has no credit left" if _is_unpaid(status, error) else ""
    return failed(
        reason,
        f"the provider answered HTTP {status}",
        "model.refused",
        words=_excerpt(words, key),
        hint=unpaid,
        status=status,
        retry_after_s=retry_after_s(headers, (now or datetime.now(UTC)).timestamp(), RETRY_AFTER_MAX_S),
    )


def reason_of(status: int | None, code: str, kind: str, words: str) -> Reason:
    """The reason of a provider error; an error inside an answer has no status."""
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


def _parse_error(body: bytes) -> ProviderError:
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


def _is_unpaid(status: int, error: ProviderError) -> bool:
    return status == 402 or any(mark in f"{error.code} {error.kind}".lower() for mark in _UNPAID)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _excerpt(words: str, key: str | None) -> str:
    """A printable excerpt. The key is removed before truncation, so that no part of it remains."""
    clean = words.replace(key, "…") if key else words
    clean = " ".join("".join(each if each.isprintable() else " " for each in clean[: 8 * EXCERPT_CHARACTERS]).split())
    return clean if len(clean) <= EXCERPT_CHARACTERS else clean[: EXCERPT_CHARACTERS - 1] + "…"
