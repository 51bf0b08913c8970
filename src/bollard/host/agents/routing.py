"""Which binding an event goes to: at most one, and why. Pure; nothing is dispatched here.

`RoutingTable` answers for every event that comes in, without looking at bindings of other scopes. `resolve` gives the
same answer with the reason for every binding, for people who ask what would happen.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Final, Protocol

import msgspec

from bollard.host.agents.agent import Agent
from bollard.host.agents.binding import LEVELS, Binding, Level, RoutedEvent, event_value, filter_value, rank_of
from bollard.host.agents.words import RoutingKey

__all__ = ["DIRECT", "AgentFinder", "Resolution", "RoutingTable", "Step", "resolve"]

DIRECT: Final = "direct:"
"""Begins the binding id of an event that names its agent. No saved binding has a colon in its id."""

_Key = tuple[str | None, ...]
"""What a scope names, in the order of its levels."""


class AgentFinder(Protocol):
    """An `AgentBook`, or a dictionary."""

    def get(self, agent_id: str, /) -> Agent | None: ...


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was found out; `words.sentence` says it in a language."""

    key: RoutingKey
    fields: Mapping[str, str]


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """Where an event goes. With a binding and no agent it goes nowhere: the agent that it is for is not there."""

    binding_id: str | None = None
    """`direct:<agent>` for an event that names its agent."""
    binding: Binding | None = None
    agent: Agent | None = None
    steps: tuple[Step, ...] = ()


class RoutingTable:
    """The bindings of one workspace, indexed by scope. Made once for each change."""

    def __init__(self, bindings: Iterable[Binding]) -> None:
        ranked = _ranked(binding for binding in bindings if binding.enabled)
        self._scopes: list[tuple[tuple[Level, ...], dict[_Key, list[Binding]]]] = []
        for _, group in groupby(ranked, key=lambda binding: rank_of(binding)[0]):
            found: dict[_Key, list[Binding]] = {}
            levels: tuple[Level, ...] = ()
            for binding in group:
                levels = tuple(level for level in LEVELS if getattr(binding.scope, level) is not None)
                found.setdefault(tuple(getattr(binding.scope, level) for level in levels), []).append(binding)
            self._scopes.append((levels, found))

    def find(self, event: RoutedEvent) -> Binding | None:
        """The binding that gets the event."""
        for levels, found in self._scopes:
            # A level that the event does not have is `None`, which no scope names.
            key = tuple(event_value(event, level) for level in levels)
            for binding in found.get(key, ()):
                if _passes(binding, event):
                    return binding
        return None

    def resolve(self, event: RoutedEvent, agents: AgentFinder, *, agent: str | None = None) -> Resolution:
        """Where the event goes. `agent` is the agent that the event itself names."""
        if agent is not None:
            return _direct(agent, agents)
        binding = self.find(event)
        return Resolution() if binding is None else _to(binding, agents)


def resolve(
    event: RoutedEvent, bindings: Iterable[Binding], agents: AgentFinder, *, agent: str | None = None
) -> Resolution:
    """Where the event goes, with a step for every binding of its workspace."""
    if agent is not None:
        return _direct(agent, agents)
    steps: list[Step] = []
    matching: list[Binding] = []
    for binding in _ranked(bindings):
        step = _mismatch(binding, event)
        if step is None:
            step = _outranked(binding, matching[0]) if matching else _step("won", binding, agent=binding.agent_id)
            matching.append(binding)
        steps.append(step)
    if not matching:
        return Resolution(steps=(*steps, Step(key="no_binding", fields={})))
    found = _to(matching[0], agents)
    return Resolution(
        binding_id=found.binding_id, binding=found.binding, agent=found.agent, steps=(*steps, *found.steps)
    )


def _ranked(bindings: Iterable[Binding]) -> list[Binding]:
    """The first to the last. Once `check_new` took them, names decide nothing; they keep the answer the same."""
    return sorted(sorted(bindings, key=lambda binding: binding.binding_id), key=rank_of, reverse=True)


def _passes(binding: Binding, event: RoutedEvent) -> bool:
    return all(filter_value(event, item.field) in item.values for item in binding.filters)


def _to(binding: Binding, agents: AgentFinder) -> Resolution:
    agent = agents.get(binding.agent_id)
    missing = () if agent is not None else (Step(key="no_agent", fields={"agent": binding.agent_id}),)
    return Resolution(binding_id=binding.binding_id, binding=binding, agent=agent, steps=missing)


def _direct(agent_id: str, agents: AgentFinder) -> Resolution:
    agent = agents.get(agent_id)
    steps = [Step(key="direct", fields={"agent": agent_id})]
    if agent is None:
        steps.append(Step(key="no_agent", fields={"agent": agent_id}))
    return Resolution(binding_id=f"{DIRECT}{agent_id}", agent=agent, steps=tuple(steps))


def _mismatch(binding: Binding, event: RoutedEvent) -> Step | None:
    if not binding.enabled:
        return _step("disabled", binding)
    for level in LEVELS:
        wanted = getattr(binding.scope, level)
        actual = event_value(event, level)
        if wanted is not None and actual != wanted:
            if actual is None:
                return _step("scope_absent", binding, level=level, wanted=wanted)
            return _step("scope_differs", binding, level=level, wanted=wanted, actual=actual)
    return _unmet_filter(binding, event)


def _unmet_filter(binding: Binding, event: RoutedEvent) -> Step | None:
    for item in binding.filters:
        actual = filter_value(event, item.field)
        wanted = ", ".join(sorted(item.values))
        if actual is None:
            return _step("filter_absent", binding, field=item.field, wanted=wanted)
        if actual not in item.values:
            return _step("filter_differs", binding, field=item.field, wanted=wanted, actual=actual)
    return None


def _outranked(binding: Binding, winner: Binding) -> Step:
    ours, theirs = rank_of(binding), rank_of(winner)
    keys: tuple[RoutingKey, ...] = ("outranked_by_scope", "outranked_by_filters", "outranked_by_priority")
    for key, mine, other in zip(keys, ours, theirs, strict=True):
        if mine != other:
            return _step(key, binding, by=winner.binding_id)
    return _step("outranked_by_name", binding, by=winner.binding_id)


def _step(key: RoutingKey, binding: Binding, **fields: str) -> Step:
    return Step(key=key, fields={"binding": binding.binding_id, **fields})
