"""The errors of providers, and the reasons that a caller can decide on."""

import json
from datetime import UTC, datetime
from typing import Any

from tests.tables import for_each

from bollard.host.egress.retry_after import retry_after_s
from bollard.host.errors import ModelFailed
from bollard.host.models.failures import after_emitting, failed, refused, with_words

NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


def read(status: int, body: Any, key: str | None = None, **headers: str) -> ModelFailed:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    found = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return refused(status, found, text, key, NOW)


@for_each(
    ("status", "body", "reason"),
    [
        (401, {"error": {"message": "Incorrect API key", "code": "invalid_api_key"}}, "unauthorized"),
        (403, {"error": {"type": "permission_error", "message": "no"}}, "unauthorized"),
        (402, {"error": {"message": "Insufficient Balance"}}, "unauthorized"),
        (429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, "rate_limited"),
        (429, {"error": {"message": "pay", "code": "insufficient_quota"}}, "unauthorized"),
        (429, {"error": {"message": "tokens per minute: context length does not matter here"}}, "rate_limited"),
        (500, b"<html>Internal</html>", "overloaded"),
        (503, b"", "overloaded"),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "overloaded"),
        (408, b"", "timeout"),
        (501, b"", "not_supported"),
        (404, {"error": {"message": "The model does not exist", "code": "model_not_found"}}, "invalid_request"),
        (400, {"error": {"message": "x", "code": "context_length_exceeded"}}, "context_length"),
        (400, {"error": {"message": "This model's maximum context length is 8192 tokens"}}, "context_length"),
        (400, {"error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}}, "context_length"),
        (400, {"error": {"type": "exceed_context_size_error", "message": "the request exceeds"}}, "context_length"),
        (400, {"object": "error", "message": "Reduce the length of the messages."}, "context_length"),
        (413, {"message": "Please reduce the length of the messages or completion"}, "context_length"),
        (400, [{"error": {"status": "INVALID_ARGUMENT", "message": "bad"}}], "invalid_request"),
        (400, {"error": {"code": "content_filter", "message": "filtered"}}, "content_filter"),
        (400, {"error": {"innererror": {"code": "ResponsibleAIPolicyViolation"}}}, "content_filter"),
        (422, {"detail": [{"loc": ["body"], "msg": "field required"}]}, "invalid_request"),
        (400, {"detail": "bad"}, "invalid_request"),
        (400, {"error": "just words"}, "invalid_request"),
        (307, b"", "invalid_request"),
    ],
)
def test_a_status_and_a_body_give_a_reason(status: int, body: Any, reason: str) -> None:
    error = read(status, body)
    assert error.details["reason"] == reason
    assert error.details["status"] == status
    assert error.details["emitted"] is False
    assert error.hint
    assert error.retryable == (reason in ("rate_limited", "overloaded", "timeout", "unreachable"))


def test_the_message_of_a_provider_is_truncated_and_never_contains_the_key() -> None:
    key = "sk-very-secret-key"
    long = {"error": {"message": "Incorrect\nkey \u202e provided: " + f"{key} " * 100}}
    error = read(401, long, key)
    assert key not in error.provider_words
    assert "sk-very" not in error.provider_words
    assert "\n" not in error.provider_words
    assert "\u202e" not in error.provider_words
    assert 100 < len(error.provider_words) <= 300
    assert error.message == "the provider answered HTTP 401"
    assert with_words(error).message == f"{error.message}: {error.provider_words}"
    assert read(500, b"x" * 290 + key.encode(), key).provider_words.count("sk") == 0, "not even a part where it is cut"


@for_each(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "1.5"}, 1.5),
        ({"retry_after_ms": "250", "retry_after": "9"}, 0.25),
        ({"retry_after": "Sun, 15 Nov 2026 12:00:30 GMT"}, 30.0),
        ({"retry_after": "Sun, 15 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry_after": "-3"}, 0.0),
        ({"retry_after": "1e300"}, 86_400.0),
        ({"retry_after": "nan"}, None),
        ({"retry_after": "tomorrow"}, None),
        ({"retry_after": "Sun, 99 Foo 2026 99:99:99 GMT"}, None),
        ({}, None),
    ],
)
def test_the_retry_time_of_a_provider_is_read(headers: dict[str, str], seconds: float | None) -> None:
    found = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    assert retry_after_s(found, NOW.timestamp(), 86_400.0) == seconds
    assert read(429, b"", **headers).details.get("retry_after_s") == seconds


def test_a_failure_after_the_first_chunk_is_not_retryable() -> None:
    error = failed("overloaded", "busy", status=503, retry_after_s=2.0)
    assert error.retryable
    later = after_emitting(error)
    assert later.details == {**error.details, "emitted": True}
    assert (error.details["status"], error.details["retry_after_s"], error.details["emitted"]) == (503, 2.0, False)
    assert (later.message, later.hint, later.retryable) == (error.message, error.hint, False)
