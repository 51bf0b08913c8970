"""The rules of a plugin, by the ids that docs and translations refer to, and what a frame can carry of its texts."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bollard.protocol import JsonObject
from bollard.runtime.limits import LOG_FIELDS_BYTES
from bollard.wire import WireError, decode, encode

RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "PL01": "the path is a plugin folder or one Python file",
        "PL02": "a plugin folder has a manifest.yaml",
        "PL03": "manifest.yaml is plain YAML: one mapping, no aliases, tags or duplicate keys, at most 256 KiB",
        "PL04": "the plugin's own fields are complete and valid",
        "PL05": "the plugin runs on this Python",
        "PL06": "the plugin offers at least one runner or tool",
        "PL10": "each runner's manifest entry is complete and valid",
        "PL11": "the module of each entry can be imported",
        "PL12": "each entry names something that exists in its module",
        "PL13": "each runner entry is a runner",
        "PL14": "runner and tool names are unique in a plugin",
        "PL15": "the manifest and the decorator agree",
        "PL20": "each tool's manifest entry is complete and valid",
        "PL23": "each tool entry is a tool",
    }
)
"""Rule ids and their requirements. All but PL01 to PL05 concern one entry and leave the others usable."""


# The checks below apply the limits of a frame before the host would count a strike.


def explain_unsendable(result: JsonObject) -> str | None:
    """Return why the response to a call cannot be sent, or `None` if it can."""
    return _explain_refusal({"jsonrpc": "2.0", "id": 0, "result": result})


def make_sendable(text: str) -> str:
    """Replace lone surrogates, which no frame can carry."""
    return text.encode("utf-8", "replace").decode()


def check_log_fields(fields: JsonObject) -> JsonObject:
    """Return the fields of a log record, or a single field with the reason why they were refused."""
    if not fields:
        return fields
    # The members that the connection adds count too.
    params: JsonObject = {"level": "", "message": "", "run_id": "", "fields": {**fields, "cut_characters": 0}}
    problem = _explain_refusal({"jsonrpc": "2.0", "method": "log", "params": params}, LOG_FIELDS_BYTES)
    return fields if problem is None else {"fields_refused": problem}


def _explain_refusal(frame: JsonObject, most_bytes: int | None = None) -> str | None:
    try:
        written = encode(frame)
        decode(written)
    except (WireError, TypeError, ValueError, OverflowError, RecursionError) as error:
        return str(error)
    if most_bytes is not None and len(written) > most_bytes:
        return f"{len(written)} bytes of JSON, the limit is {most_bytes}"
    return None
