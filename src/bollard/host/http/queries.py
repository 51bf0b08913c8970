"""Queries of requests: only what an operation lists, each once, each with a value that can be meant. Pure."""

import difflib
from collections.abc import Sequence
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import HTTPConnection

from bollard.host.errors import InvalidRequest
from bollard.host.http.operations import PAGE_ITEMS, QUERY_CHARACTERS, QueryField

__all__ = ["TICKET", "check_query", "flag", "page_limit", "refuse_token", "ticket_in", "whole_number"]

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
