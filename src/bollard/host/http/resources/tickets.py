"""Tickets for streams and sockets: clients that cannot send a header send a ticket in the URL."""

from collections.abc import Callable
from typing import Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.errors import Forbidden, InvalidRequest
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.auth.tickets import TicketRegistry
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.schemas import TEXT, fields
from bollard.host.http.operations import Answer, Operation
from bollard.host.http.resources.declaration import DeclaredResource, operation
from bollard.host.http.router import PATH_CHARACTERS
from bollard.host.limits import RENEWABLE_TICKET_IDLE_S, RENEWABLE_TICKET_S, TICKET_S
from bollard.protocol import Flag, JsonObject, Strict

_SECONDS: Final[JsonObject] = {"type": "number"}


class IssueTicket(Strict):
    """`POST /api/v1/tickets`."""

    path: str = Field(min_length=1, max_length=PATH_CHARACTERS, description="The path that the ticket opens.")
    renewable: Flag = Field(default=False, description="Whether the ticket opens its stream again after each break.")


class Tickets(DeclaredResource):
    """Issues tickets."""

    tag = "tickets"

    def __init__(self, book: TicketRegistry, operation_at: Callable[[str], Operation | None]) -> None:
        self._book = book
        self._operation_at = operation_at

    @operation(
        "POST /api/v1/tickets",
        name="issueTicket",
        summary="Issue a ticket for a stream or a socket.",
        description="The ticket opens this path once, within 30 seconds, for the caller. With `renewable` it opens a "
        "stream of server-sent events again and again: until `idle_s` seconds have passed without an open stream, "
        "`expires_in_s` are over, or the caller's token has ended. A token in a URL is always refused.",
        body=IssueTicket,
        body_example={"path": "/api/v1/runs/run_01/stream"},
        answers={
            201: Answer(
                summary="The ticket, to send as `?ticket=`.",
                schema=fields({"idle_s": _SECONDS}, ticket=TEXT, path=TEXT, expires_in_s=_SECONDS),
                example={"ticket": "tkt_…", "path": "/api/v1/runs/run_01/stream", "expires_in_s": TICKET_S},
            )
        },
    )
    async def issue(self, request: Request) -> Response:
        body, caller = parsed(IssueTicket, await read_body(request)), caller_of(request)
        path = body.path
        operation = self._operation_at(path)
        if operation is None or not operation.ticket:
            raise InvalidRequest(
                "path: tickets do not open this path",
                reason="ticket_path",
                hint="name the path of a stream or a socket",
                field="path",
            )
        if operation.right is not None and not caller.may(operation.right):
            raise Forbidden(
                f"this needs the right {operation.right}",
                reason="missing_right",
                hint="ask for a key that has it",
                right=operation.right,
            )
        if body.renewable and operation.socket is not None:
            raise InvalidRequest(
                "renewable: a socket has single-use tickets only",
                reason="ticket_renewable",
                hint="get a new ticket for each connection",
                field="renewable",
            )
        if body.renewable:
            answer: JsonObject = {
                "ticket": self._book.renewable.issue(caller, path),
                "path": path,
                "expires_in_s": RENEWABLE_TICKET_S,
                "idle_s": RENEWABLE_TICKET_IDLE_S,
            }
            return JsonAnswer(answer, status_code=201)
        ticket = self._book.issue(caller, path)
        return JsonAnswer({"ticket": ticket, "path": path, "expires_in_s": TICKET_S}, status_code=201)
