"""Query parameters and pages. A query may only have the parameters that its operation lists, each once. Pure."""

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
_TOKEN_STARTS: Final = ("bollard_", "blk_", "bls_", "blg_", "blt_")
_NUMBER_DIGITS: Final = 15


def check_query(fields: Sequence[QueryField], query: bytes, *, ticket: bool = False) -> None:
    """Raise `InvalidRequest` for the first parameter that is unknown, repeated, missing, empty or out of
    range."""
    known = {field.name: field for field in fields}
    seen: set[str] = set()
    for name, value in _pairs(query):
        if ticket and name == TICKET:
            continue
        field = known.get(name)
        if field is None:
            raise _unknown(name, sorted(known))
        if name in seen:
            raise InvalidRequest(
                f"the parameter {name} is repeated", reason="query_repeated", hint=f"send {name} once", field=name
            )
        seen.add(name)
        _check_value(field, value)
    for field in fields:
        if field.required and field.name not in seen:
            raise InvalidRequest(
                f"the parameter {field.name} is missing",
                reason="query_missing",
                hint=f"send {field.name}=…",
                field=field.name,
            )


def _pairs(query: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=64, errors="strict")
    except ValueError:
        raise InvalidRequest(
            "the query is malformed", reason="query", hint="send name=value pairs in UTF-8", field="query"
        ) from None


def _unknown(name: str, known: list[str]) -> InvalidRequest:
    field, message = name[:64], f"there is no parameter {name[:64]}"
    if not known:
        hint = "this operation has no parameters"
        return InvalidRequest(message, reason="query_none", hint=hint, field=field)
    if near := difflib.get_close_matches(field, known, n=1):
        hint = f"did you mean {near[0]}?"
        return InvalidRequest(message, reason="query_similar", hint=hint, field=field, similar=near[0])
    names = ", ".join(known)
    return InvalidRequest(message, reason="query_unknown", hint=f"the parameters are {names}", field=field, names=names)


def _check_value(field: QueryField, value: str) -> None:
    name = field.name
    if field.kind == "number":
        number = whole_number_in(value, name, "send a whole number")
        if number < field.least or (field.most is not None and number > field.most):
            least, most = field.least, field.most
            if most is None:
                raise InvalidRequest(
                    f"{name} is too small", reason="query_least", hint=f"use {least} or more", field=name, least=least
                )
            raise InvalidRequest(
                f"{name} is out of range",
                reason="query_range",
                hint=f"use {least} to {most}",
                field=name,
                least=least,
                most=most,
            )
    elif field.kind == "flag":
        if value not in ("true", "false"):
            raise InvalidRequest(
                f"{name} is neither true nor false", reason="query_flag", hint="use true or false", field=name
            )
    elif field.choices:
        if value not in field.choices:
            choices = ", ".join(field.choices)
            raise InvalidRequest(
                f"there is no {name} {value[:64]!r}",
                reason="query_choice",
                hint=f"use one of {choices}",
                field=name,
                value=value[:64],
                choices=choices,
            )
    elif not value or len(value) > (field.most or QUERY_CHARACTERS) or "\0" in value:
        limit = field.most or QUERY_CHARACTERS
        raise InvalidRequest(
            f"{name} must have 1 to {limit} characters",
            reason="query_length",
            hint=f"leave {name} out, or send a value",
            field=name,
            max_characters=limit,
        )


def refuse_token(query: bytes) -> None:
    """Refuse a token in a URL, which would end up in logs, histories and `Referer` headers."""
    for name, value in _pairs(query):
        if name.lower() in _TOKEN_NAMES or value.startswith(_TOKEN_STARTS):
            raise InvalidRequest(
                "a token does not belong in a URL: it would stay in logs and histories",
                reason="token_in_url",
                hint="send it as `Authorization: Bearer …`, or get a ticket with POST /api/v1/tickets",
                field=name[:64],
            )


def ticket_in(connection: HTTPConnection) -> str | None:
    """The single-use ticket of a query."""
    return connection.query_params.get(TICKET) if connection.scope["query_string"] else None


def page_limit(request: HTTPConnection) -> int:
    """The page size of a request; the guard has checked it."""
    text = request.query_params.get("limit")
    return PAGE_ITEMS if text is None else int(text)


def whole_number(request: HTTPConnection, name: str, hint: str) -> int | None:
    """A number of the query; `None` if it is absent."""
    text = request.query_params.get(name)
    return None if text is None else whole_number_in(text, name, hint)


def whole_number_in(text: str, name: str, hint: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _NUMBER_DIGITS:
        raise InvalidRequest(f"{name} is not a whole number", reason="query_number", hint=hint, field=name)
    return int(text)


CREATED: Final = (
    QueryField(
        name="since", summary="Seconds of the epoch: only those from this time on.", kind="number", example=1790000000
    ),
    QueryField(
        name="until", summary="Seconds of the epoch: only those before this time.", kind="number", example=1790000000
    ),
)
"""A range of times."""


def created_between(request: HTTPConnection) -> tuple[int | None, int | None]:
    """The times of `CREATED`, in milliseconds."""
    since, until = (whole_number(request, field.name, "send seconds of the epoch") for field in CREATED)
    return None if since is None else since * 1000, None if until is None else until * 1000


def flag(request: HTTPConnection, name: str) -> bool:
    """A parameter that is `true` or `false`; false if it is absent."""
    return request.query_params.get(name) == "true"


# --- pages ---

T = TypeVar("T")


class Pages:
    """Builds pages (`{items, has_more, next_cursor}`) and their signed cursors. A cursor is valid for one list of one
    workspace."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def place(self, request: Request, purpose: str) -> JsonValue:
        """The position where the page begins; `None` for the first page."""
        cursor = request.query_params.get("cursor")
        if cursor is None:
            return None
        try:
            return open_cursor(self._secret, cursor, purpose=purpose, scope=caller_of(request).workspace)
        except BadCursor as error:
            raise InvalidRequest(
                str(error), reason="cursor", hint="start again without a cursor", field="cursor"
            ) from error

    def numbered(self, request: Request, purpose: str) -> int | None:
        """The position, for lists whose positions are numbers."""
        place = self.place(request, purpose)
        return place if isinstance(place, int) else None

    def answer(self, request: Request, purpose: str, items: Sequence[JsonObject], behind: JsonValue) -> JsonAnswer:
        """A page. `behind` is the position of its last item if more items follow, otherwise `None`."""
        body: JsonObject = {"items": [*items], "has_more": behind is not None}
        if behind is not None:
            body["next_cursor"] = self.seal(caller_of(request).workspace, purpose, behind)
        return JsonAnswer(body)

    def seal(self, workspace: str, purpose: str, place: JsonValue) -> str:
        """A cursor for a position."""
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
        """A page of rows, of which the caller reads one more than the page has. Rows that `keep` rejects make the page
        shorter. `cut`: the store returned fewer rows because they are large."""
        limit = page_limit(request)
        if cut and len(rows) <= limit:
            limit = max(1, len(rows) - 1)  # a single large row may be the last: then the next page is empty
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
        """A page of items in memory, sorted by key. The cursor is the last key."""
        place = self.place(request, purpose)
        start = 0 if place is None else bisect_right(things, str(place), key=key)
        return self.of_rows(request, purpose, things[start : start + page_limit(request) + 1], shown, key)
