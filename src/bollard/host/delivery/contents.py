"""The content of a delivery, read from the record that queued it: a message, a failure notice, or an interaction."""

import asyncio
from typing import Final, Literal

import msgspec

from bollard.host.channels.channel import Channel
from bollard.host.channels.outgoing_filter import WORDS, screened
from bollard.host.clock import Clock
from bollard.host.delivery.interaction_content import (
    INTERACTION_RECORDS,
    OPENING,
    Surface,
    closed_content,
    opened_content,
    requested_approval,
    route_in,
)
from bollard.host.delivery.message_content import MessageContents
from bollard.host.delivery.viewers import Viewers
from bollard.host.log.outbox_projections import opened_delivery
from bollard.host.store.rows import OutboxRow, RecordRow
from bollard.host.store.store import Store
from bollard.host.texts import nearest
from bollard.protocol import JsonObject

_decode: Final = msgspec.json.Decoder(list[str]).decode


class _Ended(msgspec.Struct):
    """The data of `run.ended`."""

    code: str | None = None


class _Sender(msgspec.Struct, frozen=True):
    locale: str | None = None


class _Received(msgspec.Struct):
    """The data of `event.received`."""

    details: _Sender = _Sender()


class _OwnMessage(msgspec.Struct):
    """The data of `delivery.queued`, a message of the host itself."""

    text: str


_own_message: Final = msgspec.json.Decoder(_OwnMessage).decode
_received: Final = msgspec.json.Decoder(_Received).decode
_ended: Final = msgspec.json.Decoder(_Ended).decode


class Content(msgspec.Struct, frozen=True):
    """What one delivery sends."""

    text: str = ""
    contents: tuple[JsonObject, ...] = ()
    """The elements besides text."""
    artifacts: tuple[str, ...] = ()
    """The ids of the artifacts among them."""
    failed: str | None = None
    operation: Literal["message", "interaction", "interaction_update"] = "message"
    card: JsonObject | None = None
    edit_of: str | None = None
    """The message that shows the interaction."""
    visible_to: tuple[str, ...] = ()
    """Actors of the channel who alone may see it; empty: everyone in the conversation."""


class Contents:
    """Reads and renders the content of deliveries."""

    def __init__(self, store: Store, clock: Clock, address: str | None = None, viewers: Viewers | None = None) -> None:
        """`address` is the public address of the host, for links. Without `viewers`, everyone sees an interaction."""
        self._store = store
        self._messages = MessageContents(store, clock)
        self._address = address
        self._viewers = viewers

    async def of(self, row: OutboxRow, channel: Channel) -> Content | None:
        """The content for this channel; `None` if retention deleted it. Raises `HostError`."""
        content = await asyncio.to_thread(self._read, row, channel)
        if content is None or content.operation == "message" or not channel.abilities.private_messages:
            return content
        return msgspec.structs.replace(content, visible_to=await self._seen_by(row))

    async def _seen_by(self, row: OutboxRow) -> tuple[str, ...]:
        opened = await asyncio.to_thread(self._opened, row)
        approval = None if opened is None else requested_approval(opened)
        return () if approval is None or self._viewers is None else await self._viewers.of(approval)

    def _opened(self, row: OutboxRow) -> RecordRow | None:
        """The record that opened the interaction of a delivery."""
        record = self._record(row)
        if record is None or record.data is None or record.type in OPENING:
            return record
        shown = self._store.delivery(record.workspace, opened_delivery(route_in(record.data).id))
        return None if shown is None else self._record(shown)

    def _read(self, row: OutboxRow, channel: Channel) -> Content | None:
        record = self._record(row)
        if record is None or record.data is None:
            return None
        if record.type in INTERACTION_RECORDS:
            return self._interaction(record, channel)
        if record.type == "run.ended":
            return self._failure(row, _ended(record.data).code or "failed", channel)
        if record.type == "delivery.queued":
            return Content(screened(channel, _own_message(record.data).text).text)
        message = self._messages.of(row, record.data)
        text = screened(channel, message.text)
        return Content(text.text) if text.withheld else Content(text.text, message.contents, message.artifacts)

    def _failure(self, row: OutboxRow, code: str, channel: Channel) -> Content:
        """A sentence in the language of the person whom the run failed, otherwise of the channel."""
        event = self._store.event(row.workspace, row.event_id)
        record = None if event is None else next(iter(self._store.records(event.record_id - 1, 1)), None)
        spoken = None if record is None else _received(record.data or b"{}").details.locale
        words = WORDS[nearest(spoken, channel.locale)]
        sentence = words.get(f"failed.{code}", words["failed"])
        return Content(sentence.format(run=row.run_id), failed=code)

    def _record(self, row: OutboxRow) -> RecordRow | None:
        return next(iter(self._store.records(row.record_id - 1, 1)), None)

    def _interaction(self, record: RecordRow, channel: Channel) -> Content | None:
        surface = Surface(
            abilities=channel.abilities, locale=channel.locale, filter_out=channel.filter_out, address=self._address
        )
        if record.type in OPENING:
            content = opened_content(record, surface)
            return Content(content.text, operation=content.operation, card=content.card)
        shown = self._store.delivery(record.workspace, opened_delivery(route_in(record.data or b"{}").id))
        opened = None if shown is None else self._record(shown)
        if shown is None or opened is None or opened.data is None:
            return None
        content = closed_content(record, opened, surface)
        messages: list[str] = _decode(shown.messages)
        edits = (
            len(messages) == 1 and bool(messages[0]) and (content.card is not None or surface.abilities.supports_edit)
        )
        return Content(
            content.text, operation=content.operation, card=content.card, edit_of=messages[0] if edits else None
        )
