"""Revisions over HTTP: `ETag`, `If-Match` and `If-None-Match` of things that people edit. The tag is the revision."""

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
    """An answer with the thing's tag; 304 without a body where the reader has this revision already. Revision 0 is what
    was there before anybody saved, and may change without notice."""
    tag = tag_of(revision)
    known = request.headers.get("if-none-match")
    if known is not None and request.method in ("GET", "HEAD") and tag in _tags(known) and revision:
        return Response(status_code=304, headers={"etag": tag})
    return JsonAnswer(body, status_code=status_code, headers={"etag": tag})


def edited_revision(request: Request, now: int | None, body: JsonObject | None = None) -> int | None:
    """The revision that the caller edited, where only the header or the query names it. One in the body is compared by
    whoever keeps the thing. `now` is the revision that is there, nothing where the thing is not.

    What is returned is compared again when the change is made. Raises `PreconditionFailed` where that cannot go well.
    """
    named = whole_number(request, "revision", "send the revision you read") if body is None else None
    match, none = request.headers.get("if-match"), request.headers.get("if-none-match")
    if none is not None:
        if none.strip() != "*":
            raise InvalidRequest(
                "If-None-Match is not *", hint="send If-Match with the tag you read", field="if-none-match"
            )
        if now is not None:
            raise _failed("the thing is there already", now)
        return 0
    if match is None:
        return named
    if match.strip() == "*":
        if now is None:
            raise _failed("the thing is not there", None)
        return now
    if now is None or tag_of(now) not in _tags(match):
        raise _failed("the thing is not at the revision of If-Match", now)
    if named not in (None, now) or (body is not None and body.get("revision", now) != now):
        raise InvalidRequest("If-Match and revision differ", hint="send one of them", field="revision")
    return now


@contextmanager
def held_to_match(request: Request) -> Generator[None]:
    """A conflict about the revision is a failed precondition where the request had one."""
    try:
        yield
    except Conflict as error:
        if "revision" in error.details and ("if-match" in request.headers or "if-none-match" in request.headers):
            raise PreconditionFailed(
                error.message, hint=error.hint, revision=_whole(error.details["revision"])
            ) from error
        raise


def with_revision(body: JsonObject, revision: int | None) -> JsonObject:
    """The body, naming the revision that was edited."""
    return body if revision is None else {**body, "revision": revision}


def _failed(sentence: str, now: int | None) -> PreconditionFailed:
    return PreconditionFailed(sentence, hint="read it again and repeat the change", revision=now)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _tags(header: str) -> list[str]:
    """The tags of a header. A weak one is kept as it is, and so is never equal to one of ours."""
    return [tag.strip() for tag in header.split(",")]
