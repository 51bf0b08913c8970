"""`/session`: exchange a password or a ticket for a session, see who you are, and end it.

A program gets the session's token in the answer; a browser asks for a cookie instead, which no script can read.
"""

from typing import Final

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.errors import Conflict
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import SECURE_COOKIE, caller_of, cookie_name, token_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.schemas import TEXT, TIME, array_of, choice, fields
from bollard.host.http.operations import Answer
from bollard.host.http.resources.declaration import DeclaredResource, answer, answer_body, operation
from bollard.host.http.resources.sessions import session_of
from bollard.host.identity.caller import DEFAULT_WORKSPACE, RIGHTS, ROLES, Caller, rights_of
from bollard.host.identity.directory import IdentityDirectory
from bollard.host.identity.sessions import NewSession, digest_of, owner_of
from bollard.host.limits import PASSWORD_CHARACTERS, SIGN_IN_TICKET_S
from bollard.protocol import Flag, JsonObject, Strict

_ID_CHARACTERS: Final = 64
_TICKET_CHARACTERS: Final = 128
_TAG: Final = "session"


class BeginSession(Strict):
    """`POST /api/v1/session`."""

    workspace: str = Field(default=DEFAULT_WORKSPACE, max_length=_ID_CHARACTERS)
    user: str = Field(max_length=_ID_CHARACTERS)
    password: str = Field(max_length=PASSWORD_CHARACTERS)
    cookie: Flag = Field(default=False, description="Set the token as a cookie instead of returning it.")


class UseTicket(Strict):
    """`POST /api/v1/session/ticket`."""

    ticket: str = Field(max_length=_TICKET_CHARACTERS, description="The ticket of a sign-in link.")
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
        "session_id": "9f2c1e0d4b5a6978",
        "expires_at": 1767225600.0,
    },
    {"user_id": TEXT, "role": choice(*ROLES), "session_id": TEXT, "expires_at": TIME},
    workspace=TEXT,
    kind=choice("installation", "key", "session"),
    rights=array_of(choice(*RIGHTS)),
)
_BEGUN: Final = Answer(
    summary="The session, and its token unless a cookie was asked for.",
    schema=_CALLER.extended("", {"token": "bls_…"}, {"token": TEXT}).schema,
    example={**_CALLER.example, "token": "bls_…"},
    headers={"Set-Cookie": "Where a cookie was asked for."},
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
        answers={201: _BEGUN},
        errors=("unauthenticated", "rate_limited", "storage_full", "storage_unavailable"),
    )
    async def begin(self, request: Request) -> Response:
        body = parsed(BeginSession, await read_body(request))
        begun = await self._book.sessions.begin(body.workspace, body.user, body.password, _address(request))
        return self._begun(request, begun, cookie=body.cookie)

    @operation(
        f"POST {_SESSION}/ticket",
        name="beginSessionWithTicket",
        summary="Log in with the ticket of a sign-in link.",
        description="A ticket works once, for ten minutes, and opens a session with the identity and the rights of its "
        "creator. A refused ticket has the same answer for every cause.",
        open=True,
        repeat="own",
        body=UseTicket,
        body_example={"ticket": "blt_…", "cookie": True},
        answers={201: _BEGUN},
        errors=("unauthenticated", "rate_limited", "storage_full", "storage_unavailable"),
    )
    async def begin_with_ticket(self, request: Request) -> Response:
        body = parsed(UseTicket, await read_body(request))
        begun = await self._book.tickets.redeem(body.ticket, _address(request))
        return self._begun(request, begun, cookie=body.cookie)

    def _begun(self, request: Request, begun: NewSession, *, cookie: bool) -> Response:
        answer = self._shown(begun.caller, begun.token)
        if not cookie:
            return JsonAnswer({**answer, "token": begun.token}, status_code=201)
        made = JsonAnswer(answer, status_code=201)
        _set_cookie(request, made, begun.token, (begun.session.expires_ms - begun.session.created_ms) // 1000)
        return made

    @operation(
        f"POST {_SESSION}/tickets",
        name="issueSessionTicket",
        summary="Issue a sign-in ticket for a browser.",
        description="The ticket opens one session with your identity and your rights, within ten minutes. `path` is "
        "the link for the console; browsers do not send the part after `#`. The session ends with your token.",
        answers={
            201: Answer(
                summary="The ticket.",
                schema=fields(ticket=TEXT, path=TEXT, expires_in_s={"type": "number"}),
                example={"ticket": "blt_…", "path": "/#ticket=blt_…", "expires_in_s": SIGN_IN_TICKET_S},
            )
        },
        errors=("rate_limited",),
    )
    async def issue_ticket(self, request: Request) -> Response:
        ticket = self._book.tickets.issue(owner_of(caller_of(request)), self._revocable(token_of(request)))
        return JsonAnswer(
            {"ticket": ticket, "path": f"/#ticket={ticket}", "expires_in_s": SIGN_IN_TICKET_S}, status_code=201
        )

    def _revocable(self, token: str | None) -> str | None:
        """The digest of the caller's token; `None` for the admin token, which stays valid while the host runs."""
        digest = None if token is None else digest_of(token)
        return digest if digest is not None and self._book.callers.is_known(digest) else None

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
        if caller.session is not None:
            body["session_id"] = caller.session
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
        session = session_of(request, self._book.sessions)
        if session is None:
            raise Conflict(
                "this token is not a session",
                reason="not_a_session",
                hint="delete the key instead; the admin token cannot be ended",
            )
        await self._book.sessions.end(session)
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
