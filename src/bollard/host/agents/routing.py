"""Routing: finds the binding of an event, at most one, and explains why. Pure.

`RoutingTable` answers for every event that comes in, without looking at bindings of other scopes. `resolve` gives the
same answer with the reason for every binding, for people who ask what would happen.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Final, Literal, Protocol

import msgspec

from bollard.host.agents.agent import Agent, AgentRegistry, RunnerKey
from bollard.host.agents.binding import (
    HOST_EVENTS,
    LEVELS,
    Binding,
    BindingScope,
    Level,
    RoutedEvent,
    check_new,
    event_value,
    filter_value,
    host_events_of,
    rank_of,
)
from bollard.host.agents.names import Names, own_names
from bollard.host.texts import Locale, read_texts
from bollard.protocol import AgentRunnerDiscovery

# --- explanations by locale; keys and fields are the same in every language ---


RoutingKey = Literal[
    "won",
    "outranked_by_scope",
    "outranked_by_filters",
    "outranked_by_priority",
    "outranked_by_name",
    "disabled",
    "scope_differs",
    "scope_absent",
    "filter_differs",
    "filter_absent",
    "type_not_filtered",
    "direct",
    "bot_default",
    "no_binding",
    "no_agent",
]

WORDS: Final = read_texts("routing")


def sentence(key: RoutingKey, fields: Mapping[str, str], locale: Locale = "en_US") -> str:
    """The sentence of a key with its fields filled in. Values are never templates themselves."""
    return WORDS[locale][key].format_map(fields)


DIRECT: Final = "direct:"
"""Prefix of the binding id of an event that names its agent. Ids of saved bindings have no colon."""
BOT_DEFAULT: Final = "bot:"
"""Prefix of the binding id of an event that the default agent of its bot gets."""

_Key = tuple[str | None, ...]
"""The values of a scope, in the order of its levels."""


class AgentFinder(Protocol):
    """An `AgentRegistry`, or a dictionary."""

    def get(self, agent_id: str, /) -> Agent | None: ...


class RoutingStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an explanation."""

    key: RoutingKey
    fields: Mapping[str, str]


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """The route of an event. With a binding and no agent, the agent is absent and the event goes nowhere."""

    binding_id: str | None = None
    """`direct:<agent>` for an event that names its agent."""
    binding: Binding | None = None
    agent: Agent | None = None
    steps: tuple[RoutingStep, ...] = ()


class RoutingTable:
    """The bindings of one workspace, indexed by scope. Rebuilt after each change."""

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
        self.host_events = frozenset(kind for binding in ranked for kind in host_events_of(binding))
        """The types of host events that any binding filters for."""

    def find(self, event: RoutedEvent) -> Binding | None:
        """The binding that matches the event."""
        for levels, found in self._scopes:
            # A level that the event lacks is `None`, which no scope contains.
            key = tuple(event_value(event, level) for level in levels)
            for binding in found.get(key, ()):
                if _passes(binding, event):
                    return binding
        return None

    def resolve(self, event: RoutedEvent, agents: AgentFinder, *, agent: str | None = None) -> Resolution:
        """The route of the event. `agent` is the agent that the event names."""
        if agent is not None:
            return _direct(agent, agents)
        binding = self.find(event)
        return Resolution() if binding is None else _to(binding, agents)


def resolve(
    event: RoutedEvent,
    bindings: Iterable[Binding],
    agents: AgentFinder,
    *,
    agent: str | None = None,
    bot_agent: str | None = None,
) -> Resolution:
    """The route of the event, with a step for every binding of its workspace. `bot_agent` is the default agent of the
    event's bot."""
    if agent is not None:
        return _direct(agent, agents)
    steps: list[RoutingStep] = []
    matching: list[Binding] = []
    for binding in _ranked(bindings):
        step = _mismatch(binding, event)
        if step is None:
            step = _outranked(binding, matching[0]) if matching else _step("won", binding, agent=binding.agent_id)
            matching.append(binding)
        steps.append(step)
    if not matching and bot_agent is not None:
        return _by_bot(event.scope.bot or "", bot_agent, agents, steps)
    if not matching:
        return Resolution(steps=(*steps, RoutingStep(key="no_binding", fields={})))
    found = _to(matching[0], agents)
    return Resolution(
        binding_id=found.binding_id, binding=found.binding, agent=found.agent, steps=(*steps, *found.steps)
    )


def _ranked(bindings: Iterable[Binding]) -> list[Binding]:
    """Bindings in order of precedence. `check_new` excludes ties, so the id only makes the order deterministic."""
    return sorted(sorted(bindings, key=lambda binding: binding.binding_id), key=rank_of, reverse=True)


def _passes(binding: Binding, event: RoutedEvent) -> bool:
    if event.event_type in HOST_EVENTS and not host_events_of(binding):
        return False
    return all(filter_value(event, item.field) in item.values for item in binding.filters)


def _to(binding: Binding, agents: AgentFinder) -> Resolution:
    agent = agents.get(binding.agent_id)
    missing = () if agent is not None else (RoutingStep(key="no_agent", fields={"agent": binding.agent_id}),)
    return Resolution(binding_id=binding.binding_id, binding=binding, agent=agent, steps=missing)


