"""Parses and builds MCP messages for streamable HTTP: versions with a handshake (to 2025-11-25) and versions with
self-contained requests (from 2026-07-28). Pure. The MCP SDK is not loaded in this process."""

import base64
import binascii
import mimetypes
import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeGuard

import msgspec

from bollard import __version__
from bollard.protocol import AgentAPIError, JsonObject, JsonValue
from bollard.wire import FrameError, decode, encode

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
"""HTTP status by error code from 2026-07-28 on; other codes are 400."""
_ENVELOPE: Final = frozenset({PARSE_ERROR, INVALID_REQUEST, UNSUPPORTED_VERSION, HEADER_MISMATCH})
"""Codes that are HTTP 400 before 2026-07-28; other errors are HTTP 200."""
SERVER: Final[JsonObject] = {"name": "bollard", "version": __version__}


class RpcRefused(Exception):
    """A JSON-RPC error: code, message and data."""

    def __init__(self, code: int, message: str, data: JsonValue = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.id: int | str | None = None
        self.modern = False

    @property
    def status(self) -> int:
        """The status of the HTTP response."""
        if self.modern:
            return _STATUS.get(self.code, 400)
        return 400 if self.code in _ENVELOPE else 200


class McpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request."""

    id: int | str
    method: str
    params: JsonObject
    modern: bool

    @property
    def meta(self) -> JsonObject:
        return _meta_of(self.params)

    @property
    def progress_token(self) -> int | str | None:
        """The token for progress notifications, if the client wants them."""
        token = self.meta.get("progressToken")
        return token if isinstance(token, str) or (isinstance(token, int) and not isinstance(token, bool)) else None


class McpNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification, which has no response."""

    method: str
    params: JsonObject


def read_message(body: bytes, headers: Mapping[str, str]) -> McpRequest | McpNotification:
    """Parse a message of a supported version. Raises `RpcRefused`."""
    message = _object(body)
    try:
        return _read(message, headers)
    except RpcRefused as refused:
        identity = message.get("id")
        refused.id = identity if _is_id(identity) else None
        raise


def _read(message: JsonObject, headers: Mapping[str, str]) -> McpRequest | McpNotification:
    version, identity = headers.get(_VERSION_HEADER), message.get("id")
    method, params = _head(message)
    if "id" not in message:
        if version is not None and version not in (*HANDSHAKE_VERSIONS, *MODERN_VERSIONS):
            raise _unsupported(version)
        return McpNotification(method=method, params=params)
    if not _is_id(identity):
        raise RpcRefused(INVALID_REQUEST, "the id of a request is a text or a whole number")
    modern = (version is not None and version not in HANDSHAKE_VERSIONS) or _VERSION_KEY in _meta_of(params)
    request = McpRequest(id=identity, method=method, params=params, modern=modern)
    problem = _modern_problem(request, headers) if modern else None
    if problem is not None:
        problem.modern = True
        raise problem
    return request


def _is_id(value: JsonValue) -> TypeGuard[int | str]:
    return isinstance(value, int | str) and not isinstance(value, bool)


def result_body(request: McpRequest, result: JsonObject) -> JsonObject:
    """A response in the form of the version of its request."""
    if request.modern:
        meta = result.get("_meta")
        known: JsonObject = meta if isinstance(meta, dict) else {}
        result = {**result, "resultType": "complete", "_meta": {**known, _SERVER_KEY: SERVER}}
    return {"jsonrpc": "2.0", "id": request.id, "result": result}


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
        message = decode(body)
    except FrameError as error:
        raise RpcRefused(PARSE_ERROR, f"the body is not JSON: {error.detail}") from error
    if not isinstance(message, dict):
        raise RpcRefused(INVALID_REQUEST, "send one JSON-RPC message, as an object; batches are not read")
    return message


def _head(message: JsonObject) -> tuple[str, JsonObject]:
    method, params = message.get("method"), message.get("params", {})
    if message.get("jsonrpc") != "2.0" or not isinstance(method, str):
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


def _modern_problem(request: McpRequest, headers: Mapping[str, str]) -> RpcRefused | None:
    """Check a request from 2026-07-28 on. It has its version and the capabilities of the client, and its headers must
    match, because proxies may use them."""
    meta = request.meta
    missing = [key for key in (_VERSION_KEY, _CAPABILITIES_KEY) if key not in meta]
    if missing:
        return RpcRefused(INVALID_PARAMS, f"params._meta has no {' and no '.join(missing)}")
    version, name = meta[_VERSION_KEY], request.params.get("name")
    if not isinstance(version, str) or headers.get(_VERSION_HEADER) != version:
        return RpcRefused(HEADER_MISMATCH, f"the header {_VERSION_HEADER} and the version in params._meta differ")
    if headers.get(_METHOD_HEADER) != request.method:
        return RpcRefused(HEADER_MISMATCH, f"the header {_METHOD_HEADER} and the method differ")
    if request.method == "tools/call" and name is not None and _named(headers.get(_NAME_HEADER)) != name:
        return RpcRefused(HEADER_MISMATCH, f"the header {_NAME_HEADER} and the name in params differ")
    return None if version in MODERN_VERSIONS else _unsupported(version)


def _named(header: str | None) -> str | None:
    """Decode the value of a header: not every name is valid in a header."""
    found = None if header is None else _BASE64.fullmatch(header)
    if found is None:
        return header
    try:
        return base64.b64decode(found[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def arguments_of(request: McpRequest) -> tuple[str, JsonObject]:
    """The tool and the arguments of `tools/call`. Raises `RpcRefused`."""
    name, arguments = request.params.get("name"), request.params.get("arguments")
    if not isinstance(name, str) or not name:
        raise RpcRefused(INVALID_PARAMS, "params has no name of a tool")
    if arguments is not None and not isinstance(arguments, dict):
        raise RpcRefused(INVALID_PARAMS, "the arguments of a tool are an object")
    return name, arguments or {}


# --- content and errors of our protocol (§4) as MCP ---


_DATA_URL: Final = re.compile(r"data:([a-zA-Z0-9.+-]+/[a-zA-Z0-9.+-]+)?(?:;[^,;]*)*;base64,(.*)", re.DOTALL)
_ANY_TYPE: Final = "application/octet-stream"
_ERROR_KEY: Final = "bollard/error"
_HEADER_KEY: Final = "x-mcp-header"


def text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def tool_answer(content: Sequence[JsonObject], structured: JsonValue = None, *, is_error: bool = False) -> JsonObject:
    """A `CallToolResult`. Structured content is always an object, and repeated as text for clients that read only
    text."""
    answer: JsonObject = {"content": [*content], "isError": is_error}
    if isinstance(structured, dict):
        answer["structuredContent"] = structured
    if structured is not None and not content:
        answer["content"] = [text_block(encode(structured).decode())]
    return answer


def refused_call(error: AgentAPIError, hint: str = "") -> JsonObject:
    """The result of a refused call, readable for a model."""
    fields: JsonObject = {"code": error.code, "retryable": error.retryable, "details": error.details}
    text = f"{error.code}: {error.message}" + (f" ({hint})" if hint else "")
    return {**tool_answer([text_block(text)], is_error=True), "_meta": {_ERROR_KEY: fields}}


def blocks_of(elements: Sequence[JsonObject], artifacts: Sequence[JsonObject] = ()) -> list[JsonObject]:
    """Content elements and artifacts as MCP content blocks."""
    return [_block(element) for element in elements] + [_reference(artifact) for artifact in artifacts]


def _block(element: JsonObject) -> JsonObject:
    match element:
        case {"type": "text", "text": str() as text}:
            return text_block(text)
        case {"type": "image_base64", "image_base64": str() as data}:
            found = _DATA_URL.fullmatch(data)
            return {
                "type": "image",
                "data": data if found is None else found[2],
                "mimeType": "image/png" if found is None else found[1] or "image/png",
            }
        case {"type": "image_url", "image_url": {"url": str() as url}}:
            return text_block(url)
        case {"type": "file_url", "file_url": str() as url}:
            return {"type": "resource_link", "uri": url, "name": str(element.get("file_name") or url)}
        case {"type": "file_base64", "file_base64": str() as data}:
            name = str(element.get("file_name") or "file")
            kind = mimetypes.guess_type(name)[0] or _ANY_TYPE
            resource: JsonObject = {"uri": f"file:///{name}", "mimeType": kind, "blob": data}
            return {"type": "resource", "resource": resource}
        case {"type": "artifact"}:
            return _reference(element)
        case _:
            return text_block(encode(element).decode())


def _reference(artifact: JsonObject) -> JsonObject:
    """A reference to an artifact as text; a tool of the same server reads it."""
    return text_block(encode({"artifact": artifact}).decode())


def without_headers(schema: JsonObject) -> JsonObject:
    """A schema without the annotations for HTTP headers of its original server, which would allow two values for one
    argument."""
    return {
        name: _cleaned(value) for name, value in schema.items() if name != _HEADER_KEY or not isinstance(value, str)
    }


def _cleaned(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    return without_headers(value) if isinstance(value, dict) else value


# --- limits ---


TOOLS_OF_PAGE: Final = 100
"""Page size of `tools/list`."""
TOOL_LIST_TTL_MS: Final = 5_000
"""How long a client may cache a list of tools. The list of a run changes only by revocation."""
JSON_ANSWER_S: Final = 10.0
"""A call that is silent for this long continues as a stream, if the client accepts one, so that proxies keep the
connection open."""
NOTES: Final = 256
"""Progress notifications that are queued for a slow client; then the oldest is dropped."""
NOTE_CHARACTERS: Final = 4096
"""The longest text of a progress notification."""
CALLS_OF_CALLER: Final = 64
"""Calls in progress of one caller of `/mcp`."""
