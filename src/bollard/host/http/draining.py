"""`/host/drain`: take nothing new, so that the host can be stopped without anybody noticing; or take work again."""

import structlog
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.callers import caller_of
from bollard.host.http.operations import Answer, Operation
from bollard.host.http.requests import parsed
from bollard.host.http.schemas import FLAG, NUMBER, fields
from bollard.host.runs.dispatcher import Dispatcher
from bollard.protocol import Flag, Strict

__all__ = ["Drain", "DrainControl"]

_log = structlog.get_logger("bollard.host")


class Drain(Strict):
    """`POST /api/v1/host/drain`."""

    draining: Flag = True


class DrainControl:
    """What an operator does before a restart."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    @staticmethod
    def operations() -> list[Operation]:
        return [
            Operation(
                method="POST",
                path="/api/v1/host/drain",
                handler=DrainControl.change,
                name="drainHost",
                tag="host",
                summary="Take nothing new, or take work again; `/readyz` follows.",
                description="What runs goes on, what waits stays on disk, and whoever brings something new is told"
                " `draining`.",
                right="host.operate",
                body=Drain,
                body_example={"draining": True},
                answers={
                    200: Answer(
                        summary="How it stands now: runs that go on, and runs that wait on disk.",
                        schema=fields(draining=FLAG, live=NUMBER, queued=NUMBER),
                        example={"draining": True, "live": 2, "queued": 0},
                    )
                },
            )
        ]

    async def change(self, request: Request) -> Response:
        asked = parsed(Drain, await read_body(request))
        self._dispatcher.drain(asked.draining)
        _log.info("draining" if asked.draining else "taking work again", by=caller_of(request).name)
        queued, live = self._dispatcher.backlog.size, len(self._dispatcher.live)
        return JsonAnswer({"draining": self._dispatcher.draining, "live": live, "queued": queued})
