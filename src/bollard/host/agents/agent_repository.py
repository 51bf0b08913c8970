"""The saved agents and bindings of every workspace."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from bollard.host.agents.agent import Agent, AgentRegistry, RunnerKey
from bollard.host.agents.agent_document import agent_from_store, agent_from_wire, agent_to_wire, runner_named
from bollard.host.agents.binding import Binding, binding_from_wire
from bollard.host.agents.config_form import refuse_unknown_files, secret_fields
from bollard.host.agents.gates import DAY_MS, FrontGates, utc_day
from bollard.host.agents.routing import BindingRegistry
from bollard.host.clock import Clock
from bollard.host.errors import Conflict, HostError, InvalidRequest
from bollard.host.log.journal import Journal
from bollard.host.log.saved_resources import (
    JointChange,
    Repository,
    ResourceKind,
    Saved,
    SavedChange,
    SavedChanges,
    check_revision,
    unreadable,
)
from bollard.host.secrets.references import is_chosen, is_reference, own_name, reference_to, referred
from bollard.host.secrets.vault import Vault
from bollard.host.store.store import Store
from bollard.protocol import AgentRunnerDiscovery, JsonObject

AGENT: Final = ResourceKind(kind="agent", noun="agent", listed_by="agents")
BINDING: Final = ResourceKind(kind="binding", noun="binding", listed_by="bindings")
_KIND: Final = "agent"
_DEFAULT: Final = "default"
_decode: Final = msgspec.json.Decoder().decode


# --- secrets of a configuration ---


def agent_with_secrets(vault: Vault, agent: Agent, before: Agent | None, by: str) -> tuple[Agent, JointChange]:
    """Move the secrets of the configuration into the vault: a field holds `secret:NAME`, or a value that becomes a
    secret of this agent alone. Raises `InvalidRequest` for a reference to an unknown secret."""
    workspace, along, config = agent.workspace, JointChange(), {**agent.config}
    kept: set[str] = set()
    for field in sorted(secret_fields(agent.form)):
        value = config.get(field)
        if not isinstance(value, str) or not value:
            continue
        own = own_name(_KIND, agent.agent_id, field)
        if value == reference_to(own) and _had(before, agent, field, value):
            kept.add(own)
        elif is_reference(value):
            _check(vault, workspace, field, referred(value))
        else:
            along += vault.joining(workspace, own, value, by)
            config[field] = reference_to(own)
            kept.add(own)
    gone = [name for name in secrets_of_agent(vault, workspace, agent.agent_id) if name not in kept]
    return replace(agent, config=config), along + vault.leaving(workspace, gone, by)


def secrets_of_agent(vault: Vault, workspace: str, agent_id: str) -> list[str]:
    """The names of the secrets that are deleted with the agent."""
    return vault.of_thing(workspace, _KIND, agent_id)


def _had(before: Agent | None, agent: Agent, field: str, value: str) -> bool:
    """Whether the same runner had this reference: a secret is never passed on to another runner."""
    return before is not None and before.runner_id == agent.runner_id and before.config.get(field) == value


def _check(vault: Vault, workspace: str, field: str, name: str) -> None:
    if not is_chosen(name) or vault.find(workspace, name) is None:
        if not is_chosen(name):  # it may be a value that was entered as a name, so it is not repeated
            raise InvalidRequest(
                f"config.{field} refers to a secret that does not exist",
                reason="no_such_secret",
                hint="enter the value itself",
                field=f"config.{field}",
            )
        raise InvalidRequest(
            f"config.{field} refers to a secret that does not exist: {name}",
            reason="no_secret",
            hint=f"set it first: `bollard secrets set {name}`",
            field=f"config.{field}",
            secret=name,
        )


# --- agents and bindings ---


class AgentRepository:
    """The saved agents, and the repository of their bindings."""

    def __init__(
        self,
        *,
        journal: Journal,
        store: Store,
        agents: AgentRegistry,
        bindings: BindingRegistry,
        clock: Clock,
        gates: FrontGates,
        runners: Mapping[RunnerKey, AgentRunnerDiscovery],
        has_file: Callable[[str, str], bool],
        vault: Vault | None = None,
    ) -> None:
        """`has_file` says whether a workspace has a file with an id. Without a `vault`, in memory, secrets stay in the
        configuration."""
        self._has_file = has_file
        self._vault = vault
        self._changes = SavedChanges(journal, clock)
        self._store = store
        self._agents = agents
        self._routed = bindings
        self._clock = clock
        self._gates = gates
        self._runners = runners
        """The runners that plugins offer now, by workspace and id."""
        self._changing = asyncio.Lock()
        self.bindings: Final = BindingRepository(self._changes, bindings, agents, self._changing)

    async def load(self) -> None:
        """Read the agents and bindings of every workspace. Raises `SettingsError` for one that cannot be read."""
        for row in await asyncio.to_thread(self._store.policies_everywhere, "agent"):
            try:
                agent = agent_from_store(_decode(row.body), row.workspace, row.revision)
            except HostError as error:
                raise unreadable("agent", row, error) from error
            await self._seed(agent)
            self._agents.save(agent)
        await self.bindings.load(self._store)

    def saved_agent(self, agent_id: str, workspace: str = _DEFAULT) -> Agent | None:
        """The saved agent, also without its runner."""
        return self._agents.saved_one(agent_id, workspace)

    async def save_agent(self, body: JsonObject, workspace: str, by: str) -> Agent:
        """Save an agent. Raises `InvalidRequest` for a body that cannot work, and then changes nothing."""
        async with self._changing:
            runner = self._runners.get((workspace, runner_named(body)))
            agent_id = cast("str", body["agent_id"])
            before = self.saved_agent(agent_id, workspace)
            revision = 1 if before is None else before.revision + 1
            known = [runner_id for there, runner_id in self._runners if there == workspace]
            agent = agent_from_wire(body, runner, workspace, revision, known=known, before=before)
            self._refuse_unknown_files(agent)
            along = JointChange()
            if self._vault is not None:
                agent, along = agent_with_secrets(self._vault, agent, before, by)
            await self._seed(agent)
            change = SavedChange(
                kind="agent",
                workspace=workspace,
                id=agent_id,
                revision=revision,
                by=by,
                body=agent_to_wire(agent, masked=False),
            )
            await self._write(change, along, lambda: self._agents.save(agent))
            return agent

    def _refuse_unknown_files(self, agent: Agent) -> None:
        rule = agent.policy.access.resources.get("files")
        added = () if rule is None else rule.add
        refuse_unknown_files(agent.config, agent.form, added, lambda each: self._has_file(agent.workspace, each))

    async def delete_agent(self, agent_id: str, workspace: str, by: str, revision: int | None = None) -> None:
        """Delete a saved agent. The own agent of a runner with this id is used again."""
        async with self._changing:
            before = self.saved_agent(agent_id, workspace)
            if before is None:
                raise self._not_saved(agent_id, workspace)
            check_revision("agent", agent_id, before.revision, revision)
            if named := [each.binding_id for each in self._routed.all(workspace) if each.agent_id == agent_id]:
                raise Conflict(
                    f"agent {agent_id} gets the events of {', '.join(named)}",
                    reason="agent_bound",
                    hint="delete these bindings first, or bind them to another agent",
                    agent=agent_id,
                    bindings=", ".join(named),
                )
            change = SavedChange(kind="agent", workspace=workspace, id=agent_id, revision=before.revision + 1, by=by)
            along = JointChange()
            if self._vault is not None:
                going = secrets_of_agent(self._vault, workspace, agent_id)
                along = self._vault.leaving(workspace, going, by)
            await self._write(change, along, lambda: self._forget_agent(agent_id, workspace))

    async def _write(self, change: SavedChange, along: JointChange, settled: Callable[[], None]) -> None:
        def told() -> None:
            for other in along.settled:
                other()
            settled()

        await self._changes.write(change, told, keeps=along.keeps, beside=along.records)

    def _not_saved(self, agent_id: str, workspace: str) -> HostError:
        if self._agents.own(agent_id, workspace) is None:
            return AGENT.missing()
        return Conflict(
            f"agent {agent_id} belongs to its plugin and cannot be deleted",
            reason="agent_of_plugin",
            hint="save an agent with the same id to override it",
            agent=agent_id,
        )

    def _forget_agent(self, agent_id: str, workspace: str) -> None:
        self._agents.remove(agent_id, workspace)
        self._agents.stir()  # offers are computed again when the registry changes
        self._gates.forget(agent_id, workspace=workspace)

    async def _seed(self, agent: Agent) -> None:
        """Count the runs of today: a daily budget applies to runs before the budget was set, too."""
        if agent.policy.budget.runs_per_day is None:
            return
        agent_id, workspace, day = agent.agent_id, agent.workspace, utc_day(self._clock.now_ms())
        known = self._gates.runs_of_day(agent_id, day, workspace=workspace)
        counted = await asyncio.to_thread(self._store.count_runs, workspace, agent_id, day * DAY_MS)
        meanwhile = self._gates.runs_of_day(agent_id, day, workspace=workspace) - known
        self._gates.seed(agent_id, day, counted + meanwhile, workspace=workspace)


class BindingRepository(Repository[Binding]):
    """The saved bindings. The registry has those of them that match events."""

    def __init__(
        self, changes: SavedChanges, bindings: BindingRegistry, agents: AgentRegistry, changing: asyncio.Lock
    ) -> None:
        """Agents and bindings refer to each other, so they share the lock `changing`."""
        super().__init__(BINDING, changes, binding_from_wire, Binding.to_wire, changing)
        self._bindings = bindings
        self._agents = agents

    async def save(
        self, body: JsonObject, workspace: str, binding_id: str, *, by: str, edited: int | None = None
    ) -> Saved[Binding]:
        """Raises `InvalidRequest` for an unknown agent, and `Conflict` for a binding that matches like another one."""

        def make(_: Saved[Binding] | None) -> Binding:
            binding = binding_from_wire({**_without_revision(body), "binding_id": binding_id}, workspace)
            self._refuse_unknown_agent(binding.agent_id, workspace)
            self._bindings.check(binding)
            return binding

        based_on = _edited(body)
        return await self._save(workspace, binding_id, make, by=by, edited=based_on if edited is None else edited)

    def changed(self, before: Saved[Binding] | None, after: Saved[Binding] | None) -> None:
        if after is not None:
            self._bindings.put(after.value)
        elif before is not None:
            self._bindings.remove(before.id, before.workspace)

    def _refuse_unknown_agent(self, agent_id: str, workspace: str) -> None:
        if (self._agents.get(agent_id, workspace) or self._agents.saved_one(agent_id, workspace)) is None:
            raise InvalidRequest(
                f"binding.agent_id: there is no agent {agent_id}",
                reason="binding_unknown_agent",
                hint="`bollard agents` lists them; save the agent first",
                field="binding.agent_id",
                agent=agent_id,
            )


def _without_revision(body: JsonObject) -> JsonObject:
    return {name: value for name, value in body.items() if name != "revision"}


def _edited(body: JsonObject) -> int | None:
    revision = body.get("revision")
    if revision is None or (isinstance(revision, int) and not isinstance(revision, bool) and revision >= 0):
        return revision
    raise InvalidRequest(
        "binding.revision: should be a whole number from 0",
        reason="binding_revision",
        hint="send the revision that you read",
        field="binding.revision",
    )
