"""Events as a person reads them. Everything there is to know is in their JSON; `--json` prints it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

from bollard.cli.columns import printable, shorten
from bollard.cli.language import Text
from bollard.cli.moments import second_of

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["event_line", "event_lines"]

_DATA_CHARACTERS: Final = 2000


def event_line(event: dict[str, Any], text: Text) -> str:
    """One event in one line."""
    names = {name: printable(str(event[name])) for name in ("event_id", "type", "source", "id")}
    return text("events.head", event=names.pop("event_id"), **names)


def event_lines(body: JsonObject, text: Text) -> Iterator[str]:
    """What happened, and what became of it."""
    event = cast("dict[str, Any]", body)
    content: dict[str, Any] = event.get("content") or {}
    yield event_line(event, text)
    yield text("events.when", created=second_of(event["created_at"]))
    if event["run_id"] is not None:
        yield text("events.run", run=event["run_id"])
    elif "reason" in event:
        yield text("events.none", reason=printable(text.of_host(event["reason"]["message"])))
    else:
        yield text("events.waits")
    if event.get("actor_type") is not None:
        yield text("events.who", actor=printable(f"{event['actor_type']}:{event.get('actor_id') or '-'}"))
    if event.get("conversation_id") is not None:
        yield text("events.where", conversation=printable(event["conversation_id"]))
    if (raw := content.get("raw")) is not None:
        mime = printable(raw.get("mime_type") or "-")
        yield text("events.raw", artifact=raw["artifact_id"], size=raw["size_bytes"], mime=mime)
    if content.get("data"):
        yield text("events.content", data=shorten(json.dumps(content["data"], ensure_ascii=False), _DATA_CHARACTERS))
