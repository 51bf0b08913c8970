"""`/metrics`: the host's numbers as Prometheus reads them."""

import asyncio
from ipaddress import ip_address
from typing import Final

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from bollard.host.errors import HostError
from bollard.host.http.callers import Authenticator
from bollard.host.http.operations import Answer, Operation
from bollard.host.http.vitals import Vitals, process_families
from bollard.host.identity.caller import DEFAULT_WORKSPACE, Caller
from bollard.host.telemetry.exposition import CONTENT_TYPE, render
from bollard.host.telemetry.process_numbers import process_numbers

__all__ = ["PATH", "Metrics", "OpenMetrics"]

PATH: Final = "/metrics"
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-real-ip")
"""What a proxy says of whom it speaks for: then nobody knows where the request began."""


class Metrics:
    """Reads the numbers when it is asked."""

    def __init__(self, vitals: Vitals) -> None:
        self._vitals = vitals

    @staticmethod
    def operations() -> list[Operation]:
        return [
            Operation(
                method="GET",
                path=PATH,
                handler=Metrics.read,
                name="readMetrics",
                tag="host",
                summary="The host's numbers, in the text format of Prometheus.",
                right="metrics.read",
                answers={
                    200: Answer(
                        summary="Every metric; see docs/reference/metrics.md.",
                        schema={"type": "string"},
                        example="# TYPE bollard_queue_runs gauge\nbollard_queue_runs 0\n",
                        media_type="text/plain",
                    )
                },
            )
        ]

    async def read(self, request: Request) -> Response:
        del request
        process = await asyncio.to_thread(process_numbers)  # it lists files: not on the loop
        text = render([*self._vitals.families(), *process_families(process)])
        return Response(text, headers={"content-type": CONTENT_TYPE})


class OpenMetrics:
    """An authenticator that also lets a scraper on this machine read metrics, and nothing else, without a token."""

    def __init__(self, behind: Authenticator) -> None:
        self._behind = behind
        self._scraper = Caller(
            workspace=DEFAULT_WORKSPACE, kind="installation", name="scraper", rights=frozenset({"metrics.read"})
        )

    def authenticate(self, connection: HTTPConnection) -> Caller | HostError:
        if connection.scope["path"] == PATH and _is_scraper(connection):
            return self._scraper
        return self._behind.authenticate(connection)


def _is_scraper(connection: HTTPConnection) -> bool:
    headers, client = connection.headers, connection.client
    if client is None or "authorization" in headers or any(name in headers for name in _FORWARDED):
        return False
    try:
        return ip_address(client.host).is_loopback
    except ValueError:
        return False
