"""The content of a delivery, read from the record that it delivers: text, other elements and artifacts.

A runner may name any artifact. Only those that its run made, or that belong to the place of the run, are delivered.
"""

from typing import Any, Final, Literal

import msgspec

from bollard.host.channels.channel import Channel
from bollard.host.clock import Clock
from bollard.host.delivery.interaction_content import (
    INTERACTION_RECORDS,
    OPENING,
    Surface,
    closed_content,
    opened_content,
    route_in,
)
from bollard.host.log.outbox_projections import opened_delivery
from bollard.host.run_api.history import artifact_ref
from bollard.host.run_api.reach import ArtifactReach
from bollard.host.store.rows import ArtifactRow, OutboxRow, RecordRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject


class _Ref(msgspec.Struct):
    artifact_id: str


class _Message(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    artifact_refs: list[_Ref] | None = None


class _Completed(msgspec.Struct):
    """The part of `message.completed` that can be sent."""

    message: _Message


class _Ended(msgspec.Struct):
    """The data of `run.ended`."""

    code: str | None = None


class _OwnMessage(msgspec.Struct):
    """The data of `delivery.queued`, a message of the host itself."""

    text: str


_decode: Final = msgspec.json.Decoder().decode
_own_message: Final = msgspec.json.Decoder(_OwnMessage).decode
_completed: Final = msgspec.json.Decoder(_Completed).decode
_ended: Final = msgspec.json.Decoder(_Ended).decode


class MessageContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one delivery."""

    text: str = ""
    contents: tuple[JsonObject, ...] = ()
    """The elements besides text; an artifact with its name, type and size."""
    artifacts: tuple[str, ...] = ()
    """The ids of the artifacts among them."""
    failed: str | None = None
    operation: Literal["message", "interaction", "interaction_update"] = "message"
    card: JsonObject | None = None
    edit_of: str | None = None
    """The message that shows the interaction."""


class MessageContents:
    """Reads the contents of deliveries. Blocks."""

    def __init__(self, store: Store, clock: Clock, address: str | None = None) -> None:
        """`address` is the public address of the host."""
        self._store = store
        self._reach = ArtifactReach(store, clock)
        self._address = address

    def of(self, row: OutboxRow, channel: Channel) -> MessageContent | None:
        """The content; `None` if retention deleted it."""
        record = self._record(row)
        if record is None or record.data is None:
            return None
        if record.type in INTERACTION_RECORDS:
            return self._interaction(record, channel)
        if record.type == "run.ended":
            return MessageContent(failed=_ended(record.data).code or "failed")
        if record.type == "delivery.queued":
            return MessageContent(text=_own_message(record.data).text)
        return self._message(row, record.data)

    def _record(self, row: OutboxRow) -> RecordRow | None:
        return next(iter(self._store.records(row.record_id - 1, 1)), None)

    def _interaction(self, record: RecordRow, channel: Channel) -> MessageContent | None:
        surface = Surface(abilities=channel.abilities, locale=channel.locale, address=self._address)
        if record.type in OPENING:
            content = opened_content(record, surface)
            return MessageContent(text=content.text, operation=content.operation, card=content.card)
        shown = self._store.delivery(record.workspace, opened_delivery(route_in(record.data or b"{}").id))
        opened = None if shown is None else self._record(shown)
        if shown is None or opened is None or opened.data is None:
            return None
        content = closed_content(record, opened, surface)
        messages: list[str] = _decode(shown.messages)
        edits = (
            len(messages) == 1 and bool(messages[0]) and (content.card is not None or surface.abilities.supports_edit)
        )
        return MessageContent(
            text=content.text, operation=content.operation, card=content.card, edit_of=messages[0] if edits else None
        )

    def _message(self, row: OutboxRow, data: bytes) -> MessageContent:
        message = _completed(data).message
        elements = message.content if isinstance(message.content, list) else []
        text = message.content or "" if not isinstance(message.content, list) else _text_of(elements)
        others: list[JsonObject] = [each for each in elements if each.get("type") != "text"]
        standing = {str(each["artifact_id"]) for each in others if _is_artifact(each)}
        refs = dict.fromkeys(ref.artifact_id for ref in message.artifact_refs or ())
        others += [_element(each) for each in refs if each not in standing]
        contents: list[JsonObject] = []
        artifacts: list[str] = []
        for element in others:
            if not _is_artifact(element):
                contents.append(element)
            elif (found := self._readable(row, str(element["artifact_id"]))) is not None:
                contents.append({**artifact_ref(found).to_wire(), "type": "artifact"})
                artifacts.append(found.artifact_id)
        return MessageContent(text=text, contents=tuple(contents), artifacts=tuple(artifacts))

    def artifact(self, row: OutboxRow, artifact_id: str) -> ArtifactRow | None:
        """An artifact of this delivery; `None` for any other."""
        record = self._record(row)
        if record is None or record.data is None or record.type != "message.completed":
            return None
        return self._readable(row, artifact_id) if artifact_id in self._message(row, record.data).artifacts else None

    def _readable(self, row: OutboxRow, artifact_id: str) -> ArtifactRow | None:
        run = self._store.run(row.run_id)
        return None if run is None else self._reach.of_run(run, artifact_id)


def _element(artifact_id: str) -> JsonObject:
    return {"type": "artifact", "artifact_id": artifact_id}


def _is_artifact(element: JsonObject) -> bool:
    return element.get("type") == "artifact" and isinstance(element.get("artifact_id"), str)


def _text_of(elements: list[JsonObject]) -> str:
    texts = [each.get("text") for each in elements if each.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))
