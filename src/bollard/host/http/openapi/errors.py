"""Errors of operations: what each code means, and with which an operation may answer. Values and pure functions."""

from collections.abc import Mapping
from typing import Final

import msgspec

from bollard.host.http.answers import STATUS
from bollard.host.http.operations import Operation
from bollard.protocol import JsonObject, JsonValue


class ErrorWords(msgspec.Struct, frozen=True, kw_only=True):
    """One code: what it means, and an answer that has it."""

    summary: str
    message: str
    hint: str
    retryable: bool = False
    details: JsonObject = msgspec.field(default_factory=dict[str, JsonValue])

    def example(self, code: str) -> JsonObject:
        """The whole body of such an answer."""
        return {
            "error": {
                "code": code,
                "message": self.message,
                "hint": self.hint,
                "retryable": self.retryable,
                "details": self.details,
                "docs": f"docs/reference/http.md#{code}",
            }
        }


ERROR_WORDS: Final[Mapping[str, ErrorWords]] = {
    "not_found": ErrorWords(
        summary="There is no such thing, or it is not yours.",
        message="there is no such run",
        hint="`bollard runs` lists the newest",
    ),
    "invalid_argument": ErrorWords(
        summary="A field or a parameter is missing, unknown or out of range.",
        message="there is no parameter colour",
        hint="nothing can be asked for here",
        details={"field": "colour"},
    ),
    "payload_too_large": ErrorWords(
        summary="The body is larger than its limit.",
        message="the body is larger than 1048576 bytes",
        hint="send less",
        details={"field": "body"},
    ),
    "unsupported_media_type": ErrorWords(
        summary="The body is of a kind that is not read here.",
        message="application/cloudevents+avro is not read here",
        hint="send application/cloudevents+json or application/cloudevents-batch+json",
        details={"field": "body"},
    ),
    "unauthenticated": ErrorWords(
        summary="The token is missing or wrong.",
        message="this needs a token",
        hint="send `Authorization: Bearer …` with an API key, or the admin token that the first start printed",
    ),
    "unauthorized": ErrorWords(
        summary="The caller may not do this.",
        message="this needs the right agents.write",
        hint="ask an admin of the workspace for a role or a key that has it",
        details={"right": "agents.write"},
    ),
    "forbidden_origin": ErrorWords(
        summary="A page of another site asks, or a browser does not say where it comes from.",
        message="pages of https://other.example may not ask this host",
        hint="if they may, add it to the setting origins: https://other.example",
    ),
    "forbidden_host": ErrorWords(
        summary="The request was meant for another name than this host's.",
        message="this host is not called other.example",
        hint="if it is, say so in the setting allowed_hosts, or in origins with its whole address",
    ),
    "malformed_request": ErrorWords(
        summary="What came is no HTTP request that two readers would read alike.",
        message="the request has two lengths",
        hint="send each header once",
    ),
    "expectation_failed": ErrorWords(
        summary="The client expects something else than to be told to go on.",
        message="nothing but 100-continue can be expected",
        hint="send no other Expect header",
    ),
    "request_timeout": ErrorWords(
        summary="The request came too slowly; nothing of it was done.",
        message="the head came too slowly",
        hint="it is waited for 10 s at a time",
        retryable=True,
    ),
    "head_too_large": ErrorWords(
        summary="The head of the request is larger than its limit.",
        message="the head is larger than 32768 bytes or 100 lines",
        hint="send less in headers and in the address",
    ),
    "too_many_connections": ErrorWords(
        summary="There is no place for another connection.",
        message="12000 connections are open",
        hint="try again in a moment",
        retryable=True,
        details={"limit": 12000},
    ),
    "method_not_allowed": ErrorWords(
        summary="The path exists, but not for this method.",
        message="PATCH is not possible here",
        hint="use GET, HEAD, POST",
    ),
    "conflict": ErrorWords(
        summary="The thing is in a state that does not allow this.",
        message="the run has ended: completed",
        hint="there is nothing to cancel",
        details={"status": "completed"},
    ),
    "precondition_failed": ErrorWords(
        summary="The thing is not at the revision that `If-Match` or `If-None-Match` names.",
        message="the thing is not at the revision of If-Match",
        hint="read it again and repeat the change",
        details={"revision": 4},
    ),
    "range_not_satisfiable": ErrorWords(
        summary="No byte of the content is in the range that was asked for.",
        message="the content has 22 bytes",
        hint="ask for bytes that it has",
        details={"size": 22},
    ),
    "idempotency_mismatch": ErrorWords(
        summary="The `Idempotency-Key` came before with another request.",
        message="this Idempotency-Key came before with another request",
        hint="use a new key for every request that is another one",
    ),
    "upgrade_required": ErrorWords(
        summary="This is a WebSocket, and a plain request came.",
        message="this is a WebSocket",
        hint="connect with ws:// or wss://, or read the run's …/stream",
    ),
    "consent_needed": ErrorWords(
        summary="Somebody must say yes to what the plugin asks for; `details.consent` is the yes to send.",
        message="acme/parrot asks for more than was consented to",
        hint="send the same again with details.consent as consent",
        details={"consent": "9f2c1e0a77"},
    ),
    "plugin_unusable": ErrorWords(
        summary="No worker of this plugin could be started, so it was not taken.",
        message="no worker of acme/parrot could be started",
        hint="details.problem says why; try it with `bollard plugin dev`",
        details={"problem": "ModuleNotFoundError: No module named 'parrot'"},
    ),
    "rate_limited": ErrorWords(
        summary="A limit is reached; try again later.",
        message="more than 300000 requests in a minute",
        hint="wait as long as Retry-After says, or ask less often",
        retryable=True,
        details={"retry_after_s": 0.2, "limit": 300000, "window_s": 60, "whose": "identity"},
    ),
    "budget_exceeded": ErrorWords(
        summary="A budget of the agent is used up.",
        message="agent parrot has had its 100 runs of today",
        hint="wait for the next day (UTC), or raise budget.runs_per_day",
        details={"retry_after_s": 3600},
    ),
    "draining": ErrorWords(
        summary="This host takes nothing new; another one, or later.",
        message="the host takes nothing new",
        hint="send work to another host, or later",
        retryable=True,
    ),
    "storage_full": ErrorWords(
        summary="The store has no space left; nothing was written.",
        message="the disk is full, so nothing new is taken",
        hint="free space in the data directory",
        retryable=True,
    ),
    "storage_unavailable": ErrorWords(
        summary="The store cannot be used now; nothing was written.",
        message="the store cannot be used now",
        hint="try again in a moment; the host's log says more",
        retryable=True,
    ),
    "storage_stalled": ErrorWords(
        summary="The journal or the store has not answered in time; whether the request was done is not known yet.",
        message="the journal has not answered for 5 s: whether this was done is not known yet",
        hint="repeat the request with the same Idempotency-Key or event id: it returns the first outcome",
        retryable=True,
        details={"outcome": "unknown", "waits_for": "journal", "retry_after_s": 5.0},
    ),
    "audit_unavailable": ErrorWords(
        summary="What must be written down before it is done could not be, in time; nothing was done.",
        message="this could not be written down in time",
        hint="the disk is slow or full; look at `bollard doctor`, and try again",
    ),
    "worker_unavailable": ErrorWords(
        summary="No worker can run this plugin now.",
        message="no worker of local/parrot is ready",
        hint="`bollard plugin show` says why",
        retryable=True,
    ),
    "knowledge_unavailable": ErrorWords(
        summary="Knowledge bases cannot be asked now.",
        message="the knowledge process does not answer",
        hint="try again in a moment; the host's log says more",
        retryable=True,
    ),
    "fenced": ErrorWords(
        summary="Another host has the run by now, or it has ended; what came was discarded.",
        message="this host does not own the run any more",
        hint="read the run again",
    ),
    "runtime_error": ErrorWords(
        summary="A mistake of the host.",
        message="the host made a mistake",
        hint="its log says more; please report it",
    ),
}
"""Every code that an answer may have."""
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
"""What any request may be answered with, at the edge or because of its query."""
_GUARDED: Final = ("unauthenticated", "not_found", "storage_unavailable", "storage_stalled")
"""Of what needs a token: it may be wrong, or name a workspace that is not there; and all of it needs the store."""
_KEYED: Final = ("conflict", "idempotency_mismatch")
"""Of what takes an `Idempotency-Key` whose answer is kept."""


def errors_of(operation: Operation) -> frozenset[str]:
    """Every code that the operation may answer with: its own, and those of its kind."""
    found = {*_EVERY, *operation.errors}
    if operation.body is not None:
        found.add("payload_too_large")
    if not operation.open:
        found.update(_GUARDED)
        if operation.right is not None:
            found.add("unauthorized")
        if operation.method not in ("GET", "OPTIONS"):
            found.add("storage_full")
        if operation.method == "POST" and operation.repeat != "own":
            found.update((*_KEYED, "payload_too_large"))
    return frozenset(found)


def errors_by_status(operation: Operation) -> dict[int, list[str]]:
    """The same by the status that they come with, those first that mean most to a program."""
    found: dict[int, list[str]] = {}
    codes = errors_of(operation)
    for code in sorted(STATUS, key=lambda code: (code not in operation.errors, code in _EVERY)):
        if code in codes:
            found.setdefault(STATUS[code], []).append(code)
    return dict(sorted(found.items()))
