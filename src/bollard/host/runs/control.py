"""What an operator or a program may do with a run from outside: see its grant, narrow it, stop it."""

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from bollard.host.errors import Conflict, NotFound
from bollard.host.grants.explanation import Explanation, explain, explain_all
from bollard.host.grants.grant import Grant
from bollard.host.grants.revocation import NOTHING_REVOKED, Revocation, handed_down, revoke
from bollard.host.limits import REPLAY_PAGE
from bollard.host.log.entries import ExpectationResult
from bollard.host.log.records import data_of
from bollard.host.runs.batches import into
from bollard.host.runs.live_run import LiveRun
from bollard.host.store.store import Store
from bollard.protocol import JsonObject


class RunControl:
    """Reaches runs that are live here; reads the others from the log."""

    def __init__(self, store: Store, live: Mapping[str, LiveRun]) -> None:
        self._store = store
        self._live = live

    def live(self, run_id: str) -> LiveRun:
        """The run, if it is executed here now; raises `Conflict`."""
        run = self._live.get(run_id)
        if run is None or run.ending:
            raise Conflict("the run is not active on this host", hint="only an active run can be changed")
        return run

    async def grant_of(self, run_id: str) -> tuple[Grant, Revocation]:
        """What the run was granted, and what was taken from it since."""
        run = self._live.get(run_id)
        if run is not None:
            return run.grant, run.revoked
        return await asyncio.to_thread(self._stored_grant, run_id)

    def _stored_grant(self, run_id: str) -> tuple[Grant, Revocation]:
        grant, revoked, after = None, NOTHING_REVOKED, 0
        while rows := self._store.records_of_run(run_id, after, REPLAY_PAGE):
            after = rows[-1].seq or 0
            for row in rows:
                if row.type == "grant.issued" and row.data is not None:
                    grant = Grant.from_json(row.data)
                elif row.type == "grant.revoked":
                    data = {key: value for key, value in data_of(row).items() if key != "by"}
                    revoked = revoked.joined(Revocation.from_data(data))
        if grant is None:
            raise NotFound("the run's grant is not kept any more", hint="retention dropped it")
        return grant, revoked

    async def explain(self, run_id: str, action: str | None, thing: str | None) -> list[Explanation]:
        """Why the run may or may not do something; without an action, for all of them."""
        grant, revoked = await self.grant_of(run_id)
        if action is None:
            return list(explain_all(grant, revoked))
        return [explain(grant, revoked, action, thing)]

    async def revoke(
        self,
        run_id: str,
        *,
        operations: tuple[str, ...] = (),
        resources: Mapping[str, tuple[str, ...]] | None = None,
        everything: bool = False,
        by: str,
    ) -> Revocation:
        """Take something from a live run and from those that it called: refused to their next calls, and on disk when
        this returns."""
        run = self.live(run_id)
        revoked = revoke(run.grant, run.revoked, operations=operations, resources=resources, everything=everything)
        landed = _taken(run, revoked, by)
        below = [hand_down(child, revoked, by) for child in self._called_by(run)]
        if landed is None or await landed is None:
            raise Conflict("the run has ended meanwhile", hint="there is nothing to revoke")
        if everything:
            await run.written()  # that it is stopped for it, too
        for each in below:
            if each is not None:
                await each  # a child that is over meanwhile needs nothing taken away
        return revoked

    def _called_by(self, run: LiveRun) -> list[LiveRun]:
        """The live runs below a run, those above before those below."""
        found = [run]
        for above in found:
            found += [each for each in self._live.values() if each.facts.parent_run_id == above.facts.run_id]
        return found[1:]


def hand_down(child: LiveRun, above: Revocation, by: str) -> "asyncio.Future[ExpectationResult | None] | None":
    """Take from a child run what was taken from the run that called it: set once that is on disk."""
    revoked = handed_down(child.grant, child.revoked, above)
    return None if revoked == child.revoked else _taken(child, revoked, by)


def _taken(run: LiveRun, revoked: Revocation, by: str) -> "asyncio.Future[ExpectationResult | None] | None":
    """Set once it is on disk; nothing where the run takes no records any more."""
    landed: asyncio.Future[ExpectationResult | None] = asyncio.get_running_loop().create_future()
    return landed if run.revoke(revoked, by, into(landed)) else None


# Runs that wait for people: their clocks stand still, and so do those of the runs that called them.


class WaitingRuns:
    """One per host: whoever makes a run wait, for whatever reason, says so here."""

    def __init__(self, live: Mapping[str, LiveRun]) -> None:
        self._live = live
        self._counts: dict[str, int] = {}

    def count(self, run_id: str) -> int:
        """For how many answers it waits."""
        return self._counts.get(run_id, 0)

    @contextmanager
    def waiting(self, run: LiveRun, reason: JsonObject) -> Generator[None]:
        """Meanwhile the run and those that called it are `waiting`; `reason` says what for."""
        family = self._family(run)
        for each in family:
            self._counts[each.facts.run_id] = self.count(each.facts.run_id) + 1
            if each.state.status != "waiting":
                each.note("run.waiting", reason, pressing=False)
        try:
            yield
        finally:
            for each in family:
                self._resume(each)

    def _family(self, run: LiveRun) -> list[LiveRun]:
        found = [run]
        while (parent := self._live.get(found[-1].facts.parent_run_id or "")) is not None:
            found.append(parent)
        return found

    def _resume(self, run: LiveRun) -> None:
        run_id = run.facts.run_id
        self._counts[run_id] -= 1
        if self._counts[run_id]:
            return
        del self._counts[run_id]
        if run.state.status == "waiting" and run.state.cancel is None:
            run.note("run.resumed", {}, pressing=False)
