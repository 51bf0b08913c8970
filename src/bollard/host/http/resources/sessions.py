"""The sessions of the caller: every browser and command line that is signed in with the same identity."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import caller_of, token_of
from bollard.host.http.openapi.schemas import TIME
from bollard.host.http.operations import PAGE
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import DeclaredResource, answer, answer_body, operation
from bollard.host.identity.sessions import Session, Sessions, digest_of, owner_of

_LISTED: Final = answer_body(
    "Session",
    {
        "session_id": "9f2c1e0d4b5a6978",
        "address": "127.0.0.1",
        "created_at": 1766620800.0,
        "expires_at": 1767225600.0,
        "current": True,
    },
    created_at=TIME,
    expires_at=TIME,
)


def session_of(request: Request, sessions: Sessions) -> Session | None:
    """The session of the request's own token."""
    token = token_of(request)
    return None if token is None else sessions.find(digest_of(token))


def _place(session: Session) -> str:
    return f"{session.created_ms:015d}{session.id}"


class SessionList(DeclaredResource):
    """Lists and ends sessions."""

    tag = "session"

    def __init__(self, sessions: Sessions, pages: Pages) -> None:
        self._sessions = sessions
        self._pages = pages

    @operation(
        "GET /api/v1/sessions",
        name="listSessions",
        summary="List your sessions, the oldest first.",
        description="The list has the sessions of the same user, key or admin token.",
        query=PAGE,
        answers={200: _LISTED.page("sessions")},
    )
    async def list_sessions(self, request: Request) -> Response:
        present = session_of(request, self._sessions)
        sessions = self._sessions.of(owner_of(caller_of(request)))
        return self._pages.of_all(
            request,
            "sessions",
            sorted(sessions, key=_place),
            _place,
            lambda each: _LISTED.of(
                each, session_id=each.id, expires_at=each.expires_ms / 1000, current=each == present
            ),
        )

    @operation(
        "DELETE /api/v1/sessions/{session_id}",
        name="endOtherSession",
        summary="End one of your sessions.",
        answers={200: answer("The session is over.", session_id="9f2c1e0d4b5a6978", ended=True)},
        errors=("not_found",),
    )
    async def end_one(self, request: Request) -> Response:
        session_id: str = request.path_params["session_id"]
        await self._sessions.end(self._sessions.get(owner_of(caller_of(request)), session_id))
        return JsonAnswer({"session_id": session_id, "ended": True})
