"""The responses of an operation in OpenAPI: its own, and its errors by status. `errors.json` has the meaning and an
example of each error code."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from bollard.host.http.answers import STATUS
from bollard.host.http.openapi.schemas import FLAG, SSE, STREAM, TEXT, fields
from bollard.host.http.operations import Answer, Link, Operation, page_of
from bollard.protocol import JsonObject, Shape

ERROR: Final = fields(
    {"items": {"type": "array", "items": {"type": "object"}, "description": "Of a batch: the outcome of each event."}},
    error=fields(
        code=TEXT | {"description": "For programs."},
        message=TEXT | {"description": "For people."},
        hint=TEXT | {"description": "How to solve it."},
        retryable=FLAG | {"description": "Whether the same request may succeed later."},
        details={"type": "object"},
        docs=TEXT | {"description": "The section of the reference."},
    ),
)
_OF_CODE: Final = {"unauthenticated": "WWW-Authenticate", "upgrade_required": "Upgrade"}

SchemaOf = Callable[[type[Shape] | JsonObject], JsonObject]
"""Turns a shape or a schema into a schema of the document."""


def _refer(*names: str) -> JsonObject:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


class ErrorWords(msgspec.Struct, frozen=True, kw_only=True):
    """The meaning of a code and an example."""

    summary: str
    message: str
    hint: str
    retryable: bool = False
    details: dict[str, str | int | float] = {}

    def example(self, code: str) -> JsonObject:
        """The body of the example."""
        return {
            "error": {
                "code": code,
                "message": self.message,
                "hint": self.hint,
                "retryable": self.retryable,
                "details": {**self.details},
                "docs": f"docs/reference/http.md#{code}",
            }
        }


ERROR_WORDS: Final = msgspec.json.decode(
    Path(__file__).with_name("errors.json").read_bytes(), type=dict[str, ErrorWords]
)
"""The meaning and an example of every code."""
_EVERY: Final = (
    "invalid_argument",
    "malformed_request",
    "forbidden_origin",
    "request_timeout",
    "forbidden_host",
    "unsupported_media_type",
    "expectation_failed",
    "rate_limited",
    "head_too_large",
    "runtime_error",
    "too_many_connections",
)
"""Codes of any request: from the server, the edge or the check of the query."""
_GUARDED: Final = ("unauthenticated", "not_found", "storage_unavailable", "storage_stalled")
"""Codes of operations that need a token."""
_KEYED: Final = ("conflict", "idempotency_mismatch")
"""Codes of operations that save responses for an `Idempotency-Key`."""


def errors_of(operation: Operation) -> frozenset[str]:
    """Every code of an operation: its own, and those of its kind."""
    codes = {*_EVERY, *operation.errors}
    if operation.body is not None:
        codes.add("payload_too_large")
    if not operation.open:
        codes.update(_GUARDED)
        if operation.right is not None:
            codes.add("unauthorized")
        if operation.method not in ("GET", "OPTIONS"):
            codes.add("storage_full")
        if operation.method == "POST" and operation.repeat != "own":
            codes.update((*_KEYED, "payload_too_large"))
    return frozenset(codes)


def errors_by_status(operation: Operation) -> dict[int, list[str]]:
    """The codes by status, the most specific first."""
    by_status: dict[int, list[str]] = {}
    codes = errors_of(operation)
    for code in sorted(STATUS, key=lambda code: (code not in operation.errors, code in _EVERY)):
        if code in codes:
            by_status.setdefault(STATUS[code], []).append(code)
    return dict(sorted(by_status.items()))


class ErrorAnswers:
    """Error responses. Operations with the same errors share a component."""

    def __init__(self) -> None:
        self.components: JsonObject = {}

    def of(self, operation: Operation) -> JsonObject:
        """Error responses by status, without the statuses of the operation's own responses."""
        found: JsonObject = {}
        for status, codes in errors_by_status(operation).items():
            if status not in operation.answers:
                name = ".".join(codes)
                self.components.setdefault(name, _error(codes))
                found[str(status)] = {"$ref": f"#/components/responses/{name}"}
        return found


def _error(codes: list[str]) -> JsonObject:
    words = {code: ERROR_WORDS[code] for code in codes}
    response: JsonObject = {
        "description": "\n".join(f"- `{code}`: {each.summary}" for code, each in words.items()),
        "x-bollard-codes": [*codes],
        "content": {
            "application/json": {
                # One schema for all errors: a generated client has one class for them.
                "schema": {"$ref": "#/components/schemas/Error"},
                "examples": {
                    code: {"summary": each.summary, "value": each.example(code)} for code, each in words.items()
                },
            }
        },
    }
    names = ["Retry-After"] if any(each.retryable for each in words.values()) or "conflict" in words else []
    names += [header for code, header in _OF_CODE.items() if code in words]
    if "rate_limited" in words:
        names += ["RateLimit-Policy", "RateLimit"]
    if names:
        response["headers"] = _refer(*names)
    return response


def answers_of(operation: Operation, schema_of: SchemaOf) -> JsonObject:
    """Successful responses by status."""
    found: JsonObject = {}
    for status, answer in operation.answers.items():
        found[str(status)] = _answer(operation, status, answer, schema_of)
    if operation.editable and operation.method == "GET":
        found["304"] = {"description": "The client has this revision already.", "headers": _refer("ETag")}
    return found


def _answer(operation: Operation, status: int, answer: Answer, schema_of: SchemaOf) -> JsonObject:
    response: JsonObject = {"description": answer.summary}
    headers: JsonObject = {name: {"description": meaning, "schema": TEXT} for name, meaning in answer.headers.items()}
    if operation.editable and operation.method != "DELETE" and status < 300:
        headers |= _refer("ETag")
    if operation.method == "POST" and not operation.open and operation.repeat != "own":
        headers |= _refer("Idempotency-Replayed")
    if headers:
        response["headers"] = headers
    content = _content(answer, schema_of)
    if content:
        response["content"] = content
    if answer.links:
        response["links"] = {link.operation: _link(link) for link in answer.links}
    return response


def _content(answer: Answer, schema_of: SchemaOf) -> JsonObject:
    schema: JsonObject | None = None
    if answer.items is not None:
        schema = page_of(schema_of(answer.items))
    elif answer.schema is not None:
        schema = schema_of(answer.schema)
    if schema is None:
        return {}
    media: JsonObject = {"schema": schema}
    if answer.example is not None:
        media["example"] = answer.example
    content: JsonObject = {answer.media_type: media}
    if answer.stream_example:
        content[STREAM] = {"schema": SSE, "example": answer.stream_example}
    return content


def _link(link: Link) -> JsonObject:
    return {
        "operationId": link.operation,
        "description": link.summary,
        "parameters": {name: f"$response.body#{pointer}" for name, pointer in link.path.items()},
    }
