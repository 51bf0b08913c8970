"""An HTTP client for plugins. It follows `HTTP_PROXY` and `HTTPS_PROXY`, by which a confined worker reaches the names
that its manifest asks for (`spec.sandbox.network`). Needs `bollard[net]`.

    async with Client("https://api.example.org") as client:
        answer = await client.post("/messages", json={"text": "hello"})
        print(answer.check().json()["id"])

Cancelling a call closes its connection. Redirects are answers: the client follows none.
"""

import json as json_text
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, cast

import httpx2

from bollard.protocol import JsonValue
from bollard.protocol.limits import MIB
from bollard.sdk.network_errors import (
    PERMISSION,
    AnswerTooLarge,
    BadStatus,
    InvalidAnswer,
    NetworkError,
    NoAnswer,
    NotConnected,
    PermissionMissing,
    not_connected,
)

__all__ = [
    "Answer",
    "AnswerTooLarge",
    "BadStatus",
    "Client",
    "InvalidAnswer",
    "NetworkError",
    "NoAnswer",
    "NotConnected",
    "PermissionMissing",
    "StreamedAnswer",
    "Upload",
]

BODY_BYTES: Final = 8 * MIB
"""The default limit of an answer."""
TIMEOUT_S: Final = 30.0
"""The default limit of each wait: to connect, to send, and for the next bytes."""
_PLAIN: Final = {"accept-encoding": "identity"}
"""A few compressed bytes can become any number of bytes before they are counted."""
_SHOWN_BYTES: Final = 2048
"""The body that `BadStatus` carries."""
_BAD_STATUS: Final = 400


@dataclass(frozen=True, kw_only=True)
class Upload:
    """One file of a multipart request."""

    name: str
    content: bytes
    media_type: str = "application/octet-stream"


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A whole answer."""

    place: str
    """The URL without its query."""
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def text(self) -> str:
        """The body as UTF-8; other bytes are replaced."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> JsonValue:
        """The body as JSON. Raises `InvalidAnswer`."""
        try:
            return cast("JsonValue", json_text.loads(self.body))
        except (ValueError, RecursionError) as error:
            raise InvalidAnswer(self.place, "the answer is not JSON") from error

    def check(self) -> Self:
        """Return the answer. Raises `BadStatus` for a status of 400 or more."""
        if self.status >= _BAD_STATUS:
            raise BadStatus(self.place, self.status, self.body[:_SHOWN_BYTES])
        return self


class StreamedAnswer:
    """An answer whose body is still being received."""

    def __init__(self, place: str, response: httpx2.Response, max_bytes: int) -> None:
        self.place = place
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self._response = response
        self._max_bytes = max_bytes

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises `AnswerTooLarge`, `InvalidAnswer` and `NoAnswer`."""
        if self.headers.get("content-encoding", "identity").lower() != "identity":
            raise InvalidAnswer(self.place, "the answer is compressed, although the request did not accept that")
        size = 0
        try:
            async for piece in self._response.aiter_raw():
                size += len(piece)
                if size > self._max_bytes:
                    raise AnswerTooLarge(self.place, self._max_bytes)
                yield piece
        except httpx2.TransportError as error:
            raise NoAnswer(self.place, f"the answer broke off: {_problem(error)}") from error

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines of the body, without their ends. Raises like `pieces`."""
        rest = b""
        async for piece in self.pieces():
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.removesuffix(b"\r").decode("utf-8", "replace")
        if rest:
            yield rest.decode("utf-8", "replace")

    async def read(self) -> Answer:
        """Read the rest of the body. Raises like `pieces`."""
        body = b"".join([piece async for piece in self.pieces()])
        return Answer(place=self.place, status=self.status, headers=self.headers, body=body)


class Client:
    """Sends requests, over connections that it keeps. Close it, or use it as a context manager. Unless told otherwise,
    each wait may take 30 s and each answer have 8 MiB. It asks for answers without compression."""

    def __init__(
        self,
        base_url: str = "",
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
        max_bytes: int = BODY_BYTES,
    ) -> None:
        """URLs are relative to `base_url`. `timeout_s` limits each wait, `max_bytes` each answer."""
        self._client = httpx2.AsyncClient(base_url=base_url, headers=_PLAIN | dict(headers or {}), timeout=timeout_s)
        self._max_bytes = max_bytes

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def get(self, url: str, *, headers: Mapping[str, str] | None = None) -> Answer:
        """Send a GET. Raises `NetworkError`."""
        return await self.request("GET", url, headers=headers)

    async def post(
        self,
        url: str,
        *,
        json: JsonValue = None,
        form: Mapping[str, str] | None = None,
        files: Mapping[str, Upload] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a POST with JSON, the fields of a form, a form with files, or bytes. Raises `NetworkError`."""
        return await self.request("POST", url, json=json, form=form, files=files, body=body, headers=headers)

    async def request(
        self,
        method: str,
        url: str,
        *,
        json: JsonValue = None,
        form: Mapping[str, str] | None = None,
        files: Mapping[str, Upload] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request and read the whole answer. Raises `NetworkError`."""
        streamed = self.stream(method, url, json=json, form=form, files=files, body=body, headers=headers)
        async with streamed as answer:
            return await answer.read()

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        json: JsonValue = None,
        form: Mapping[str, str] | None = None,
        files: Mapping[str, Upload] | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[StreamedAnswer]:
        """Send a request; the answer has its status and headers. Leaving closes it. Raises `NetworkError`."""
        place = url.partition("?")[0]
        try:
            parts = {name: (file.name, file.content, file.media_type) for name, file in (files or {}).items()}
            request = self._client.build_request(
                method,
                url,
                json=json,
                data=None if form is None else dict(form),
                files=parts or None,
                content=body,
                headers=dict(headers or {}),
            )
            place = str(request.url).partition("?")[0]
            response = await self._client.send(request, stream=True)
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise NotConnected(place, f"the URL is not valid: {error}") from error
        except httpx2.TransportError as error:
            raise _failure(place, error) from error
        try:
            await _check_permission(place, response)
            yield StreamedAnswer(place, response, self._max_bytes)
        finally:
            await response.aclose()


async def _check_permission(place: str, response: httpx2.Response) -> None:
    """Raise `PermissionMissing` if the proxy of the host refused a plain http request."""
    if response.status_code == 403 and response.reason_phrase.startswith(PERMISSION):
        raise PermissionMissing(place, response.reason_phrase)


def _failure(place: str, error: httpx2.TransportError) -> NetworkError:
    problem = _problem(error)
    if isinstance(error, httpx2.ProxyError) and PERMISSION in problem:
        return PermissionMissing(place, problem.partition(" ")[2] if problem[:3].isdigit() else problem)
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.PoolTimeout | httpx2.ProxyError):
        return not_connected(place, f"no connection: {problem}")
    return NoAnswer(place, f"no answer: {problem}")


def _problem(error: Exception) -> str:
    return str(error) or type(error).__name__
