"""The HTTP endpoint of one model: headers, limits, and error answers."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Final

import structlog

from bollard.host.egress.addresses import address_problem, literal
from bollard.host.egress.connections import Connections, HttpAnswer, HttpRequest, NotAnswered, NotSent
from bollard.host.egress.destination import Destination
from bollard.host.errors import EgressDenied, ModelFailed
from bollard.host.models.failures import (
    ProviderError,
    at_endpoint,
    failed,
    failure_in_answer,
    refused,
    with_words,
    without_words,
)
from bollard.host.models.limits import ANSWER_BYTES, HEAD_BYTES, REFUSAL_BYTES, REQUEST_BYTES
from bollard.host.models.specs import SavedModel
from bollard.host.reason import why_error
from bollard.protocol import JsonObject
from bollard.wire.strict_json import encode

_log = structlog.get_logger("bollard.host.models")
_OURS: Final = (("user-agent", "bollard"), ("content-type", "application/json"))


class Endpoint:
    """Sends requests to the endpoint of one model, with the headers of its configuration."""

    def __init__(self, spec: SavedModel, connections: Connections) -> None:
        self._spec = spec
        self._place = Destination.of(spec.base_url)
        self._connections = connections

    async def close(self) -> None:
        await self._connections.close()

    @contextlib.asynccontextmanager
    async def asked(
        self, path: str, body: JsonObject, headers: tuple[tuple[str, str], ...], key: str | None, idles: int = 0
    ) -> AsyncGenerator[HttpAnswer]:
        """Send a request and yield a successful answer. Raises `ModelFailed`, also for an error inside the answer; it
        names the model and its address."""
        try:
            async with self._answer(path, body, headers, key, idles) as answer:
                yield answer
        except ModelFailed as error:
            raise at_endpoint(error, self._spec.model_id, self._place.origin) from error

    @contextlib.asynccontextmanager
    async def _answer(
        self, path: str, body: JsonObject, headers: tuple[tuple[str, str], ...], key: str | None, idles: int
    ) -> AsyncGenerator[HttpAnswer]:
        spec = self._spec
        if key is not None and not (key.isascii() and key.isprintable() and key):
            raise failed(
                "unauthorized",
                "the key contains characters that are invalid in a header",
                "model.key_characters",
                hint="set the secret again",
            )
        request = HttpRequest(
            method="POST",
            path=self._place.path.rstrip("/") + path,
            headers=_joined(_OURS, headers, tuple(spec.headers.items())),
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
                    raise self._with_visible_words(failure_in_answer(error, key), answer) from None
        except EgressDenied as error:
            # A denied name looks like an unknown one: see `EgressClient.judge`.
            reason = "invalid_request" if literal(self._place.host) is not None else "unreachable"
            raise failed(reason, error.message, hint=error.hint, **why_error(error).details) from error
        except NotSent as error:
            raise failed("unreachable", f"no connection: {error}", **why_error(error).details) from error
        except NotAnswered as error:
            reason = "timeout" if error.reason == "timeout" else "broken_answer"
            raise failed(reason, str(error), **why_error(error).details) from error

    async def _check(self, answer: HttpAnswer, key: str | None) -> None:
        """Raises `ModelFailed` for an error answer and for a compressed one."""
        if (answer.header("content-encoding") or "identity").lower() != "identity":
            message = "the provider compressed its answer, which the request did not allow"
            raise failed("broken_answer", message, "model.compressed")
        if not 200 <= answer.status < 300:
            words = await answer.beginning(REFUSAL_BYTES)
            raise self._with_visible_words(refused(answer.status, answer.headers, words, key), answer)

    def _with_visible_words(self, error: ModelFailed, answer: HttpAnswer) -> ModelFailed:
        """The message of a public provider is shown. That of an internal one goes to the host's log only."""
        if answer.address is not None and address_problem(answer.address) is None:
            return with_words(error)
        if error.provider_words:
            _log.warning("an internal provider refused a call", model=self._spec.model_id, words=error.provider_words)
        return without_words(error)


def _joined(*groups: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Merge headers; later groups win."""
    return tuple({name.lower(): value for group in groups for name, value in group}.items())


def _written(body: JsonObject) -> bytes:
    try:
        written = encode(body)
    except UnicodeEncodeError:
        raise failed(
            "invalid_request", "a text contains an unpaired surrogate", "model.surrogate", hint="send valid Unicode"
        ) from None
    if len(written) > REQUEST_BYTES:
        raise failed(
            "invalid_request",
            f"the request has {len(written)} bytes, the limit is {REQUEST_BYTES}",
            "model.request_too_large",
            hint="send fewer or smaller images and files",
            bytes=len(written),
            limit=REQUEST_BYTES,
        )
    return written
