"""`/healthz` and `/readyz`: open to everybody, and cheap."""

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from bollard.host.http.answers import JsonAnswer
from bollard.protocol import JsonObject

__all__ = ["Health"]


class Health:
    """Says how the host is."""

    def __init__(self, health: Callable[[], JsonObject]) -> None:
        self._health = health

    async def alive(self, request: Request) -> Response:
        del request
        return PlainTextResponse("ok")

    async def ready(self, request: Request) -> Response:
        del request
        health = self._health()
        return JsonAnswer(health, status_code=200 if health.get("ready") else 503)
