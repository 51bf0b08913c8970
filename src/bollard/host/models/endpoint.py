"""Where the calls to one model go: what is added to each of them, and which answers are none."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Final

from bollard.host.egress.places import Place
from bollard.host.models.answer import Answer, Request
from bollard.host.models.backend_limits import REFUSAL_BYTES, REQUEST_BYTES
from bollard.host.models.boundary import ModelSpec
from bollard.host.models.connection import Connections
from bollard.host.models.failures import ProviderSaid, failed, refused, said
from bollard.protocol import JsonObject
from bollard.wire.strict_json import encode

__all__ = ["Endpoint"]

_OURS: Final = (("user-agent", "bollard"), ("content-type", "application/json"))


class Endpoint:
    """Where the calls to one model go, with the headers that an operator added."""

    def __init__(self, spec: ModelSpec, connections: Connections) -> None:
        self._spec = spec
        self._base = Place.of(spec.base_url).path.rstrip("/")
        self._connections = connections

    async def close(self) -> None:
        await self._connections.close()

    @contextlib.asynccontextmanager
    async def asked(
        self,
        path: str,
        body: JsonObject,
        headers: tuple[tuple[str, str], ...],
        key: str | None,
        idles: int = 0,
    ) -> AsyncGenerator[Answer]:
        """An answer that is one. Raises `ModelFailed`, also for what is said inside of it."""
        spec = self._spec
        if key is not None and not (key.isascii() and key.isprintable() and key):
            raise failed("unauthorized", "the key has characters that cannot be sent", hint="set the secret again")
        request = Request(
            path=self._base + path,
            headers=_joined(_OURS, headers, spec.headers),
            body=_written(body),
            first_s=spec.first_token_s + idles * spec.idle_s,
            idle_s=spec.idle_s,
        )
        async with self._connections.asked(request) as answer:
            if not 200 <= answer.status < 300:
                raise refused(answer.status, answer.headers, await answer.beginning(REFUSAL_BYTES), key)
            try:
                yield answer
            except ProviderSaid as error:
                raise said(error, key) from None


def _joined(*groups: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Headers of which the later ones win."""
    return tuple({name.lower(): value for group in groups for name, value in group}.items())


def _written(body: JsonObject) -> bytes:
    try:
        written = encode(body)
    except UnicodeEncodeError:
        raise failed("invalid_request", "a text holds half of a surrogate pair", hint="send whole characters") from None
    if len(written) > REQUEST_BYTES:
        raise failed(
            "invalid_request",
            f"the request is {len(written)} bytes, the limit is {REQUEST_BYTES}",
            hint="send fewer or smaller images and files",
        )
    return written
