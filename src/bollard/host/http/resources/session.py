"""`/session`: exchange a password for a session, see who you are, and end it.

A program gets the session's token in the answer; a browser asks for a cookie instead, which no script can read.
"""

from collections.abc import Callable
from typing import Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.errors import Conflict, Forbidden, InvalidRequest
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import SECURE_COOKIE, caller_of, cookie_name, token_of
from bollard.host.http.auth.tickets import TicketRegistry
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.schemas import TEXT, TIME, array_of, choice, fields
from bollard.host.http.operations import Answer, Operation
from bollard.host.http.resources.declaration import DeclaredResource, answer, answer_body, operation
from bollard.host.http.router import PATH_CHARACTERS
from bollard.host.identity.caller import DEFAULT_WORKSPACE, RIGHTS, ROLES, Caller, rights_of
from bollard.host.identity.directory import IdentityDirectory
from bollard.host.identity.sessions import digest_of
from bollard.host.limits import PASSWORD_CHARACTERS, SESSION_S, TICKET_S
from bollard.protocol import Flag, JsonObject, Strict

_ID_CHARACTERS: Final = 64
_TAG: Final = "session"


class BeginSession(Strict):
    """`POST /api/v1/session`."""

    workspace: str = Field(default=DEFAULT_WORKSPACE, max_length=_ID_CHARACTERS)
    user: str = Field(max_length=_ID_CHARACTERS)
    password: str = Field(max_length=PASSWORD_CHARACTERS)
    cookie: Flag = Field(default=False, description="Set the token as a cookie instead of returning it.")


class ChangePassword(Strict):
    """`POST /api/v1/session/password`."""

    old: str = Field(max_length=PASSWORD_CHARACTERS)
    new: str = Field(max_length=PASSWORD_CHARACTERS)


_CALLER: Final = answer_body(
    "Caller",
    {
        "workspace": DEFAULT_WORKSPACE,
        "kind": "session",
        "name": "user:ann",
        "user_id": "ann",
        "role": "viewer",
        "rights": [right for right in RIGHTS if right in rights_of("viewer")],
        "expires_at": 1767225600.0,
    },
    {"user_id": TEXT, "role": choice(*ROLES), "expires_at": TIME},
    workspace=TEXT,
    kind=choice("installation", "key", "session"),
    rights=array_of(choice(*RIGHTS)),
)
_BEGUN: Final = fields(
    {"token": TEXT},
    workspace=TEXT,
    user_id=TEXT,
    role=choice(*ROLES),
    rights=array_of(choice(*RIGHTS)),
    expires_at=TIME,
)


_SESSION: Final = "/api/v1/session"


