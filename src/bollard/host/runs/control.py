"""Operations on a run from outside: explain its grant, revoke parts of it, suspend its clocks, list its skills."""

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager

from bollard.host.agents.agent import AgentRegistry
from bollard.host.errors import Conflict, NotFound
from bollard.host.grants.explanation import Explanation, explain, explain_all
from bollard.host.grants.grant import Grant
from bollard.host.grants.revocation import NOTHING_REVOKED, Revocation, granted_things, handed_down, revoke
from bollard.host.limits import REPLAY_PAGE
from bollard.host.log.entries import ExpectationResult
from bollard.host.log.records import data_of
from bollard.host.runs.live_run import LiveRun
from bollard.host.runs.recorder import into
from bollard.host.skills.source import RunSkills
from bollard.host.store.store import Store
from bollard.protocol import JsonObject


class RunControl:
    """Grants of runs: those of live runs from memory, all others from the log."""

    def __init__(self, store: Store, live: Mapping[str, LiveRun]) -> None:
        self._store = store
        self._live = live

    def live(self, run_id: str) -> LiveRun:
        """The live run. Raises `Conflict` if this host does not execute it."""
        run = self._live.get(run_id)
        if run is None or run.ending:
            hint = "only an active run can be changed"
            raise Conflict("the run is not active on this host", reason="run_not_live", hint=hint)
        return run

    async def grant_of(self, run_id: str) -> tuple[Grant, Revocation]:
        """The grant of the run and everything that was revoked from it."""
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
            message, hint = "the grant of the run was deleted by retention", "choose a newer run"
            raise NotFound(message, reason="grant_expired", hint=hint)
        return grant, revoked

    async def explain(self, run_id: str, action: str | None, thing: str | None) -> list[Explanation]:
        """Why the run may or may not perform an action. Without an action: for all of them."""
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
        """Revoke operations or resources of a live run and of its child runs. Their next calls are refused at once. The
        revocation is on disk when this returns."""
        run = self.live(run_id)
        revoked = revoke(run.grant, run.revoked, operations=operations, resources=resources, everything=everything)
        landed = _record_revocation(run, revoked, by)
        below = [hand_down(child, revoked, by) for child in self._called_by(run)]
        if landed is None or await landed is None:
            raise Conflict("the run has ended", reason="run_ended_before_revocation", hint="there is nothing to revoke")
        if everything:
            await run.written()  # the cancellation of the run as well
        for each in below:
            if each is not None:
                await each  # the result does not matter: a child that has ended needs no revocation
        return revoked

    def _called_by(self, run: LiveRun) -> list[LiveRun]:
        """The live descendants of a run, parents before children."""
        runs = [run]
        for parent in runs:
            runs += [each for each in self._live.values() if each.facts.parent_run_id == parent.facts.run_id]
        return runs[1:]


def hand_down(child: LiveRun, above: Revocation, by: str) -> "asyncio.Future[ExpectationResult | None] | None":
    """Apply a revocation of the parent to a child run. The future is set once that is on disk."""
    revoked = handed_down(child.grant, child.revoked, above)
    return None if revoked == child.revoked else _record_revocation(child, revoked, by)


def _record_revocation(run: LiveRun, revoked: Revocation, by: str) -> "asyncio.Future[ExpectationResult | None] | None":
    """The future is set once the revocation is on disk. `None` if the run takes no more records."""
    landed: asyncio.Future[ExpectationResult | None] = asyncio.get_running_loop().create_future()
    return landed if run.revoke(revoked, by, into(landed)) else None


def lineage_of(run: LiveRun, live: Mapping[str, LiveRun]) -> list[LiveRun]:
    """The run and the live runs that called it, nearest first."""
    runs = [run]
    while (parent := live.get(runs[-1].facts.parent_run_id or "")) is not None:
        runs.append(parent)
    return runs


class WaitingRuns:
    """Runs that wait for a person. Their clocks stand still, and so do those of the runs that called them."""

    def __init__(self, live: Mapping[str, LiveRun]) -> None:
        self._live = live
        self._counts: dict[str, int] = {}

    def count(self, run_id: str) -> int:
        """How many answers the run waits for."""
        return self._counts.get(run_id, 0)

    @contextmanager
    def waiting(self, run: LiveRun, reason: JsonObject) -> Generator[None]:
        """Put the run and its ancestors into `waiting` for the duration of the block, for this `reason`."""
        lineage = self.lineage(run)
        for each in lineage:
            self._counts[each.facts.run_id] = self.count(each.facts.run_id) + 1
            if each.state.status != "waiting":
                each.note("run.waiting", reason, pressing=False)
        try:
            yield
        finally:
            for each in lineage:
                self._resume(each)

    def lineage(self, run: LiveRun) -> list[LiveRun]:
        """The run and the live runs that called it, nearest first."""
        return lineage_of(run, self._live)

    def _resume(self, run: LiveRun) -> None:
        run_id = run.facts.run_id
        self._counts[run_id] -= 1
        if self._counts[run_id]:
            return
        del self._counts[run_id]
        if run.state.status == "waiting" and run.state.cancel is None:
            run.note("run.resumed", {}, pressing=False)


class LiveSkillReach:
    """Skills of the live runs of this host. A run that has ended has none."""

    def __init__(self, live: Mapping[str, LiveRun], agents: AgentRegistry) -> None:
        self._live = live
        self._agents = agents

    def __call__(self, run_id: str) -> RunSkills:
        run = self._live.get(run_id)
        if run is None:
            return RunSkills()
        agent = self._agents.get(run.facts.agent_id, run.facts.workspace)
        return RunSkills(
            granted=granted_things(run.grant, "skills"),
            revoked=run.revoked.resources.get("skills", frozenset[str]()),
            versions={each.id.removeprefix("skill:"): each.version for each in run.session.graph.by_kind("skill")},
            authoring=agent is not None and "skill_authoring" in agent.capabilities,
        )
