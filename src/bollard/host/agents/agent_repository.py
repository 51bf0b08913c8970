"""The saved agents and bindings of every workspace."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from bollard.host.agents.agent import Agent, AgentRegistry, RunnerKey, agent_of, agent_on
from bollard.host.agents.binding import Binding, host_events_of
from bollard.host.agents.bot import unknown_agent
from bollard.host.agents.config_form import refuse_unknown_files, secret_fields
from bollard.host.agents.gates import DAY_MS, FrontGates, utc_day
from bollard.host.agents.routing import BindingRegistry
from bollard.host.agents.saved_agent import SavedAgent, agent_without_runner, read_request, read_stored
from bollard.host.clock import Clock
from bollard.host.errors import Conflict, InvalidRequest
from bollard.host.log.saved_resources import (
    Beginning,
    JointChange,
    Repository,
    ResourceKind,
    Saved,
    SavedChanges,
    begins_nothing,
)
from bollard.host.secrets.references import is_chosen, is_reference, own_name, reference_to, referred
from bollard.host.secrets.vault import Vault
from bollard.host.store.store import Store
from bollard.protocol import AgentRunnerDiscovery, FormItem, JsonObject

AGENT: Final = ResourceKind(kind="agent", noun="agent", listed_by="agents")
BINDING: Final = ResourceKind(kind="binding", noun="binding", listed_by="bindings")
_KIND: Final = "agent"
DRAFT: Final = "draft"
"""The id of an unsaved agent that has none."""


# --- secrets of a configuration ---


class ConfigSecrets:
    """Moves the secrets of configurations into the vault: a field holds `secret:NAME`, or a value that becomes a
    secret of this agent alone."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def store(
        self, workspace: str, agent: SavedAgent, form: tuple[FormItem, ...], before: SavedAgent | None, by: str
    ) -> tuple[SavedAgent, JointChange]:
        """The agent with references instead of values, and the change of the vault. Raises `InvalidRequest` for a
        reference to an unknown secret."""
        along, config, used = JointChange(), {**agent.config}, set[str]()
        for field in sorted(secret_fields(form)):
            value = config.get(field)
            if not isinstance(value, str) or not value:
                continue
            own = own_name(_KIND, agent.agent_id, field)
            if value == reference_to(own) and _had(before, agent, field, value):
                used.add(own)
            elif is_reference(value):
                self._check(workspace, field, referred(value))
            else:
                along += self._vault.joining(workspace, own, value, by)
                config[field] = reference_to(own)
                used.add(own)
        unused = [name for name in self._vault.of_thing(workspace, _KIND, agent.agent_id) if name not in used]
        return agent.model_copy(update={"config": config}), along + self._vault.leaving(workspace, unused, by)

    def drop(self, workspace: str, agent_id: str, by: str) -> JointChange:
        """The secrets that are deleted with the agent."""
        return self._vault.leaving(workspace, self._vault.of_thing(workspace, _KIND, agent_id), by)

    def _check(self, workspace: str, field: str, name: str) -> None:
        if not is_chosen(name):  # it may be a value that was entered as a name, so it is not repeated
            raise InvalidRequest(
                f"config.{field} refers to a secret that does not exist",
                reason="no_such_secret",
                hint="enter the value itself",
                field=f"config.{field}",
            )
        if self._vault.find(workspace, name) is None:
            raise InvalidRequest(
                f"config.{field} refers to a secret that does not exist: {name}",
                reason="no_secret",
                hint=f"set it first: `bollard secrets set {name}`",
                field=f"config.{field}",
                secret=name,
            )


def _had(before: SavedAgent | None, agent: SavedAgent, field: str, value: str) -> bool:
    """Whether the same runner had this reference: a secret is never passed on to another runner."""
    return before is not None and before.runner_id == agent.runner_id and before.config.get(field) == value


# --- agents and bindings ---