class SessionRoutes(DeclaredResource):
    """The session of the caller."""

    tag = _TAG

    def __init__(self, book: IdentityDirectory) -> None:
        self._book = book

    @operation(
        f"POST {_SESSION}",
        name="beginSession",
        summary="Log in with a password.",
        description="A failed login has the same answer and the same duration for every cause. With `cookie` the token "
        "is not returned, but set as a cookie that no script can read.",
        open=True,
        repeat="own",
        body=BeginSession,
        body_example={"user": "ann", "password": "correct horse battery"},
        answers={
            201: Answer(
                summary="The session, and its token unless a cookie was asked for.",
                schema=_BEGUN,
                example={
                    **{
                        name: _CALLER.example[name] for name in ("workspace", "user_id", "role", "rights", "expires_at")
                    },
                    "token": "bls_…",
                },
                headers={"Set-Cookie": "Where a cookie was asked for."},
            )
        },
        errors=("unauthenticated", "rate_limited", "storage_full", "storage_unavailable"),
    )
    async def begin(self, request: Request) -> Response:
        body = parsed(BeginSession, await read_body(request))
        session = await self._book.sessions.begin(body.workspace, body.user, body.password, _address(request))
        role = self._book.users.get(session.workspace, session.user_id).value.role
        answer: JsonObject = {
            "workspace": session.workspace,
            "user_id": session.user_id,
            "role": role,
            "rights": [right for right in RIGHTS if right in rights_of(role)],
            "expires_at": session.expires_ms / 1000,
        }
        if not body.cookie:
            return JsonAnswer({**answer, "token": session.token}, status_code=201)
        made = JsonAnswer(answer, status_code=201)
        _set_cookie(request, made, session.token, round(SESSION_S))
        return made

    @operation(
        f"GET {_SESSION}",
        name="showSession",
        summary="Show the caller and its rights.",
        answers={200: _CALLER.answer("The caller.")},
    )
    async def show(self, request: Request) -> Response:
        return JsonAnswer(self._shown(caller_of(request), token_of(request)))

    def _shown(self, caller: Caller, token: str | None) -> JsonObject:
        body: JsonObject = {
            "workspace": caller.workspace,
            "kind": caller.kind,
            "name": caller.name,
            "rights": [right for right in RIGHTS if right in caller.rights],
        }
        if caller.user_id is not None:
            body["user_id"] = caller.user_id
        if caller.role is not None:
            body["role"] = caller.role
        expires_ms = None if token is None else self._book.callers.expiry_of(digest_of(token))
        return body if expires_ms is None else {**body, "expires_at": expires_ms / 1000}

    @operation(
        f"DELETE {_SESSION}",
        name="endSession",
        summary="Log out.",
        answers={200: answer("The session is over.", ended=True)},
        errors=("conflict",),
    )
    async def end(self, request: Request) -> Response:
        caller, token = caller_of(request), token_of(request)
        if caller.kind != "session" or caller.user_id is None or token is None:
            raise Conflict(
                "this token is not a session",
                reason="not_a_session",
                hint="delete the key instead; the admin token cannot be ended",
            )
        await self._book.sessions.end(caller.workspace, caller.user_id, digest_of(token))
        answer = JsonAnswer({"ended": True})
        if cookie_name(request) in request.cookies:
            _set_cookie(request, answer, "", 0)
        return answer

    @operation(
        f"POST {_SESSION}/password",
        name="changePassword",
        summary="Change your own password. Your other sessions end.",
        body=ChangePassword,
        body_example={"old": "correct horse battery", "new": "staple paper clip"},
        answers={200: answer("The password is changed.", changed=True)},
        errors=("unauthenticated", "rate_limited"),
    )
    async def change_password(self, request: Request) -> Response:
        body, token = parsed(ChangePassword, await read_body(request)), token_of(request)
        here = None if token is None else digest_of(token)
        await self._book.change_password(caller_of(request), body.old, body.new, _address(request), but=here)
        return JsonAnswer({"changed": True})


def _set_cookie(request: Request, answer: Response, token: str, seconds: int) -> None:
    """No script can read the cookie, no other site sends it, and over TLS no other host can set it."""
    name = cookie_name(request)
    answer.set_cookie(
        name, token, max_age=seconds, path="/", httponly=True, samesite="strict", secure=name == SECURE_COOKIE
    )


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


class IssueTicket(Strict):
    """`POST /api/v1/tickets`."""

    path: str = Field(min_length=1, max_length=PATH_CHARACTERS, description="The path that the ticket opens, once.")


class Tickets(DeclaredResource):
    """Issues tickets."""

    tag = "tickets"

    def __init__(self, book: TicketRegistry, operation_at: Callable[[str], Operation | None]) -> None:
        self._book = book
        self._operation_at = operation_at

    @operation(
        "POST /api/v1/tickets",
        name="issueTicket",
        summary="Issue a single-use ticket for a stream or a socket.",
        description="The ticket opens this path once, within 30 seconds, for the caller. A token in a URL is always "
        "refused.",
        body=IssueTicket,
        body_example={"path": "/api/v1/runs/run_01/stream"},
        answers={
            201: Answer(
                summary="The ticket, to send as `?ticket=`.",
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
