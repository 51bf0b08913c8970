"""Which calls a run has made: each id once. A repeat gets what was recorded, whoever asks and however often."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from bollard.host.actions.call import Outcome, outcome_of
from bollard.host.actions.ports import Ledger
from bollard.host.errors import BudgetExceeded, InvalidRequest
from bollard.host.limits import ACTION_OUTCOMES_KEPT, ACTIONS_PER_RUN
from bollard.host.store.action_rows import ToolCallRow
from bollard.host.store.boundary import Store

__all__ = ["Book", "CallsOfRun"]


class CallsOfRun:
    """The calls of one run, as far as this process knows them."""

    def __init__(self, run_id: str, find: Callable[[str, str], ToolCallRow | None]) -> None:
        self._run_id = run_id
        self._find = find
        self._made: dict[str, tuple[str, str]] = {}
        """What every call that was entered is of, and the digest of its arguments, by its id."""
        self._open: dict[str, asyncio.Future[Outcome]] = {}
        self._ended: OrderedDict[str, Outcome] = OrderedDict()
        self._given = 0

    def new_id(self) -> str:
        while (call_id := f"call_{self._given + 1}") in self._made:
            self._given += 1
        return call_id

    def remember(self, row: ToolCallRow) -> None:
        """A call of an earlier process. One that can be done twice and whose outcome nobody knows may be."""
        if row.status not in ("started", "unknown") or row.effects == "at_most_once":
            self._made[row.call_id] = (row.capability, row.arguments_sha256)

    async def entered(self, call_id: str, capability: str, arguments_sha256: str) -> Outcome | None:
        """What came of this call, when that is known; nothing where it is new, and then it is entered."""
        known = self._made.get(call_id)
        if known is None:
            if len(self._made) >= ACTIONS_PER_RUN:
                raise BudgetExceeded(f"a run makes {ACTIONS_PER_RUN} calls at most", hint="end the run")
            self._made[call_id] = (capability, arguments_sha256)
            self._open[call_id] = asyncio.get_running_loop().create_future()
            return None
        if known != (capability, arguments_sha256):
            other = "of another tool" if known[0] != capability else "with other arguments"
            raise InvalidRequest(
                f"the call {call_id} was made {other}",
                hint="give another call its own id",
                field="call_id",
            )
        if call_id in self._open:
            return await asyncio.shield(self._open[call_id])
        if call_id in self._ended:
            return self._ended[call_id]
        row = await asyncio.to_thread(self._find, self._run_id, call_id)
        if row is None:
            raise InvalidRequest(
                f"the call {call_id} was made before, and its outcome is not kept any more",
                hint="give another call its own id",
                field="call_id",
            )
        return outcome_of(row)

    def end(self, call_id: str, outcome: Outcome) -> None:
        self._ended[call_id] = outcome
        if len(self._ended) > ACTION_OUTCOMES_KEPT:
            self._ended.popitem(last=False)
        self._open.pop(call_id).set_result(outcome)


class Book:
    """One per host."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runs: dict[str, CallsOfRun] = {}

    async def of(self, run_id: str, ledger: Ledger) -> CallsOfRun:
        """The calls of a run: those of earlier processes too, where there can be any."""
        if run_id not in self._runs:
            calls = CallsOfRun(run_id, self._store.tool_call)
            if not ledger.fresh:
                for row in await asyncio.to_thread(self._store.tool_calls, run_id, 0, ACTIONS_PER_RUN):
                    calls.remember(row)
            self._runs.setdefault(run_id, calls)
        return self._runs[run_id]

    def forget(self, run_id: str) -> None:
        """The run is over."""
        self._runs.pop(run_id, None)
