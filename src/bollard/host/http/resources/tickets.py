"""`/tickets`: a single-use stand-in for a token, for a stream or a socket of a reader that cannot send a header."""

from collections.abc import Callable

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
from bollard.host.limits import TICKET_S
from bollard.protocol import Strict


class IssueTicket(Strict):
    """`POST /api/v1/tickets`."""

    path: str = Field(min_length=1, max_length=PATH_CHARACTERS, description="The path that it will open, once.")


class Tickets(DeclaredResource):
    """Issues tickets."""

    tag = "tickets"

    def __init__(self, book: TicketRegistry, operation_at: Callable[[str], Operation | None]) -> None:
        self._book = book
        self._operation_at = operation_at

    @operation(
        "POST /api/v1/tickets",
        name="issueTicket",
        summary="A single-use ticket for a stream or a socket.",
        description="It opens this path, once, within 30 seconds, in the name of whoever asked for it. A "
        "token in a URL is refused wherever it stands.",
        body=IssueTicket,
        body_example={"path": "/api/v1/runs/run_01/stream"},
        answers={
            201: Answer(
                summary="The ticket, to be sent as `?ticket=`.",
                schema=fields(ticket=TEXT, path=TEXT, expires_in_s={"type": "number"}),
                example={"ticket": "tkt_…", "path": "/api/v1/runs/run_01/stream", "expires_in_s": TICKET_S},
            )
        },
    )
    async def issue(self, request: Request) -> Response:
        path, caller = parsed(IssueTicket, await read_body(request)).path, caller_of(request)
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
        ticket = self._book.issue(caller, path)
        return JsonAnswer({"ticket": ticket, "path": path, "expires_in_s": TICKET_S}, status_code=201)
