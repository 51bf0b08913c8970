"""`/host/drain`: take nothing new, so that the host can be stopped without anybody noticing; or take work again."""

from collections.abc import Callable
from typing import Final

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import Authenticator, caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.schemas import FLAG, NUMBER, TEXT, array_of, fields, map_of, maybe, named
from bollard.host.http.operations import Answer
from bollard.host.http.resources.declaration import DeclaredResource, answer, operation
from bollard.host.http.resources.readiness import Readiness, Reason
from bollard.host.identity.caller import Caller
from bollard.host.runs.dispatcher import Dispatcher
from bollard.protocol import Flag, JsonObject, Strict

_log = structlog.get_logger("bollard.host")


class Drain(Strict):
    """`POST /api/v1/host/drain`."""

    draining: Flag = True


class DrainControl(DeclaredResource):
    """What an operator does before a restart."""

    tag = "host"

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    @operation(
        "POST /api/v1/host/drain",
        name="drainHost",
        summary="Take nothing new, or take work again; `/readyz` follows.",
        description="What runs goes on, what waits stays on disk, and whoever brings something new is told `draining`.",
        right="host.operate",
        body=Drain,
        body_example={"draining": True},
        answers={
            200: answer(
                "How it stands now: runs that go on, and runs that wait on disk.", draining=True, live=2, queued=0
            )
        },
    )
    async def change(self, request: Request) -> Response:
        asked = parsed(Drain, await read_body(request))
        self._dispatcher.drain(asked.draining)
        _log.info("draining" if asked.draining else "taking work again", by=caller_of(request).name)
        queued, live = self._dispatcher.backlog.size, len(self._dispatcher.live)
        return JsonAnswer({"draining": self._dispatcher.draining, "live": live, "queued": queued})


# `/healthz` and `/readyz`: open to everybody, and cheap. How the host is in detail, only those learn who may.


_DETAIL: Final[JsonObject] = {
    "version": TEXT,
    "runs": fields(live=NUMBER, queued=NUMBER),
    "journal": fields(commits=NUMBER, records=NUMBER, failures=NUMBER, waiting=NUMBER),
    "readers": NUMBER,
    "sandbox": TEXT,
    "plugins": map_of(fields(status=TEXT, problem=maybe(TEXT), workers=NUMBER)),
}
_REASONS: Final = array_of(fields(code=TEXT, message=TEXT, hint=TEXT))
_READY: Final = named("Readiness", fields({**_DETAIL, "warnings": _REASONS}, ready=FLAG, reasons=_REASONS))
_DRAINING: Final[JsonObject] = {
    "code": "draining",
    "message": "the host takes nothing new",
    "hint": "send work to another host, or later",
}


class Health(DeclaredResource):
    """Says how the host is."""

    tag = "host"

    def __init__(
        self,
        readiness: Readiness,
        summary: Callable[[], JsonObject],
        authenticator: Authenticator,
        *,
        public: bool,
    ) -> None:
        """Where the host is `public`, its details are for those who may read its metrics."""
        self._readiness = readiness
        self._summary = summary
        self._authenticator = authenticator
        self._public = public

    @operation(
        "GET /healthz",
        name="getHealth",
        summary="Whether the process answers at all.",
        open=True,
        answers={200: Answer(summary="It does.", schema=TEXT, example="ok", media_type="text/plain")},
    )
    async def alive(self, request: Request) -> Response:
        del request
        return PlainTextResponse("ok")

    @operation(
        "GET /readyz",
        name="getReadiness",
        summary="Whether the host can be given work, and why not.",
        open=True,
        answers={
            200: Answer(summary="It can.", schema=_READY, example={"ready": True, "reasons": []}),
            503: Answer(
                summary="It cannot, for these reasons.",
                schema=_READY,
                example={"ready": False, "reasons": [_DRAINING]},
            ),
        },
    )
    async def ready(self, request: Request) -> Response:
        reasons = await self._readiness.reasons()
        body: JsonObject = {"ready": not reasons, "reasons": [_told(reason) for reason in reasons]}
        if self._may_know(request):
            body |= self._summary()
            if warnings := self._readiness.warnings():
                body["warnings"] = [_told(each) for each in warnings]
        return JsonAnswer(body, status_code=503 if reasons else 200)

    def _may_know(self, request: Request) -> bool:
        if not self._public:
            return True
        caller = self._authenticator.authenticate(request)
        return isinstance(caller, Caller) and caller.may("metrics.read")


def _told(reason: Reason) -> JsonObject:
    return {"code": reason.code, "message": reason.message, "hint": reason.hint}
