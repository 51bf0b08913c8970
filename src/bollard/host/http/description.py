"""`/openapi.json`: the API, described for programs."""

import asyncio
from collections.abc import Callable, Sequence
from functools import cached_property
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response

from bollard import __version__
from bollard.host.http.openapi import openapi_document
from bollard.host.http.operations import Answer, HeaderField, Operation
from bollard.protocol import JsonObject
from bollard.wire import encode

__all__ = ["Description", "described"]


def described(operations: Sequence[Operation]) -> JsonObject:
    """The document of this version."""
    return openapi_document(operations, __version__)


class Description:
    """The document as bytes, made when it is first asked for."""

    def __init__(self, operations: Callable[[], Sequence[Operation]]) -> None:
        self._operations = operations

    @staticmethod
    def operations() -> list[Operation]:
        return [
            Operation(
                method="GET",
                path="/api/v1/openapi.json",
                handler=Description.read,
                name="getOpenApi",
                tag="host",
                summary="This document.",
                description="Everything that the API has, as OpenAPI 3.1. The same for every caller.",
                headers=(
                    HeaderField(
                        name="If-None-Match", summary="The `ETag` of the document that is known.", example='"9f2c1e"'
                    ),
                ),
                answers={
                    200: Answer(
                        summary="An OpenAPI 3.1 document.",
                        schema={"type": "object", "required": ["openapi", "info", "paths", "components"]},
                        example={
                            "openapi": "3.1.0",
                            "info": {"title": "Bollard", "version": __version__},
                            "paths": {},
                            "components": {},
                        },
                        headers={"ETag": "The digest of the document."},
                    ),
                    304: Answer(summary="The reader has it already."),
                },
            )
        ]

    async def read(self, request: Request) -> Response:
        body, tag = await asyncio.to_thread(lambda: self._whole)
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers={"etag": tag})
        return Response(body, media_type="application/json", headers={"etag": tag})

    @cached_property
    def _whole(self) -> tuple[bytes, str]:
        body = encode(described(self._operations()))
        return body, f'"{sha256(body).hexdigest()[:32]}"'
