"""Queries of requests: only what an operation lists, each once, each with a value that can be meant. Pure."""

import difflib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, TypeVar
from urllib.parse import parse_qsl

from starlette.requests import HTTPConnection, Request

from bollard.host.errors import InvalidRequest
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.operations import PAGE_ITEMS, QUERY_CHARACTERS, QueryField
from bollard.protocol import JsonObject, JsonValue
from bollard.trust import BadCursor, open_cursor, seal_cursor

TICKET: Final = "ticket"
_TOKEN_NAMES: Final = frozenset(
    {"token", "access_token", "api_key", "apikey", "key", "authorization", "auth", "bearer", "password", "secret"}
)
_TOKEN_STARTS: Final = ("bollard_", "blk_", "bls_", "blg_")
_NUMBER_DIGITS: Final = 15


def check_query(fields: Sequence[QueryField], query: bytes, *, ticket: bool = False) -> None:
    """Raises `InvalidRequest` at the first parameter that is unknown, twice there, empty or out of range."""
    known = {field.name: field for field in fields}
    seen: set[str] = set()
    for name, value in _pairs(query):
        if ticket and name == TICKET:
            continue
        field = known.get(name)
        if field is None:
            raise _unknown(name, sorted(known))
        if name in seen:
            raise InvalidRequest(f"{name} is given twice", hint=f"give {name} once", field=name)
        seen.add(name)
        _check_value(field, value)


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=64, errors="strict")
    except ValueError:
        raise InvalidRequest("the query cannot be read", hint="send name=value pairs in UTF-8", field="query") from None


def _unknown(name: str, known: list[str]) -> InvalidRequest:
    shown = name[:64]
    if not known:
        return InvalidRequest(f"there is no parameter {shown}", hint="nothing can be asked for here", field=shown)
    near = difflib.get_close_matches(shown, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"the parameters are {', '.join(known)}"
    return InvalidRequest(f"there is no parameter {shown}", hint=hint, field=shown)


def _check_value(field: QueryField, value: str) -> None:
    name = field.name
    if field.kind == "number":
        number = whole_number_in(value, name, "send a whole number")
        if number < field.least or (field.most is not None and number > field.most):
            between = f"{field.least} or more" if field.most is None else f"{field.least} to {field.most}"
            raise InvalidRequest(f"{name} is out of range", hint=f"use {between}", field=name)
    elif field.kind == "flag":
        if value not in ("true", "false"):
            raise InvalidRequest(f"{name} is neither true nor false", hint="use true or false", field=name)
    elif field.choices:
        if value not in field.choices:
            raise InvalidRequest(
                f"there is no {name} {value[:64]!r}", hint=f"use one of {', '.join(field.choices)}", field=name
            )
    elif not value or len(value) > (field.most or QUERY_CHARACTERS) or "\0" in value:
        raise InvalidRequest(
            f"{name} is not 1 to {field.most or QUERY_CHARACTERS} characters",
            hint=f"leave {name} out, or give it a value",
            field=name,
        )


def refuse_token(query: bytes) -> None:
    """A token in a URL ends up in logs, histories and `Referer` headers: it is never taken from there."""
    for name, value in _pairs(query):
        if name.lower() in _TOKEN_NAMES or value.startswith(_TOKEN_STARTS):
            raise InvalidRequest(
                "a token does not belong in a URL: it would stay in logs and histories",
                hint="send it as `Authorization: Bearer …`, or get a ticket with POST /api/v1/tickets",
                field=name[:64],
            )


def ticket_in(connection: HTTPConnection) -> str | None:
    """The single-use ticket of a query."""
    return connection.query_params.get(TICKET) if connection.scope["query_string"] else None


def page_limit(request: HTTPConnection) -> int:
    """How many items of a list are wanted; the guard has looked at it."""
    text = request.query_params.get("limit")
    return PAGE_ITEMS if text is None else int(text)


def whole_number(request: HTTPConnection, name: str, hint: str) -> int | None:
    """A number of the query; `None` where it is absent."""
    text = request.query_params.get(name)
    return None if text is None else whole_number_in(text, name, hint)


def whole_number_in(text: str, name: str, hint: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _NUMBER_DIGITS:
        raise InvalidRequest(f"{name} is not a whole number", hint=hint, field=name)
    return int(text)


def flag(request: HTTPConnection, name: str) -> bool:
    """A parameter that is `true` or `false`; false where it is absent."""
    return request.query_params.get(name) == "true"


# Pages of every list: `limit` and a signed `cursor` in, `{items, has_more, next_cursor}` out.


T = TypeVar("T")


class Pages:
    """Makes and reads cursors: each is good for one list of one workspace."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def place(self, request: Request, purpose: str) -> JsonValue:
        """Where the page begins, as `answer` was told; nothing for the first page."""
        cursor = request.query_params.get("cursor")
        if cursor is None:
            return None
        try:
            return open_cursor(self._secret, cursor, purpose=purpose, scope=caller_of(request).workspace)
        except BadCursor as error:
            raise InvalidRequest(str(error), hint="start again without a cursor", field="cursor") from error

    def numbered(self, request: Request, purpose: str) -> int | None:
        """The same, for lists whose places are numbers."""
        place = self.place(request, purpose)
        return place if isinstance(place, int) else None

    def answer(self, request: Request, purpose: str, items: Sequence[JsonObject], behind: JsonValue) -> JsonAnswer:
        """A page. `behind` is the place of its last item where there is more, else nothing."""
        body: JsonObject = {"items": [*items], "has_more": behind is not None}
        if behind is not None:
            body["next_cursor"] = self.seal(caller_of(request).workspace, purpose, behind)
        return JsonAnswer(body)

    def seal(self, workspace: str, purpose: str, place: JsonValue) -> str:
        """A cursor for a place."""
        return seal_cursor(self._secret, purpose=purpose, scope=workspace, place=place)

    def of_rows(
        self,
        request: Request,
        purpose: str,
        rows: Sequence[T],
        shown: Callable[[T], JsonObject],
        place: Callable[[T], JsonValue],
        keep: Callable[[T], bool] = lambda _: True,
        *,
        cut: bool = False,
    ) -> JsonAnswer:
        """A page of rows that were read, one more than the page may have. What is not kept makes the page shorter, and
        so does the store, where they are so large that it `cut` them."""
        limit = page_limit(request)
        if cut and len(rows) <= limit:
            limit = max(1, len(rows) - 1)  # a single one that fills a page may be the last: then the next is empty
        behind = place(rows[limit - 1]) if cut or len(rows) > limit else None
        return self.answer(request, purpose, [shown(row) for row in rows[:limit] if keep(row)], behind)

    def of_all(
        self,
        request: Request,
        purpose: str,
        things: Sequence[T],
        key: Callable[[T], str],
        shown: Callable[[T], JsonObject],
    ) -> JsonAnswer:
        """A page of things that are all in memory, in the order of their keys. The cursor is the last key."""
        place = self.place(request, purpose)
        start = 0 if place is None else bisect_right(things, str(place), key=key)
        return self.of_rows(request, purpose, things[start : start + page_limit(request) + 1], shown, key)
