"""Budgets of calls, tokens, cost and time: per run, and per day for an agent, an actor and a workspace.

A call reserves its maximum cost before it begins and settles the actual cost when it has ended, so concurrent calls
cannot spend the same remainder. Daily accounts outlive the process (`SavedBudgets`).
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, Literal

import msgspec

from bollard.host.agents.policies import BudgetPolicy, Spending
from bollard.host.agents.rates import Rates
from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.sources import CallContext
from bollard.host.clock import Clock
from bollard.host.errors import BudgetExceeded, HostError, Overloaded
from bollard.host.limits import BUDGET_ACCOUNTS, SOURCE_CALLS_BURST, SOURCE_CALLS_PER_MINUTE
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.store.rows import KeptChange, KeptRow, PutKept
from bollard.host.store.store import Store

DAY_MS: Final = 24 * 3600 * 1000
Whose = Literal["run", "agent", "actor", "workspace"]
_Key = tuple[str, ...]
_IN_THIS_PROCESS: Final = frozenset({"builtin"})
"""Sources without a rate limit: their calls use no other service."""
_WORDS: Final[dict[Whose, str]] = {
    "run": "this run",
    "agent": "this agent today",
    "actor": "this actor with this agent today",
    "workspace": "this workspace today",
}


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """An amount of calls, tokens, cost and time."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    time_s: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            cost=self.cost + other.cost,
            time_s=self.time_s + other.time_s,
        )

    def __sub__(self, other: "Cost") -> "Cost":
        return Cost(
            calls=self.calls - other.calls,
            tokens=self.tokens - other.tokens,
            cost=self.cost - other.cost,
            time_s=self.time_s - other.time_s,
        )


_NAME_BYTES: Final = 256
_NOTHING: Final = Cost()
_FIELDS: Final[tuple[Literal["calls", "tokens", "cost", "time_s"], ...]] = ("calls", "tokens", "cost", "time_s")


class Reservation:
    """A reserved amount, settled once."""

    def __init__(self, add: Callable[[_Key, Cost], None], keys: tuple[_Key, ...], amount: Cost) -> None:
        self._add = add
        self._keys = keys
        self._amount = amount

    def settle(self, spent: Cost) -> None:
        """Replace the reserved amount by the actual one. A second call has no effect."""
        for key in self._keys:
            self._add(key, spent - self._amount)
        self._keys = ()

    def release(self) -> None:
        """Return the whole amount."""
        self.settle(_NOTHING)


def no_workspace_limit(workspace: str) -> Spending:
    del workspace
    return Spending()


