"""Revisions of resources over HTTP: `ETag`, `If-Match` and `If-None-Match`. The tag is the revision."""

from collections.abc import Generator
from contextlib import contextmanager

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.errors import Conflict, InvalidRequest
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.errors import PreconditionFailed
from bollard.host.http.queries import whole_number
from bollard.protocol import JsonObject


def tag_of(revision: int) -> str:
    return f'"{revision}"'


def revised(request: Request, body: JsonObject, revision: int, *, status_code: int = 200) -> Response:
    """A response with the tag of the resource, or 304 if the client has this revision. Revision 0 is a default that was
    never saved: it may change without a new revision, so it never gets a 304."""
    tag = tag_of(revision)
    known = request.headers.get("if-none-match")
    if known is not None and request.method in ("GET", "HEAD") and tag in _tags(known) and revision:
        return Response(status_code=304, headers={"etag": tag})
    return JsonAnswer(body, status_code=status_code, headers={"etag": tag})


def edited_revision(request: Request, now: int | None, body: JsonObject | None = None) -> int | None:
    """The revision that the caller edited, from the header or the query. A revision in the body is compared by the
    repository. `now` is the current revision, `None` if the resource does not exist.

    The repository compares the result again when it commits. Raises `PreconditionFailed` if that must fail.
    """
    named = whole_number(request, "revision", "send the revision you read") if body is None else None
    match, none = request.headers.get("if-match"), request.headers.get("if-none-match")
    if none is not None:
        if none.strip() != "*":
            raise InvalidRequest(
                "If-None-Match is not *",
                reason="if_none_match",
                hint="send If-Match with the tag you read",
                field="if-none-match",
            )
        if now is not None:
            raise _failed("exists", "the resource exists already", now)
        return 0
    if match is None:
        return named
    if match.strip() == "*":
        if now is None:
            raise _failed("missing", "the resource does not exist", None)
        return now
    if now is None or tag_of(now) not in _tags(match):
        raise _failed("if_match", "the resource is not at the revision of If-Match", now)
    if named not in (None, now) or (body is not None and body.get("revision", now) != now):
        raise InvalidRequest(
            "If-Match and revision differ", reason="revision_differs", hint="send one of them", field="revision"
        )
    return now


@contextmanager
def held_to_match(request: Request) -> Generator[None]:
    """Turn a revision conflict into a failed precondition if the request has one."""
    try:
        yield
    except Conflict as error:
        if "revision" in error.details and ("if-match" in request.headers or "if-none-match" in request.headers):
            failed = PreconditionFailed(error.message, reason=error.reason, hint=error.hint)
            failed.details = {**error.details}
            raise failed from error
        raise


def _failed(reason: str, message: str, now: int | None) -> PreconditionFailed:
    return PreconditionFailed(message, reason=reason, hint="read it again and repeat the change", revision=now)


def _tags(header: str) -> list[str]:
    """The tags of a header. A weak tag keeps its prefix, so it never matches."""
    return [tag.strip() for tag in header.split(",")]