class AgentRepository(Repository[SavedAgent]):
    """The saved agents, and the repository of their bindings. The registry of agents joins them with their runners."""

    def __init__(
        self,
        changes: SavedChanges,
        *,
        store: Store,
        agents: AgentRegistry,
        bindings: BindingRegistry,
        clock: Clock,
        gates: FrontGates,
        runners: Mapping[RunnerKey, AgentRunnerDiscovery],
        has_file: Callable[[str, str], bool],
        secrets: ConfigSecrets | None = None,
    ) -> None:
        """`runners` are the runners that plugins offer now. `has_file` says whether a workspace has a file with an id.
        Without `secrets`, in memory, secrets stay in the configuration."""
        super().__init__(AGENT, changes, lambda body, _: read_stored(body), SavedAgent.to_wire)
        self._store = store
        self._agents = agents
        self._routed = bindings
        self._clock = clock
        self._gates = gates
        self._runners = runners
        self._has_file = has_file
        self._secrets = secrets
        self.bindings: Final = BindingRepository(changes, bindings, agents, self._changing)

    async def load(self, store: Store) -> None:
        """Read the agents and bindings of every workspace. Raises `SettingsError` for one that cannot be read."""
        await super().load(store)
        for saved in self.everywhere():
            await self._count_runs_of_day(saved.workspace, saved.value)
        await self.bindings.load(store)

    async def save(
        self, body: JsonObject, workspace: str, agent_id: str, *, by: str, edited: int | None = None
    ) -> Saved[SavedAgent]:
        """Raises `InvalidRequest` for a body that cannot work."""
        along = JointChange()

        def make(before: Saved[SavedAgent] | None) -> SavedAgent:
            nonlocal along
            agent, along = self._read(body, workspace, agent_id, None if before is None else before.value, by)
            return agent

        # A daily budget includes the runs before it was set, so they are counted before it applies.
        await self._count_runs_of_day(workspace, SavedAgent.read({**body, "agent_id": agent_id}))
        return await self._save(workspace, agent_id, make, by=by, edited=edited, along=lambda _: along)

    def draft(self, body: JsonObject, workspace: str) -> Agent:
        """The agent that this body would make, not saved. Raises `InvalidRequest` for a body that cannot work."""
        agent_id = str(body.get("agent_id") or DRAFT)
        runner = self._runners.get((workspace, str(body.get("runner_id"))))
        own = None if runner is None else agent_of(runner, workspace)
        known = [runner_id for there, runner_id in self._runners if there == workspace]
        before = self.find(workspace, agent_id)
        read = read_request({**body, "agent_id": agent_id}, own, known, None if before is None else before.value)
        agent = agent_without_runner(Saved(workspace=workspace, id=agent_id, revision=0, value=read))
        return agent if own is None else agent_on(agent, own)

    def _read(
        self, body: JsonObject, workspace: str, agent_id: str, before: SavedAgent | None, by: str
    ) -> tuple[SavedAgent, JointChange]:
        runner = self._runners.get((workspace, str(body.get("runner_id"))))
        own = None if runner is None else agent_of(runner, workspace)
        known = [runner_id for there, runner_id in self._runners if there == workspace]
        agent = read_request({**body, "agent_id": agent_id}, own, known, before)
        form = () if own is None else own.form
        rule = agent.policy.access.resources.get("files")
        added = () if rule is None else rule.add
        refuse_unknown_files(agent.config, form, added, lambda file_id: self._has_file(workspace, file_id))
        if self._secrets is None:
            return agent, JointChange()
        return self._secrets.store(workspace, agent, form, before, by)

    async def delete(self, workspace: str, resource_id: str, /, *, by: str, edited: int | None = None) -> None:
        """Delete a saved agent. Raises `Conflict` for a bound agent and for a built-in agent."""

        def check(_: Saved[SavedAgent]) -> None:
            if bound := ", ".join(
                each.binding_id for each in self._routed.all(workspace) if each.agent_id == resource_id
            ):
                raise Conflict(
                    f"agent {resource_id} gets the events of {bound}",
                    reason="agent_bound",
                    hint="delete these bindings first, or bind them to another agent",
                    agent=resource_id,
                    bindings=bound,
                )

        def along() -> JointChange:
            return JointChange() if self._secrets is None else self._secrets.drop(workspace, resource_id, by)

        if self.find(workspace, resource_id) is None and self._agents.own(resource_id, workspace) is not None:
            raise Conflict(
                f"agent {resource_id} belongs to its plugin and cannot be deleted",
                reason="agent_of_plugin",
                hint="save an agent with the same id to override it",
                agent=resource_id,
            )
        await self._delete(workspace, resource_id, check, by=by, edited=edited, along=along)

    def changed(self, before: Saved[SavedAgent] | None, after: Saved[SavedAgent] | None) -> None:
        if after is not None:
            self._agents.save(agent_without_runner(after))
        elif before is not None:
            self._agents.remove(before.id, before.workspace)
            self._gates.forget(before.id, workspace=before.workspace)

    async def _count_runs_of_day(self, workspace: str, agent: SavedAgent) -> None:
        if agent.policy.budget.runs_per_day is None:
            return
        agent_id, day = agent.agent_id, utc_day(self._clock.now_ms())
        known = self._gates.runs_of_day(agent_id, day, workspace=workspace)
        counted = await asyncio.to_thread(self._store.count_runs, workspace, agent_id, day * DAY_MS)
        meanwhile = self._gates.runs_of_day(agent_id, day, workspace=workspace) - known
        self._gates.seed(agent_id, day, counted + meanwhile, workspace=workspace)


class BindingRepository(Repository[Binding]):
    """The saved bindings. The registry has the bindings that match events."""

    def __init__(
        self, changes: SavedChanges, bindings: BindingRegistry, agents: AgentRegistry, changing: asyncio.Lock
    ) -> None:
        """Agents and bindings refer to each other, so they share the lock `changing`."""
        super().__init__(BINDING, changes, lambda body, _: Binding.read(body), Binding.to_wire, changing)
        self._bindings = bindings
        self._agents = agents
        self.beginning: Beginning = begins_nothing
        """Returns the rows of the commit that first binds host events in a workspace."""

    async def save(
        self, body: JsonObject, workspace: str, binding_id: str, *, by: str, edited: int | None = None
    ) -> Saved[Binding]:
        """Raises `InvalidRequest` for an unknown agent, and `Conflict` for a binding that matches like another one."""

        asks = False

        def make(_: Saved[Binding] | None) -> Binding:
            nonlocal asks
            binding = Binding.read({**body, "binding_id": binding_id})
            if not self._agents.is_known(binding.agent_id, workspace):
                raise unknown_agent("binding", binding.agent_id)
            self._bindings.check(binding, workspace)
            asks = bool(host_events_of(binding))
            return binding

        rows = await self.beginning(workspace)
        return await self._save(workspace, binding_id, make, by=by, edited=edited, keeps=lambda: rows if asks else ())

    def changed(self, before: Saved[Binding] | None, after: Saved[Binding] | None) -> None:
        if after is not None:
            self._bindings.put(after.value, after.workspace)
        elif before is not None:
            self._bindings.remove(before.id, before.workspace)
