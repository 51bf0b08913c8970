"""Where the calls to one model go: what is added to each of them, and which answers are none."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Final

import structlog

from bollard.host.egress.addresses import address_problem, literal
from bollard.host.egress.connections import Connections, HttpAnswer, HttpRequest, NotAnswered, NotSent
from bollard.host.egress.destination import Destination
from bollard.host.errors import EgressDenied, ModelFailed
from bollard.host.models.boundary import ModelSpec
from bollard.host.models.failures import ProviderError, failed, refused, said, with_words, without_words
from bollard.host.models.limits import ANSWER_BYTES, HEAD_BYTES, REFUSAL_BYTES, REQUEST_BYTES
from bollard.protocol import JsonObject
from bollard.wire.strict_json import encode

_log = structlog.get_logger("bollard.host.models")
_OURS: Final = (("user-agent", "bollard"), ("content-type", "application/json"))


class Endpoint:
    """Where the calls to one model go, with the headers that an operator added."""

    def __init__(self, spec: ModelSpec, connections: Connections) -> None:
        self._spec = spec
        self._place = Destination.of(spec.base_url)
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
    ) -> AsyncGenerator[HttpAnswer]:
        """An answer that is one. Raises `ModelFailed`, also for what is said inside of it."""
        spec = self._spec
        if key is not None and not (key.isascii() and key.isprintable() and key):
            raise failed("unauthorized", "the key has characters that cannot be sent", hint="set the secret again")
        request = HttpRequest(
            method="POST",
            path=self._place.path.rstrip("/") + path,
            headers=_joined(_OURS, headers, spec.headers),
            body=_written(body),
            first_s=spec.first_token_s + idles * spec.idle_s,
            idle_s=spec.idle_s,
            head_bytes=HEAD_BYTES,
            body_bytes=ANSWER_BYTES,
        )
        try:
            async with self._connections.asked(request) as answer:
                await self._check(answer, key)
                try:
                    yield answer
                except ProviderError as error:
                    raise self._shown(said(error, key), answer) from None
        except EgressDenied as error:
            # A name that is refused is told like one that is unknown: see `EgressClient.judge`.
            reason = "invalid_request" if literal(self._place.host) is not None else "unreachable"
            raise failed(reason, error.message, hint=error.hint) from error
        except NotSent as error:
            message = f"{self._place.origin}: no connection within {spec.connect_s:g} s: {error}"
            raise failed("unreachable", message) from error
        except NotAnswered as error:
            raise failed("timeout" if error.reason == "timeout" else "broken_answer", str(error)) from error

    async def _check(self, answer: HttpAnswer, key: str | None) -> None:
        """Raises `ModelFailed` for an answer that is an error, or that cannot be read."""
        if (answer.header("content-encoding") or "identity").lower() != "identity":
            raise failed("broken_answer", "the provider packed its answer although nobody asked for it")
        if not 200 <= answer.status < 300:
            words = await answer.beginning(REFUSAL_BYTES)
            raise self._shown(refused(answer.status, answer.headers, words, key), answer)

    def _shown(self, error: ModelFailed, answer: HttpAnswer) -> ModelFailed:
        """A provider outside tells anybody what it tells us. What one inside says is for those who operate the host."""
        if address_problem(answer.address) is None:
            return with_words(error)
        if error.provider_words:
            _log.warning("a provider inside refused a call", model=self._spec.model_id, words=error.provider_words)
        return without_words(error)


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