def _direct(agent_id: str, agents: AgentFinder) -> Resolution:
    agent = agents.get(agent_id)
    steps = [RoutingStep(key="direct", fields={"agent": agent_id})]
    if agent is None:
        steps.append(RoutingStep(key="no_agent", fields={"agent": agent_id}))
    return Resolution(binding_id=f"{DIRECT}{agent_id}", agent=agent, steps=tuple(steps))


def _by_bot(bot: str, agent_id: str, agents: AgentFinder, steps: Iterable[RoutingStep]) -> Resolution:
    agent = agents.get(agent_id)
    steps = [*steps, RoutingStep(key="bot_default", fields={"bot": bot, "agent": agent_id})]
    if agent is None:
        steps.append(RoutingStep(key="no_agent", fields={"agent": agent_id}))
    return Resolution(binding_id=f"{BOT_DEFAULT}{bot}", agent=agent, steps=tuple(steps))


def _mismatch(binding: Binding, event: RoutedEvent) -> RoutingStep | None:
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


def _unmet_filter(binding: Binding, event: RoutedEvent) -> RoutingStep | None:
    if event.event_type in HOST_EVENTS and not host_events_of(binding):
        return _step("type_not_filtered", binding, type=event.event_type)
    for item in binding.filters:
        actual = filter_value(event, item.field)
        wanted = ", ".join(item.values)
        if actual is None:
            return _step("filter_absent", binding, field=item.field, wanted=wanted)
        if actual not in item.values:
            return _step("filter_differs", binding, field=item.field, wanted=wanted, actual=actual)
    return None


def _outranked(binding: Binding, winner: Binding) -> RoutingStep:
    ours, theirs = rank_of(binding), rank_of(winner)
    keys: tuple[RoutingKey, ...] = ("outranked_by_scope", "outranked_by_filters", "outranked_by_priority")
    for key, mine, other in zip(keys, ours, theirs, strict=True):
        if mine != other:
            return _step(key, binding, by=winner.binding_id)
    return _step("outranked_by_name", binding, by=winner.binding_id)


def _step(key: RoutingKey, binding: Binding, **fields: str) -> RoutingStep:
    return RoutingStep(key=key, fields={"binding": binding.binding_id, **fields})


class BindingRegistry:
    """The bindings of all workspaces, and their routing tables. Never holds two bindings that match equally."""

    def __init__(self) -> None:
        self._bindings: dict[str, dict[str, Binding]] = {}
        # Only equal scopes can clash, so a new binding is compared with those alone.
        self._scopes: dict[tuple[str, BindingScope], dict[str, Binding]] = {}
        self._tables: dict[str, RoutingTable] = {}
        self.changed: Callable[[str], None] = lambda _: None
        """Called with the workspace whose bindings changed."""

    def check(self, binding: Binding, workspace: str = "default") -> None:
        """Raise the error that `put` would raise, without a change. For callers that commit first."""
        check_new(binding, self._scopes.get((workspace, binding.scope), {}).values())

    def put(self, binding: Binding, workspace: str = "default") -> None:
        """Add or replace a binding. Raises `Conflict` without a change if it clashes."""
        self.check(binding, workspace)
        self.remove(binding.binding_id, workspace)
        self._bindings.setdefault(workspace, {})[binding.binding_id] = binding
        self._scopes.setdefault((workspace, binding.scope), {})[binding.binding_id] = binding
        self.changed(workspace)

    def remove(self, binding_id: str, workspace: str = "default") -> bool:
        """Remove a binding. Returns whether it existed."""
        self._tables.pop(workspace, None)
        binding = self._bindings.get(workspace, {}).pop(binding_id, None)
        if binding is None:
            return False
        beside = self._scopes[workspace, binding.scope]
        del beside[binding_id]
        if not beside:
            del self._scopes[workspace, binding.scope]
        self.changed(workspace)
        return True

    def get(self, binding_id: str, workspace: str = "default") -> Binding | None:
        return self._bindings.get(workspace, {}).get(binding_id)

    def all(self, workspace: str = "default") -> list[Binding]:
        """By id."""
        return sorted(self._bindings.get(workspace, {}).values(), key=lambda binding: binding.binding_id)

    def table(self, workspace: str = "default") -> RoutingTable:
        """The current routing table, cached until a binding changes."""
        table = self._tables.get(workspace)
        if table is None:
            table = RoutingTable(self._bindings.get(workspace, {}).values())
            if workspace in self._bindings:  # unknown workspaces are not cached
                self._tables[workspace] = table
        return table


BotAgent = Callable[[str, str | None], str | None]


def no_bot_agent(workspace: str, bot_id: str | None) -> None:
    """No bot has a default agent."""
    del workspace, bot_id


Runners = dict[RunnerKey, AgentRunnerDiscovery]


class AgentDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """The agents of a host, and their bindings and runners."""

    agents: AgentRegistry
    bindings: BindingRegistry
    runners: Runners = msgspec.field(default_factory=Runners)
    starting: Callable[[], bool] = lambda: False
    """Whether plugins are still starting, so that agents may be missing."""
    names: Names = own_names
    """Returns the names of an actor."""
    bot_agent: BotAgent = no_bot_agent
    """Returns the default agent of a bot of a workspace."""
