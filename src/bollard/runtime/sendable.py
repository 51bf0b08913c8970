"""Whether something of the plugin's may travel: the limits of a frame, checked before the host would count a strike."""

from bollard.protocol import JsonObject
from bollard.runtime.limits import LOG_FIELDS_BYTES
from bollard.wire import WireError, decode, encode

__all__ = ["sendable_fields", "sendable_text", "unsendable_result"]


def unsendable_result(result: JsonObject) -> str | None:
    """Why the answer to a call could not be sent; `None` when it can."""
    return _refusal({"jsonrpc": "2.0", "id": 0, "result": result})


def sendable_text(text: str) -> str:
    """The text with a mark for every half of a surrogate pair, which no frame can carry."""
    return text.encode("utf-8", "replace").decode()


def sendable_fields(fields: JsonObject) -> JsonObject:
    """The fields of a log record, or one field that says why they were refused."""
    if not fields:
        return fields
    # The members that the channel adds count too.
    params: JsonObject = {"level": "", "message": "", "run_id": "", "fields": {**fields, "cut_characters": 0}}
    problem = _refusal({"jsonrpc": "2.0", "method": "log", "params": params}, LOG_FIELDS_BYTES)
    return fields if problem is None else {"fields_refused": problem}


def _refusal(frame: JsonObject, most_bytes: int | None = None) -> str | None:
    try:
        written = encode(frame)
        decode(written)
    except (WireError, TypeError, ValueError, OverflowError, RecursionError) as error:
        return str(error)
    if most_bytes is not None and len(written) > most_bytes:
        return f"{len(written)} bytes of JSON, the limit is {most_bytes}"
    return None
