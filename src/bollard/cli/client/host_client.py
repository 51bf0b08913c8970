"""A client of the host's API: JSON in and out, streams of records, and errors as `HostProblem`.

The address and the token come from options, then from the environment, then from the settings and the credentials that
`bollard up` or `bollard login` saved.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bollard.cli.client.credentials import Credentials, credentials_path
from bollard.cli.client.http_client import (
    BadAnswer,
    CertificateFault,
    ConnectionLost,
    HttpClient,
    HttpFailure,
    NeedsTls,
    NoAnswer,
    NoTls,
    UntrustedServer,
    pieces_of,
    read_url,
)
from bollard.cli.errors import CheckFailed, CliError, HostProblem, HostRefusal, UsageProblem
from bollard.cli.limits import HTTP_BODY_BYTES
from bollard.host.egress.connections import HttpAnswer
from bollard.host.egress.sse import SseDecoder, SseEvent
from bollard.host.errors import HostError
from bollard.host.exposure import own_address
from bollard.host.settings import read_settings

if TYPE_CHECKING:
    from bollard.protocol import JsonObject


_JSON = {"Accept": "application/json"}
_STREAM = "text/event-stream"
_OF_PROXY = (502, 503, 504)
"""Statuses of a proxy whose host does not answer."""
_NO_PATH = "path"
"""The reason of a host for a path that it does not have."""
_PERSONAL = ("bls_", "blk_")
"""Prefixes of session tokens and keys; the admin token belongs to no user."""


def find_host(url: str | None, token: str | None, environment: Mapping[str, str]) -> HostClient:
    """The address and the token to use. Raises `UsageProblem`."""
    asked = url or environment.get("BOLLARD_URL") or _configured(environment)
    try:
        address = read_url(asked)
    except ValueError as error:
        raise UsageProblem("error.url", "hint.url", url=asked) from error
    known = (
        token or environment.get("BOLLARD_TOKEN") or Credentials(credentials_path(environment)).token_for(str(address))
    )
    if known is not None and (not known.isascii() or not known.isprintable()):
        raise HostProblem("error.token", "hint.token", address=address)
    headers = {"Authorization": f"Bearer {known}"} if known else {}
    if (workspace := environment.get("BOLLARD_WORKSPACE")) and workspace.isascii() and workspace.isprintable():
        headers["Bollard-Workspace"] = workspace
    return HostClient(HttpClient(address, headers), known=bool(known), named=(known or "").startswith(_PERSONAL))


def _configured(environment: Mapping[str, str]) -> str:
    try:
        settings = read_settings(environment, Path(), {})
    except HostError as error:
        raise UsageProblem.of(error, "error.settings") from error
    return own_address(settings.host, settings.port, tls=bool(settings.tls_cert))


class HostClient:
    """The API of one host."""

    def __init__(self, http: HttpClient, *, known: bool, named: bool = False) -> None:
        self._http = http
        self._has_token = known
        self.is_named = named
        """Whether the token identifies a user or a key."""

    @property
    def address(self) -> str:
        return str(self._http.address)

    async def call(self, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        """Send JSON and return JSON. Raises `HostProblem`."""
        return await self._send(method, path, None if body is None else json.dumps(body).encode(), {})

    async def get(self, path: str) -> JsonObject:
        return await self.call("GET", path)

    async def post(self, path: str, body: JsonObject) -> JsonObject:
        return await self.call("POST", path, body)

    async def upload(
        self, method: str, path: str, data: bytes, media_type: str, sent: Callable[[int], None] | None = None
    ) -> JsonObject:
        """Upload a body that is not JSON; `sent` is called with the progress. Raises `HostProblem`."""
        return await self._send(method, path, data, {"Content-Type": media_type}, sent)

    async def begin_session(self, body: JsonObject) -> JsonObject:
        """Log in. Raises `HostProblem`, also for a wrong password."""
        data = json.dumps(body).encode()
        with _as_problems():
            async with self._http.request("POST", "/api/v1/session", data, _JSON) as answer:
                if answer.status == 401:
                    raise await self._refusal(answer)
                return await self._success(answer)

    async def health(self) -> JsonObject:
        """The answer of `/readyz`, ready or not. Raises `HostProblem`."""
        with _as_problems():
            async with self._http.request("GET", "/readyz") as answer:
                return await self._object(answer)

    async def _send(
        self,
        method: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str],
        sent: Callable[[int], None] | None = None,
    ) -> JsonObject:
        with _as_problems():
            async with self._http.request(method, path, data, {**_JSON, **headers}, sent) as answer:
                return await self._success(answer)

    @asynccontextmanager
    async def events(
        self, method: str, path: str, body: JsonObject | None = None, last_id: str | None = None
    ) -> AsyncGenerator[tuple[HttpAnswer, AsyncIterator[SseEvent]]]:
        """A stream of events. Raises the errors of `http_client`, and `HostProblem` when the host refuses."""
        headers = {"Accept": _STREAM}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        data = None if body is None else json.dumps(body).encode()
        async with self._http.stream(method, path, data, headers) as answer:
            await self._refused(answer)
            if (answer.header("content-type") or "").partition(";")[0] != _STREAM:
                raise self._not_a_host(answer)
            yield answer, _events(answer)

    @asynccontextmanager
    async def content(self, path: str) -> AsyncGenerator[AsyncIterator[bytes]]:
        """Download a body that is not JSON, in chunks. Raises `HostProblem`."""
        with _as_problems():
            async with self._http.stream("GET", path) as answer:
                await self._refused(answer)
                yield pieces_of(answer)

    async def _success(self, answer: HttpAnswer) -> JsonObject:
        await self._refused(answer)
        return await self._object(answer)

    async def _object(self, answer: HttpAnswer) -> JsonObject:
        """The JSON object of an answer. Raises `HostProblem` for another body, which no host sends."""
        try:
            value = json.loads(await answer.whole())
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise self._not_a_host(answer)
        return cast("JsonObject", value)

    def _not_a_host(self, answer: HttpAnswer) -> HostProblem:
        if answer.status in _OF_PROXY:
            return HostProblem("error.proxy", "hint.proxy", address=self.address, status=answer.status)
        kind = (answer.header("content-type") or "").partition(";")[0]
        return HostProblem(
            "error.not_host", "hint.not_host", address=self.address, answer=f"HTTP {answer.status} {kind}".strip()
        )

    async def _refused(self, answer: HttpAnswer) -> None:
        """Raises `HostProblem` for every answer that is not a success."""
        if answer.status < 300:
            return
        if answer.status < 400:  # no operation of a host redirects
            target = answer.header("location") or "?"
            raise HostProblem("error.redirect", "hint.redirect", address=self.address, target=target)
        refusal = await self._refusal(answer)
        if answer.status == 401:
            key = "error.token" if self._has_token else "error.no_token"
            raise HostProblem(key, "hint.token", address=self.address)
        if self._http.address.path and refusal.details.get("reason") == _NO_PATH:
            url = replace(self._http.address, path="")
            raise HostProblem("error.path", "hint.path", address=self.address, url=url)
        raise refusal

    async def _refusal(self, answer: HttpAnswer) -> HostRefusal:
        error = (await self._object(answer)).get("error")
        if not isinstance(error, dict) or "code" not in error:
            raise self._not_a_host(answer)
        return refused({"message": f"HTTP {answer.status}", "hint": self.address, **error})


def refused(error: Mapping[str, Any]) -> HostRefusal:
    """The refusal for an error as the host sends it."""
    return HostRefusal(
        "error.host",
        "hint.host",
        code=str(error["code"]),
        details=cast("dict[str, Any]", error.get("details") or {}),
        detail=str(error["message"]),
        advice=str(error["hint"]),
    )


async def _events(answer: HttpAnswer) -> AsyncIterator[SseEvent]:
    decoder = SseDecoder(HTTP_BODY_BYTES)
    async for piece in pieces_of(answer):
        for event in decoder.feed(piece):
            yield event


@contextmanager
def _as_problems() -> Generator[None]:
    """Turns the errors of `http_client` into `HostProblem`."""
    try:
        yield
    except HttpFailure as error:
        raise problem_of_failure(error) from error


def problem_of_failure(error: HttpFailure) -> HostProblem:
    """The problem to show for a request without an answer."""
    fields = {"address": error.address, "detail": error.detail}
    match error:
        case UntrustedServer():
            return HostProblem(*_CERTIFICATE[error.fault], **fields)
        case NoTls():
            return HostProblem(
                "error.no_tls", "hint.no_tls", url=f"http{error.address.removeprefix('https')}", **fields
            )
        case NeedsTls():
            url = f"https{error.address.removeprefix('http')}"
            return HostProblem("error.needs_tls", "hint.needs_tls", url=url, **fields)
        case NoAnswer():
            return HostProblem("error.no_answer", "hint.no_answer", **fields)
        case ConnectionLost():
            return HostProblem("error.lost", "hint.lost", **fields)
        case BadAnswer():
            return HostProblem("error.not_http", "hint.not_host", **fields)
        case _:
            saved = Credentials(credentials_path(os.environ)).addresses
            elsewhere = next((each for each in saved if each != error.address), None)
            if elsewhere is not None:
                return HostProblem("error.unreachable", "hint.unreachable_saved", saved=elsewhere, **fields)
            return HostProblem("error.unreachable", "hint.unreachable", **fields)


_CERTIFICATE: Mapping[CertificateFault, tuple[str, str]] = {
    "authority": ("error.tls_authority", "hint.tls_authority"),
    "name": ("error.tls_name", "hint.tls_name"),
    "time": ("error.tls_time", "hint.tls_time"),
}
"""Texts for a certificate that is not accepted."""
_MISSING = {
    "bad_archive": ("error.content_archive", "hint.content_archive"),
    "storage_unavailable": ("error.content_source", "hint.content_source"),
}
"""Texts for missing contents, by error code."""


def problem_of(error: HostError) -> CliError:
    """The problem to show for an error of the host's code, in the user's language if known."""
    details = error.details
    match error.code, details.get("field"):
        case "settings", "host" if "exposed" in details:
            return UsageProblem("error.public", "hint.public")
        case "settings", _:
            return UsageProblem.of(error, "error.settings")
        case "bad_archive", _ if details.get("distrust") == "unsigned":
            return CheckFailed("error.archive_unsigned", "hint.archive_unsigned")
        case "bad_archive", _ if details.get("distrust") == "unknown_signer":
            fingerprint = details.get("fingerprint")
            return CheckFailed("error.archive_unknown", "hint.archive_unknown", fingerprint=fingerprint)
        case "bad_archive" | "storage_unavailable", _ if "content" in details:
            named = {name: details.get(name) for name in ("content", "named_by", "contents")}
            return CheckFailed(*_MISSING[error.code], **named)
        case "bad_archive", _:
            return CheckFailed.of(error, "error.archive")
        case (("conflict" | "not_found"), _):
            return UsageProblem.of(error, "error.archive")
        case "storage_unavailable", "database":
            holder = {name: details.get(name) for name in ("session", "address")}
            return UsageProblem("error.database_busy", "hint.database_busy", **holder)
        case "schema_too_new", _:
            return HostProblem.of(error, "error.schema_new", "hint.schema_new")
        case "log_broken", _:
            return HostProblem.of(error, "error.log_broken", "hint.log_broken", name=details.get("name"))
        case "store_mismatch", _:
            return HostProblem.of(error, "error.store_mismatch")
        case _:
            return HostProblem.of(error, "error.host")
