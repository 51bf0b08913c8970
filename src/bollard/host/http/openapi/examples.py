"""Example responses for the OpenAPI document, read from `examples.json`. A test checks each against its schema."""

from pathlib import Path
from typing import Any, Final

import msgspec

from bollard.protocol import JsonObject

_EXAMPLES: Final[dict[str, Any]] = msgspec.json.decode(Path(__file__).with_name("examples.json").read_bytes())
ACCEPTED_EXAMPLE: Final[JsonObject] = _EXAMPLES["accepted"]
RUN_EXAMPLE: Final[JsonObject] = _EXAMPLES["run"]
RECORD_EXAMPLE: Final[JsonObject] = _EXAMPLES["record"]
RUN_STREAM_EXAMPLE: Final[str] = _EXAMPLES["run_stream"]
MESSAGE_EXAMPLE: Final[JsonObject] = _EXAMPLES["message"]
GRANT_EXAMPLE: Final[JsonObject] = _EXAMPLES["grant"]
EXPLAINED_EXAMPLE: Final[JsonObject] = _EXAMPLES["explained"]
RESOLVED_EXAMPLE: Final[JsonObject] = _EXAMPLES["resolved"]
BINDING_EXAMPLE: Final[JsonObject] = _EXAMPLES["binding"]
CHANNEL_EXAMPLE: Final[JsonObject] = _EXAMPLES["channel"]
ARTIFACT_EXAMPLE: Final[JsonObject] = _EXAMPLES["artifact"]


def page_example(item: JsonObject) -> JsonObject:
    """A page with this item."""
    return {"items": [item], "has_more": False}
