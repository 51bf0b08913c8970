"""The content of a delivery, read from the record that queued it: a message, a failure notice, or an interaction."""

import asyncio
from typing import Final, Literal, Protocol

import msgspec

from bollard.host.approvals.approval import Approval
from bollard.host.channels.channel import Channel
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
from bollard.host.log.outbox_projections import opened_delivery
from bollard.host.store.rows import OutboxRow, RecordRow, RunRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

_decode: Final = msgspec.json.Decoder(list[str]).decode


class _Ended(msgspec.Struct):
    """The data of `run.ended`."""

    code: str | None = None


class _OwnMessage(msgspec.Struct):
    """The data of `delivery.queued`, a message of the host itself."""

    text: str


_own_message: Final = msgspec.json.Decoder(_OwnMessage).decode
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


class ChannelApprovers(Protocol):
    """Finds the people of a channel who may decide an approval."""

    async def on_channel(self, channel: str, approval: Approval, run: RunRow) -> list[str]:
        """The ids of their actors."""
        ...


class Contents:
    """Reads and renders the content of deliveries."""

    def __init__(
        self, store: Store, clock: Clock, address: str | None = None, approvers: ChannelApprovers | None = None
    ) -> None:
        """`address` is the public address of the host, for links."""
        self._store = store
        self._messages = MessageContents(store, clock)
        self._address = address
        self._approvers = approvers

    async def of(self, row: OutboxRow, channel: Channel) -> Content | None:
        """The content for this channel; `None` if retention deleted it."""
        content = await asyncio.to_thread(self._read, row, channel)
        if content is None or content.operation != "interaction" or not channel.abilities.private_messages:
            return content
        return msgspec.structs.replace(content, visible_to=await self._deciders(row))

    async def _deciders(self, row: OutboxRow) -> tuple[str, ...]:
        """The people who may decide the approval. A question is for everyone in the conversation to see."""
        record, run = await asyncio.to_thread(lambda: (self._record(row), self._store.run(row.run_id)))
        approval = None if record is None else requested_approval(record)
        if approval is None or run is None or self._approvers is None:
            return ()
        return tuple(await self._approvers.on_channel(row.channel, approval, run))

    def _read(self, row: OutboxRow, channel: Channel) -> Content | None:
        record = self._record(row)
        if record is None or record.data is None:
            return None
        if record.type in INTERACTION_RECORDS:
            return self._interaction(record, channel)
        if record.type == "run.ended":
            return Content(failed=_ended(record.data).code or "failed")
        if record.type == "delivery.queued":
            return Content(_own_message(record.data).text)
        message = self._messages.of(row, record.data)
        return Content(message.text, message.contents, message.artifacts)

    def _record(self, row: OutboxRow) -> RecordRow | None:
        return next(iter(self._store.records(row.record_id - 1, 1)), None)

    def _interaction(self, record: RecordRow, channel: Channel) -> Content | None:
        surface = Surface(abilities=channel.abilities, locale=channel.locale, address=self._address)
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