class Budgets:
    """The accounts of all runs, agents, actors and workspaces of the host."""

    def __init__(
        self,
        clock: Clock,
        of_workspace: Callable[[str], Spending] = no_workspace_limit,
        *,
        calls_per_minute: int = SOURCE_CALLS_PER_MINUTE,
    ) -> None:
        self._clock = clock
        self._of_workspace = of_workspace
        self._accounts: OrderedDict[_Key, Cost] = OrderedDict()
        self._of_run: dict[str, set[_Key]] = {}
        self._changed: set[_Key] = set()
        """Daily accounts with unsaved changes."""
        self._rates: Rates[tuple[str, str]] = Rates(calls_per_minute, min(calls_per_minute, SOURCE_CALLS_BURST))

    def call(self, context: CallContext, policy: BudgetPolicy, capability: Capability, timeout_s: float) -> Reservation:
        """Reserve the maximum cost of one call. Raises `BudgetExceeded`, or `Overloaded` at the source's rate limit."""
        amount = Cost(calls=1, cost=capability.limits.cost or 0.0, time_s=timeout_s)
        self._check_calls_per_run(context, capability)
        reserved = self.reserve(context, policy, amount, capability)
        if capability.source in _IN_THIS_PROCESS:
            return reserved
        wait_s = self._rates.take((context.workspace, capability.source), self._clock.monotonic())
        if wait_s is None:
            return reserved
        reserved.release()
        raise Overloaded(
            f"{capability.source} is called too often",
            reason="source_rate",
            hint="try again later",
            retry_after_s=round(wait_s, 3),
            source=capability.source,
        )

    def reserve(
        self, context: CallContext, policy: BudgetPolicy, amount: Cost, capability: Capability | None = None
    ) -> Reservation:
        """Reserve an amount from every budget that applies, or from none of them."""
        day = str(self._clock.now_ms() // DAY_MS)
        who = context.actor
        actor = _account_name("None:None" if who is None else f"{who.type}:{who.id}")  # as earlier records spell it
        limits: list[tuple[Whose, _Key, Spending | None]] = [
            ("run", ("run", context.run_id), policy.per_run),
            ("agent", ("agent", day, context.workspace, context.agent_id), policy.per_day),
            ("actor", ("actor", day, context.workspace, context.agent_id, actor), policy.per_actor_day),
            ("workspace", ("workspace", day, context.workspace), self._of_workspace(context.workspace)),
        ]
        keys: list[_Key] = []
        for whose, key, limit in limits:
            if limit is not None and limit != _UNLIMITED:
                _check(whose, self._accounts.get(key, _NOTHING) + amount, limit)
                keys.append(key)
        if capability is not None and capability.limits.calls_per_run is not None:
            keys.append(_capability_key(context, capability))
        for key in keys:
            self._add(key, amount)
            if key[0] == "run":
                self._of_run.setdefault(context.run_id, set()).add(key)
        return Reservation(self._settle, tuple(keys), amount)

    def forget(self, run_id: str) -> None:
        """Drop the accounts of an ended run."""
        for key in self._of_run.pop(run_id, ()):
            self._accounts.pop(key, None)

    def _check_calls_per_run(self, context: CallContext, capability: Capability) -> None:
        most = capability.limits.calls_per_run
        if most is not None and self._accounts.get(_capability_key(context, capability), _NOTHING).calls >= most:
            raise BudgetExceeded(
                f"a run may call {capability.name} at most {most} times",
                reason="tool_calls_per_run",
                hint="use the earlier results",
                tool=capability.name,
                most=most,
            )

    def restore(self, key: _Key, spent: Cost) -> None:
        """Add a saved amount to an account."""
        self._accounts[key] = self._accounts.get(key, _NOTHING) + spent

    def changed(self, most: int) -> dict[_Key, Cost]:
        """Up to `most` changed daily accounts. The caller saves them."""
        accounts = {key: self._accounts[key] for key in islice(self._changed, most) if key in self._accounts}
        self._changed.difference_update(accounts)
        return accounts

    def unsaved(self, keys: Iterable[_Key]) -> None:
        """Mark accounts that could not be saved as changed."""
        self._changed.update(keys)

    def _settle(self, key: _Key, more: Cost) -> None:
        if key in self._accounts:  # an evicted account has no reservations
            self._accounts[key] += more
            self._mark_changed(key)

    def _mark_changed(self, key: _Key) -> None:
        if key[0] != "run":
            self._changed.add(key)

    def _add(self, key: _Key, amount: Cost) -> None:
        self._accounts[key] = self._accounts.get(key, _NOTHING) + amount
        self._accounts.move_to_end(key)
        self._mark_changed(key)
        if len(self._accounts) > BUDGET_ACCOUNTS:
            # The account without spending for longest, which includes those of earlier days.
            evicted, _ = self._accounts.popitem(last=False)
            self._changed.discard(evicted)


_UNLIMITED: Final = Spending()


def day_budgets(clock: Clock, calls_per_day: int, tokens_per_day: int = 0, cost_per_day: float = 0.0) -> Budgets:
    """Budgets with a daily limit for every workspace; 0 is no limit."""
    spending = Spending(calls=calls_per_day or None, tokens=tokens_per_day or None, cost=cost_per_day or None)
    return Budgets(clock, lambda _: spending)


def _account_name(actor: str) -> str:
    """The name of an actor's account. Names too long for a key of the store are hashed."""
    name = actor.encode("utf-8", "replace")
    return actor if len(name) <= _NAME_BYTES else f"sha256:{hashlib.sha256(name).hexdigest()}"


def _capability_key(context: CallContext, capability: Capability) -> _Key:
    return ("run", context.run_id, capability.id)


def _check(whose: Whose, would_be: Cost, limit: Spending) -> None:
    for name in _FIELDS:
        most = getattr(limit, name)
        if most is not None and getattr(would_be, name) > most:
            unit = {"calls": "calls", "tokens": "tokens", "cost": "of cost", "time_s": "seconds of calls"}[name]
            raise BudgetExceeded(
                f"the budget of {_WORDS[whose]} is {most} {unit}, and this would exceed it",
                reason="budget_exceeded",
                hint="raise policy.budget of the agent, or wait for the next day",
                budget=whose,
                of=name,
                most=most,
            )


_KIND: Final = "budget"
_AT_ONCE: Final = 500
"""Accounts in one entry of the journal."""
_ROW_BYTES: Final = 256
"""Estimated size of a row."""


class SavedBudgets:
    """Saves the daily accounts, so that a restart does not reset them. They are written about once a second; a crash
    loses at most the spending of that second."""

    def __init__(self, budgets: Budgets, journal: Journal, clock: Clock) -> None:
        self.budgets = budgets
        self._journal = journal
        self._clock = clock

    async def load(self, store: Store) -> None:
        """Restore the accounts that have not expired."""
        for row in await asyncio.to_thread(store.all_kept, _KIND, None, self._clock.now_ms()):
            key = msgspec.json.decode(row.id, type=tuple[str, ...])
            self.budgets.restore(key, msgspec.json.decode(row.body, type=Cost))

    def save(self) -> None:
        """Append the changed accounts to the journal without waiting. If it rejects them, the next call retries."""
        changed = self.budgets.changed(_AT_ONCE)
        if not changed:
            return
        keeps: list[KeptChange] = [PutKept(self._row(key, amount)) for key, amount in changed.items()]
        try:
            self._journal.append(Entry(keeps=keeps, size=len(keeps) * _ROW_BYTES, urgent=False))
        except HostError:
            self.budgets.unsaved(changed)

    def _row(self, key: tuple[str, ...], amount: Cost) -> KeptRow:
        now_ms = self._clock.now_ms()
        return KeptRow(
            kind=_KIND,
            workspace=key[2],
            id=msgspec.json.encode(key).decode(),
            body=msgspec.json.encode(amount),
            expires_ms=(now_ms // DAY_MS + 2) * DAY_MS,
            updated_ms=now_ms,
        )
