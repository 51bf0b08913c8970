"""Answers requests for the console: its page at every path that the API does not use, and its files."""

import asyncio
from collections.abc import Collection
from html import escape
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from bollard.host.http.console.build import ConsoleBuild
from bollard.host.http.console.files import ASSETS, ConsoleFiles, File, accepted_encodings
from bollard.host.http.console.notice import notice_page
from bollard.host.http.console.policy import NONCE, new_nonce, notice_headers, page_headers

_YEAR: Final = "public, max-age=31536000, immutable"
_CHECKED: Final = "no-cache"
_HTML: Final = "text/html; charset=utf-8"


class ConsolePages:
    """The console of a host. It needs no token: the page holds no data, and signs in like every client."""

    def __init__(self, files: ConsoleFiles, build: ConsoleBuild, reserved: Collection[str]) -> None:
        """`reserved` are the first parts of the paths of the API."""
        self._files = files
        self._build = build
        self._reserved = frozenset(reserved)

    async def answer(self, scope: Scope) -> Response | None:
        """The response to a request that no operation serves; `None` if it is not for the console."""
        path: str = scope["path"]
        if scope["method"] not in ("GET", "HEAD") or not path.startswith("/") or self._is_reserved(path):
            return None
        headers = Headers(scope=scope)
        if path != "/":
            encodings = accepted_encodings(headers.get("accept-encoding", ""))
            file = await asyncio.to_thread(self._files.find, path[1:], encodings)
            if file is not None:
                return _file_answer(path, file, headers)
        return await self._page(headers) if _wants_page(path, headers) else None

    def _is_reserved(self, path: str) -> bool:
        return path.split("/", 2)[1] in self._reserved

    async def _page(self, headers: Headers) -> Response:
        index, nonce = await asyncio.to_thread(self._files.index), new_nonce()
        if index is not None:
            return Response(index.replace(NONCE, escape(nonce)), headers=page_headers(nonce), media_type=_HTML)
        progress = await asyncio.to_thread(self._build.progress)
        page = notice_page(progress, headers.get("accept-language", ""), nonce)
        return Response(page, status_code=503, headers=notice_headers(nonce), media_type=_HTML)


def _wants_page(path: str, headers: Headers) -> bool:
    """Whether a client is a browser that opens a page. Programs that accept anything get the page only at `/`. A file
    that is missing is not a page."""
    accept = headers.get("accept", "")
    if path.startswith(f"/{ASSETS}"):
        return False
    return "text/html" in accept or (path == "/" and "*/*" in accept)


def _file_answer(path: str, file: File, headers: Headers) -> Response:
    sent = {
        "etag": file.tag,
        "cache-control": _YEAR if path.startswith(f"/{ASSETS}") else _CHECKED,
        "vary": "Accept-Encoding",
    }
    if file.tag in headers.get("if-none-match", ""):
        return Response(status_code=304, headers=sent)
    if file.encoding is not None:
        sent["content-encoding"] = file.encoding
    return Response(file.content, headers=sent, media_type=file.media_type)
