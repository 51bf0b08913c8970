"""The parts of approvals, put together: asking, deciding, lasting, carrying out."""

import asyncio
from collections.abc import Mapping

import msgspec

from bollard.host.agents.agent import AgentBook
from bollard.host.approvals.approval_log import ApprovalLog
from bollard.host.approvals.book import Book
from bollard.host.approvals.deciding import Deciding, Verdict
from bollard.host.approvals.detached import Carry, Detached, Offered, Raise
from bollard.host.approvals.lasting import Lasting
from bollard.host.approvals.proposal import Permission, Proposal
from bollard.host.approvals.waiting import HoldsSecret, Parking
from bollard.host.clock import Clock
from bollard.host.grants.session import RunSession
from bollard.host.log.journal import Journal
from bollard.host.runs.control import RunControl
from bollard.host.runs.live import LiveRun
from bollard.host.runs.parked import Parked
from bollard.host.store.boundary import Store

__all__ = ["Approvals", "open_approvals"]


class Approvals(msgspec.Struct, frozen=True, kw_only=True):
    """What the executor asks, and what people answer through."""

    book: Book
    parking: Parking
    deciding: Deciding
    lasting: Lasting
    detached: Detached

    async def ask(self, session: RunSession, proposal: Proposal) -> Permission:
        """A yes to exactly this call, or an error that says why there is none."""
        return await self.parking.ask(session, proposal)

    async def decide(self, workspace: str, approval_id: str, verdict: Verdict) -> None:
        await self.deciding.decide(workspace, approval_id, verdict)

    async def load(self, recovered: asyncio.Event) -> None:
        """What was left open at the last stop. `recovered`: no run of before counts as running any more."""
        await self.lasting.load(recovered)

    def sweep(self) -> None:
        """About once a second."""
        self.lasting.sweep()

    async def close(self) -> None:
        await self.lasting.close()
        await self.detached.close()


def open_approvals(
    *,
    journal: Journal,
    clock: Clock,
    store: Store,
    live: Mapping[str, LiveRun],
    parked: Parked,
    agents: AgentBook,
    carry: Carry,
    raises: Raise,
    offered: Offered,
    holds_secret: HoldsSecret,
) -> Approvals:
    book, log = Book(), ApprovalLog(journal, clock)
    detached = Detached(
        book=book,
        log=log,
        clock=clock,
        store=store,
        agents=agents,
        control=RunControl(store, live),
        carry=carry,
        raises=raises,
        offered=offered,
    )
    lasting = Lasting(book=book, log=log, clock=clock, store=store, live=live, detach=detached.begin)
    parking = Parking(
        book=book,
        log=log,
        clock=clock,
        live=live,
        parked=parked,
        agents=agents,
        run_over=lasting.run_over,
        holds_secret=holds_secret,
    )
    deciding = Deciding(
        book=book,
        log=log,
        clock=clock,
        store=store,
        live=live,
        lasting=lasting,
        cover=parking.cover,
        detach=detached.begin,
        refused=detached.refused,
    )
    return Approvals(book=book, parking=parking, deciding=deciding, lasting=lasting, detached=detached)
