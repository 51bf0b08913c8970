"""The people who see a private interaction. They are fixed before it is sent first, so its outcome goes to the same
people, whatever happened to their rights since."""

import asyncio
from typing import Final, Protocol

import msgspec

from bollard.host.approvals.approval import Approval
from bollard.host.clock import Clock
from bollard.host.limits import DELIVERY_AGE_S
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.store.rows import KeptRow, PutKept, RunRow
from bollard.host.store.store import Store

_KIND: Final = "interaction_viewers"
_decode: Final = msgspec.json.Decoder(tuple[str, ...]).decode


class ChannelApprovers(Protocol):
    """Finds the people of a channel who may decide an approval."""

    async def on_channel(self, channel: str, approval: Approval, run: RunRow) -> list[str]:
        """The ids of their actors."""
        ...


class Viewers:
    """The viewers of approvals. A question is for everyone in the conversation to see."""

    def __init__(self, store: Store, journal: Journal, clock: Clock, approvers: ChannelApprovers) -> None:
        self._store = store
        self._journal = journal
        self._clock = clock
        self._approvers = approvers

    async def of(self, approval: Approval) -> tuple[str, ...]:
        """The actors who alone may see the approval: those who may decide it, otherwise the one who waits for it. Empty
        for everyone in the conversation. Raises `HostError` if they could not be stored."""
        known = await asyncio.to_thread(self._store.kept, _KIND, approval.workspace, approval.approval_id)
        if known is not None:
            return _decode(known.body)
        run = await asyncio.to_thread(self._store.run, approval.run_id)
        if run is None or approval.interaction is None:
            return ()
        viewers = await self._approvers.on_channel(approval.interaction.channel, approval, run)
        viewers = viewers or _waiting(approval, approval.interaction.channel)
        row = KeptRow(
            kind=_KIND,
            workspace=approval.workspace,
            id=approval.approval_id,
            body=msgspec.json.encode(viewers),
            # The outcome is queued when the approval expires at the latest.
            expires_ms=max(approval.expires_ms, self._clock.now_ms()) + round(DELIVERY_AGE_S * 1000),
            updated_ms=self._clock.now_ms(),
        )
        await self._journal.commit(Entry(keeps=[PutKept(row)]))
        return tuple(viewers)


def _waiting(approval: Approval, channel: str) -> list[str]:
    """The actor of the channel who requested the call. A group must not see a private call because nobody there may
    decide it."""
    requester = approval.requester
    return [] if requester is None or requester.type != channel or requester.id is None else [requester.id]
