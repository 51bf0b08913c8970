"""Messages of MCP over streamable HTTP, in both eras: with a handshake (to 2025-11-25), and each request whole (from
2026-07-28). Pure: what a body and its headers mean, and what answers look like. The SDK is not in this process."""

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final, TypeGuard

import msgspec

from bollard import __version__
from bollard.protocol import JsonObject, JsonValue
from bollard.wire import FrameError, decode

__all__ = [
    "HANDSHAKE_VERSIONS",
    "HEADER_MISMATCH",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "MODERN_VERSIONS",
    "PARSE_ERROR",
    "UNSUPPORTED_VERSION",
    "Asked",
    "Note",
    "RpcRefused",
    "arguments_of",
    "error_body",
    "progress_note",
    "read_message",
    "result_body",
]

HANDSHAKE_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS: Final = ("2026-07-28",)

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_VERSION: Final = -32022

_META: Final = "io.modelcontextprotocol/"
_VERSION_KEY: Final = f"{_META}protocolVersion"
_CAPABILITIES_KEY: Final = f"{_META}clientCapabilities"
_SERVER_KEY: Final = f"{_META}serverInfo"
_VERSION_HEADER: Final = "mcp-protocol-version"
_METHOD_HEADER: Final = "mcp-method"
_NAME_HEADER: Final = "mcp-name"
_BASE64: Final = re.compile(r"=\?base64\?(.*)\?=")
_STATUS: Final[Mapping[int, int]] = {METHOD_NOT_FOUND: 404, INTERNAL_ERROR: 200}
"""Of the newer era; what is not here is 400."""
_ENVELOPE: Final = frozenset({PARSE_ERROR, INVALID_REQUEST, UNSUPPORTED_VERSION, HEADER_MISMATCH})
"""Of the older era: what is no message at all. The rest are answers."""
SERVER: Final[JsonObject] = {"name": "bollard", "version": __version__}


