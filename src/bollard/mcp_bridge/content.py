"""An answer of an MCP server in the words of our protocol (§4). Pure."""

import base64
import binascii
from typing import Any, Final, cast

from bollard.wire.bridge_frames import Returned
from bollard.wire.errors import FrameError
from bollard.wire.strict_json import encode_frame

__all__ = ["returned"]

_Json = dict[str, Any]
_NOT_SHOWN: Final = "[the server sent {what}, which cannot be read]"


def returned(call: int, answer: _Json) -> Returned:
    """What a tool answered. What no runner could be given becomes an error that says so."""
    if answer.get("resultType", "complete") == "input_required":
        return _refused(call, "the server asks for input during the call, which this host does not give")
    content = [element for block in _list(answer.get("content")) for element in _elements(block)]
    structured = answer.get("structuredContent")
    if structured is not None and not isinstance(structured, dict):
        structured = {"result": structured}  # from 2026-07-28 on it may be any JSON
    try:
        encode_frame([*content, structured])
    except (FrameError, OverflowError, ValueError) as error:
        return _refused(call, f"the answer of the server cannot be passed on: {error}")
    return Returned(
        call=call,
        content=content,
        structured=cast("_Json | None", structured),
        is_error=answer.get("isError") is True,
    )


def _refused(call: int, problem: str) -> Returned:
    return Returned(call=call, content=[_text(problem)], is_error=True)


def _elements(block: _Json) -> list[_Json]:
    match block.get("type"):
        case "text":
            return [_text(str(block.get("text", "")))]
        case "image":
            data = _base64(block.get("data"))
            if data is None:
                return [_text(_NOT_SHOWN.format(what="an image"))]
            return [{"type": "image_base64", "image_base64": f"data:{_mime(block, 'image/png')};base64,{data}"}]
        case "audio":
            return [_file(block.get("data"), f"audio.{_mime(block, 'audio/wav').partition('/')[2]}")]
        case "resource_link":
            link: _Json = {"type": "file_url", "file_url": str(block.get("uri", ""))}
            return [link | ({"file_name": str(block["name"])} if block.get("name") else {})]
        case "resource":
            return [_embedded(cast("_Json", block.get("resource") or {}))]
        case other:
            return [_text(_NOT_SHOWN.format(what=f"content of the type {other!r}"))]


def _embedded(resource: _Json) -> _Json:
    if isinstance(resource.get("text"), str):
        return _text(resource["text"])
    return _file(resource.get("blob"), str(resource.get("uri", "")).rstrip("/").rpartition("/")[2])


def _text(text: str) -> _Json:
    return {"type": "text", "text": text}


def _file(data: object, name: str) -> _Json:
    checked = _base64(data)
    if checked is None:
        return _text(_NOT_SHOWN.format(what="a file"))
    return {"type": "file_base64", "file_base64": checked, "file_name": name or "file"}


def _mime(block: _Json, otherwise: str) -> str:
    given = str(block.get("mimeType", ""))
    return given if given.isascii() and given.count("/") == 1 and not set(given) & set(" ;,\r\n") else otherwise


def _base64(data: object) -> str | None:
    if not isinstance(data, str):
        return None
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data


def _list(value: object) -> list[_Json]:
    return [each for each in cast("list[Any]", value) if isinstance(each, dict)] if isinstance(value, list) else []
