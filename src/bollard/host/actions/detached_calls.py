"""Makes a call that was allowed after its run had ended: through the same executor, written without the run."""

from bollard.host.actions.call import Call, Outcome
from bollard.host.actions.executor import Executor
from bollard.host.actions.ledgers import DetachedLedger
from bollard.host.approvals.approval import Approval
from bollard.host.approvals.detached import Carried
from bollard.host.capabilities.capability import Flow
from bollard.host.clock import Clock
from bollard.host.grants.session import RunSession
from bollard.host.log.journal import Journal

__all__ = ["DetachedCalls"]


class DetachedCalls:
    """One per host. The executor asks for the yes like for any other call; it is there already."""

    def __init__(self, executor: Executor, journal: Journal, clock: Clock) -> None:
        self._executor = executor
        self._journal = journal
        self._clock = clock

    async def carry(self, session: RunSession, approval: Approval) -> Carried:
        """Exactly what was shown, once: its id is the one that it had in its run."""
        call = Call(
            name=approval.capability,
            arguments=approval.sent_arguments,
            call_id=approval.call_id,
            explanation=approval.explanation,
            target=approval.target,
        )
        ledger = DetachedLedger(
            self._journal,
            self._clock,
            workspace=approval.workspace,
            run_id=approval.run_id,
            flow=Flow.of_bits(approval.flow),
        )
        try:
            carried = _carried(await self._executor.execute(session, call, ledger))
            await ledger.written()  # whoever asks next reads it from the store
            return carried
        finally:
            self._executor.forget(approval.run_id)


def _carried(outcome: Outcome) -> Carried:
    result = outcome.result() if outcome.status == "completed" else None
    return Carried(status=outcome.status, code=outcome.code, error=outcome.message, result=result, flow=outcome.flow)