class RpcRefused(Exception):
    """What a client is told by JSON-RPC: a code, a sentence, data."""

    def __init__(self, code: int, message: str, data: JsonValue = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.id: int | str | None = None
        self.modern = False

    @property
    def status(self) -> int:
        """Of the HTTP answer."""
        if self.modern:
            return _STATUS.get(self.code, 400)
        return 400 if self.code in _ENVELOPE else 200


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A request."""

    id: int | str
    method: str
    params: JsonObject
    modern: bool

    @property
    def meta(self) -> JsonObject:
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}

    @property
    def progress_token(self) -> int | str | None:
        """What notes of progress are to be marked with, where the client wants any."""
        token = self.meta.get("progressToken")
        return token if isinstance(token, str) or (isinstance(token, int) and not isinstance(token, bool)) else None


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """A notification: nobody waits for an answer."""

    method: str
    params: JsonObject


def read_message(body: bytes, headers: Mapping[str, str]) -> Asked | Note:
    """What was sent, if it is one message of a version that is spoken here. Raises `RpcRefused`."""
    said = _object(body)
    try:
        return _read(said, headers)
    except RpcRefused as refused:
        identity = said.get("id")
        refused.id = identity if _is_id(identity) else None
        raise


def _read(said: JsonObject, headers: Mapping[str, str]) -> Asked | Note:
    version, identity = headers.get(_VERSION_HEADER), said.get("id")
    method, params = _head(said)
    if "id" not in said:
        if version is not None and version not in (*HANDSHAKE_VERSIONS, *MODERN_VERSIONS):
            raise _unsupported(version)
        return Note(method=method, params=params)
    if not _is_id(identity):
        raise RpcRefused(INVALID_REQUEST, "the id of a request is a text or a whole number")
    modern = (version is not None and version not in HANDSHAKE_VERSIONS) or _VERSION_KEY in _meta_of(params)
    asked = Asked(id=identity, method=method, params=params, modern=modern)
    problem = _modern_problem(asked, headers) if modern else None
    if problem is not None:
        problem.modern = True
        raise problem
    return asked


def _is_id(value: JsonValue) -> TypeGuard[int | str]:
    return isinstance(value, int | str) and not isinstance(value, bool)


def result_body(asked: Asked, result: JsonObject) -> JsonObject:
    """An answer, with what the era of its request wants in it."""
    if asked.modern:
        meta = result.get("_meta")
        known: JsonObject = meta if isinstance(meta, dict) else {}
        result = {**result, "resultType": "complete", "_meta": {**known, _SERVER_KEY: SERVER}}
    return {"jsonrpc": "2.0", "id": asked.id, "result": result}


def error_body(refused: RpcRefused) -> JsonObject:
    error: JsonObject = {"code": refused.code, "message": str(refused)}
    if refused.data is not None:
        error["data"] = refused.data
    return {"jsonrpc": "2.0", "id": refused.id, "error": error}


def progress_note(token: int | str, done: float, total: float | None, message: str | None) -> JsonObject:
    params: JsonObject = {"progressToken": token, "progress": done}
    params |= {} if total is None else {"total": total}
    params |= {} if message is None else {"message": message}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}


def _object(body: bytes) -> JsonObject:
    try:
        said = decode(body)
    except FrameError as error:
        raise RpcRefused(PARSE_ERROR, f"the body is not JSON: {error.detail}") from error
    if not isinstance(said, dict):
        raise RpcRefused(INVALID_REQUEST, "send one JSON-RPC message, as an object; batches are not read")
    return said


def _head(said: JsonObject) -> tuple[str, JsonObject]:
    method, params = said.get("method"), said.get("params", {})
    if said.get("jsonrpc") != "2.0" or not isinstance(method, str):
        raise RpcRefused(INVALID_REQUEST, 'a message has "jsonrpc": "2.0" and a method; this server asks nothing')
    if not isinstance(params, dict):
        raise RpcRefused(INVALID_REQUEST, "params is an object")
    return method, params


def _meta_of(params: JsonObject) -> JsonObject:
    meta = params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _unsupported(version: str) -> RpcRefused:
    refused = RpcRefused(
        UNSUPPORTED_VERSION,
        "this version of MCP is not spoken here",
        {"supported": [*MODERN_VERSIONS, *HANDSHAKE_VERSIONS], "requested": version[:64]},
    )
    refused.modern = True
    return refused


def _modern_problem(asked: Asked, headers: Mapping[str, str]) -> RpcRefused | None:
    """What is wrong with a request of the newer era. It carries its version and what the client can do, and its headers
    say the same: what is between client and server may go by them."""
    meta = _meta_of(asked.params)
    missing = [key for key in (_VERSION_KEY, _CAPABILITIES_KEY) if key not in meta]
    if missing:
        return RpcRefused(INVALID_PARAMS, f"params._meta has no {' and no '.join(missing)}")
    version, name = meta[_VERSION_KEY], asked.params.get("name")
    if not isinstance(version, str) or headers.get(_VERSION_HEADER) != version:
        return RpcRefused(HEADER_MISMATCH, f"the header {_VERSION_HEADER} and the version in params._meta differ")
    if headers.get(_METHOD_HEADER) != asked.method:
        return RpcRefused(HEADER_MISMATCH, f"the header {_METHOD_HEADER} and the method differ")
    if asked.method == "tools/call" and name is not None and _named(headers.get(_NAME_HEADER)) != name:
        return RpcRefused(HEADER_MISMATCH, f"the header {_NAME_HEADER} and the name in params differ")
    return None if version in MODERN_VERSIONS else _unsupported(version)


def _named(header: str | None) -> str | None:
    """The value of a header that may be encoded, because not every name can be sent as it is."""
    found = None if header is None else _BASE64.fullmatch(header)
    if found is None:
        return header
    try:
        return base64.b64decode(found[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def arguments_of(asked: Asked) -> tuple[str, JsonObject]:
    """The tool and the arguments of `tools/call`. Raises `RpcRefused`."""
    name, arguments = asked.params.get("name"), asked.params.get("arguments")
    if not isinstance(name, str) or not name:
        raise RpcRefused(INVALID_PARAMS, "params has no name of a tool")
    if arguments is not None and not isinstance(arguments, dict):
        raise RpcRefused(INVALID_PARAMS, "the arguments of a tool are an object")
    return name, arguments or {}
