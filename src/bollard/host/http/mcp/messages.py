"""Messages of MCP over streamable HTTP, in both eras: with a handshake (to 2025-11-25), and each request whole (from
2026-07-28). Pure: what a body and its headers mean, and what answers look like. The SDK is not in this process."""

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


class McpRequest(msgspec.Struct, frozen=True, kw_only=True):
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


class McpNotification(msgspec.Struct, frozen=True, kw_only=True):
    """A notification: nobody waits for an answer."""

    method: str
    params: JsonObject


def read_message(body: bytes, headers: Mapping[str, str]) -> McpRequest | McpNotification:
    """What was sent, if it is one message of a version that is spoken here. Raises `RpcRefused`."""
    said = _object(body)
    try:
        return _read(said, headers)
    except RpcRefused as refused:
        identity = said.get("id")
        refused.id = identity if _is_id(identity) else None
        raise


def _read(said: JsonObject, headers: Mapping[str, str]) -> McpRequest | McpNotification:
    version, identity = headers.get(_VERSION_HEADER), said.get("id")
    method, params = _head(said)
    if "id" not in said:
        if version is not None and version not in (*HANDSHAKE_VERSIONS, *MODERN_VERSIONS):
            raise _unsupported(version)
        return McpNotification(method=method, params=params)
    if not _is_id(identity):
        raise RpcRefused(INVALID_REQUEST, "the id of a request is a text or a whole number")
    modern = (version is not None and version not in HANDSHAKE_VERSIONS) or _VERSION_KEY in _meta_of(params)
    asked = McpRequest(id=identity, method=method, params=params, modern=modern)
    problem = _modern_problem(asked, headers) if modern else None
    if problem is not None:
        problem.modern = True
        raise problem
    return asked


def _is_id(value: JsonValue) -> TypeGuard[int | str]:
    return isinstance(value, int | str) and not isinstance(value, bool)


def result_body(asked: McpRequest, result: JsonObject) -> JsonObject:
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


def _modern_problem(asked: McpRequest, headers: Mapping[str, str]) -> RpcRefused | None:
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


def arguments_of(asked: McpRequest) -> tuple[str, JsonObject]:
    """The tool and the arguments of `tools/call`. Raises `RpcRefused`."""
    name, arguments = asked.params.get("name"), asked.params.get("arguments")
    if not isinstance(name, str) or not name:
        raise RpcRefused(INVALID_PARAMS, "params has no name of a tool")
    if arguments is not None and not isinstance(arguments, dict):
        raise RpcRefused(INVALID_PARAMS, "the arguments of a tool are an object")
    return name, arguments or {}


# Content of our protocol (§4) and errors of ours as MCP has them. Pure.


_DATA_URL: Final = re.compile(r"data:([a-zA-Z0-9.+-]+/[a-zA-Z0-9.+-]+)?(?:;[^,;]*)*;base64,(.*)", re.DOTALL)
_ANY_TYPE: Final = "application/octet-stream"
_ERROR_KEY: Final = "bollard/error"
_HEADER_KEY: Final = "x-mcp-header"


def text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def tool_answer(content: Sequence[JsonObject], structured: JsonValue = None, *, is_error: bool = False) -> JsonObject:
    """A `CallToolResult`. What is structured is an object, as every version has it; text says it too, for those who
    read nothing else."""
    answer: JsonObject = {"content": [*content], "isError": is_error}
    if isinstance(structured, dict):
        answer["structuredContent"] = structured
    if structured is not None and not content:
        answer["content"] = [text_block(encode(structured).decode())]
    return answer


def refused_call(error: AgentAPIError, hint: str = "") -> JsonObject:
    """A call that was not done, so that a model can read why."""
    told: JsonObject = {"code": error.code, "retryable": error.retryable, "details": error.details}
    said = f"{error.code}: {error.message}" + (f" ({hint})" if hint else "")
    return {**tool_answer([text_block(said)], is_error=True), "_meta": {_ERROR_KEY: told}}


def blocks_of(elements: Sequence[JsonObject], artifacts: Sequence[JsonObject] = ()) -> list[JsonObject]:
    """Elements of content, and what is kept beside them."""
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
    """An artifact by its id, as text: it is read with a tool of the same server."""
    return text_block(encode({"artifact": artifact}).decode())


def without_headers(schema: JsonObject) -> JsonObject:
    """A schema without the marks that some arguments are sent as HTTP headers too: those were meant for whoever had the
    tool first, and would let each argument be said twice."""
    return {
        name: _cleaned(value) for name, value in schema.items() if name != _HEADER_KEY or not isinstance(value, str)
    }


def _cleaned(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_cleaned(each) for each in value]
    return without_headers(value) if isinstance(value, dict) else value


# Limits of the MCP gateway, each with its unit.


TOOLS_OF_PAGE: Final = 100
"""Tools of one page of `tools/list`."""
TOOL_LIST_TTL_MS: Final = 5_000
"""How long a client may take a list of agents as it was. That of a run does not change while the run goes on, except
by what is taken away from it."""
JSON_ANSWER_S: Final = 10.0
"""A call that says nothing for so long is answered as a stream where the client takes one, so that nobody between the
two takes it for dead."""
NOTES: Final = 256
"""Notes of progress that wait for a slow reader; then the oldest goes."""
NOTE_CHARACTERS: Final = 4096
"""The text of one note of progress."""
ANSWER_MESSAGES: Final = 8
"""The last messages of an agent, which are its answer."""
CALLS_OF_CALLER: Final = 64
"""Calls that one caller of `/mcp` may have under way."""
