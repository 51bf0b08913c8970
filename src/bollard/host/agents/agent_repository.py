"""Keeps what people save: agents and bindings. A change is one record, on disk before anybody goes by it.

Whether a body fits is decided elsewhere (`saving`, `binding_wire`); here it is held against what else is there.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, cast

import msgspec
from msgspec.structs import replace

from bollard.host.agents.agent import Agent, AgentRegistry, RunnerKey
from bollard.host.agents.agent_document import agent_from_store, agent_from_wire, agent_to_wire, runner_named
from bollard.host.agents.binding import Binding, binding_from_wire, binding_to_wire
from bollard.host.agents.config_form import refuse_unknown_files, secret_fields
from bollard.host.agents.gates import DAY_MS, FrontGates, utc_day
from bollard.host.agents.routing import BindingRegistry
from bollard.host.clock import Clock
from bollard.host.errors import Conflict, HostError, InvalidRequest, NotFound
from bollard.host.log.journal import Journal
from bollard.host.log.saved_resources import JointChange, SavedChange, SavedChanges, check_revision, unreadable
from bollard.host.secrets.references import is_chosen, is_reference, own_name, reference_to, referred
from bollard.host.secrets.vault import Vault
from bollard.host.store.store import Store
from bollard.protocol import AgentRunnerDiscovery, JsonObject

# Where the secrets of a configuration go when an agent is saved: into the vault. The configuration says only where.
#
# A field holds `secret:NAME` for a secret that people keep under a name, or a value, which becomes a secret of this
# agent alone and goes with it.


_KIND = "agent"


def agent_with_secrets(vault: Vault, agent: Agent, before: Agent | None, by: str) -> tuple[Agent, JointChange]:
    """The agent as it is saved, and what is written with it. Raises `InvalidRequest` for a name that leads nowhere."""
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
    """Those that belong to it and go with it."""
    return vault.of_thing(workspace, _KIND, agent_id)


def _had(before: Agent | None, agent: Agent, field: str, value: str) -> bool:
    """Whether it stands there already, for the same runner: nobody gets what was entered for another one."""
    return before is not None and before.runner_id == agent.runner_id and before.config.get(field) == value


def _check(vault: Vault, workspace: str, field: str, name: str) -> None:
    if not is_chosen(name) or vault.find(workspace, name) is None:
        shown = name if is_chosen(name) else "of this name"
        raise InvalidRequest(
            f"config.{field} refers to a secret that is not there: {shown}",
            hint=f"set it first: `bollard secrets set {shown}`" if is_chosen(name) else "enter the value itself",
            field=f"config.{field}",
        )


_DEFAULT: Final = "default"
_decode: Final = msgspec.json.Decoder().decode


class AgentRepository:
    """One per host. Changes are made one after the other, so that each is held against all before it."""

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
        """`has_file` says whether a workspace has a file of this id. Without a `vault`, in memory, secrets stay in the
        configuration."""
        self._has_file = has_file
        self._vault = vault
        self._changes = SavedChanges(journal, clock)
        self._store = store
        self._agents = agents
        self._bindings = bindings
        self._clock = clock
        self._gates = gates
        self._runners = runners
        """What plugins offer now, by workspace and the runner's id."""
        self._binding_revisions: dict[tuple[str, str], int] = {}
        self._changing = asyncio.Lock()

    async def load(self) -> None:
        """Fill the books from the store, of every workspace. What cannot be read stops the start: without it others
        would get more."""
        for row in await asyncio.to_thread(self._store.policies_everywhere, "agent"):
            try:
                agent = agent_from_store(_decode(row.body), row.workspace, row.revision)
            except HostError as error:
                raise unreadable("agent", row, error) from error
            await self._seed(agent)
            self._agents.save(agent)
        for row in await asyncio.to_thread(self._store.policies_everywhere, "binding"):
            try:
                self._bindings.put(binding_from_wire(_decode(row.body), row.workspace))
            except HostError as error:
                raise unreadable("binding", row, error) from error
            self._binding_revisions[row.workspace, row.id] = row.revision

    # --- agents ---

    def saved_agent(self, agent_id: str, workspace: str = _DEFAULT) -> Agent | None:
        """The agent as it was saved, also where its runner is not there."""
        return self._agents.saved_one(agent_id, workspace)

    async def save_agent(self, body: JsonObject, workspace: str, by: str) -> Agent:
        """Take an agent, or a new version of one; raises where it cannot work, and then nothing changed."""
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
                thing=agent_id,
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
        """Forget a saved agent. A runner's own of that id is back then."""
        async with self._changing:
            before = self.saved_agent(agent_id, workspace)
            if before is None:
                raise self._not_saved(agent_id, workspace)
            check_revision("agent", agent_id, before.revision, revision)
            if named := [each.binding_id for each in self._bindings.all(workspace) if each.agent_id == agent_id]:
                raise Conflict(
                    f"agent {agent_id} gets the events of {', '.join(named)}",
                    hint="delete these bindings first, or bind them to another agent",
                    bindings=", ".join(named),
                )
            change = SavedChange(kind="agent", workspace=workspace, thing=agent_id, revision=before.revision + 1, by=by)
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
            return NotFound("there is no such agent", hint="`bollard agents` lists them")
        return Conflict(
            f"agent {agent_id} is its runner's own and goes with its plugin",
            hint="save an agent of the same id to change what it may do",
        )

    def _forget_agent(self, agent_id: str, workspace: str) -> None:
        self._agents.remove(agent_id, workspace)
        self._agents.stir()  # what is offered to others goes by the book's changes
        self._gates.forget(agent_id, workspace=workspace)

    async def _seed(self, agent: Agent) -> None:
        """A budget of the day counts the runs that the agent has had today, also before it had the budget."""
        if agent.policy.budget.runs_per_day is None:
            return
        agent_id, workspace, day = agent.agent_id, agent.workspace, utc_day(self._clock.now_ms())
        known = self._gates.runs_of_day(agent_id, day, workspace=workspace)
        counted = await asyncio.to_thread(self._store.count_runs, workspace, agent_id, day * DAY_MS)
        meanwhile = self._gates.runs_of_day(agent_id, day, workspace=workspace) - known
        self._gates.seed(agent_id, day, counted + meanwhile, workspace=workspace)

    # --- bindings ---

    def binding_revision(self, binding_id: str, workspace: str = _DEFAULT) -> int:
        """How often the binding was saved; 0 where there is none."""
        return self._binding_revisions.get((workspace, binding_id), 0)

    async def save_binding(self, body: JsonObject, workspace: str, by: str) -> Binding:
        """Take a binding, or a new version of one. `revision` in its body is the revision that was edited."""
        async with self._changing:
            binding = binding_from_wire(_without_revision(body), workspace)
            binding_id = binding.binding_id
            before = self.binding_revision(binding_id, workspace)
            check_revision("binding", binding_id, before, _edited(body))
            self._refuse_unknown_agent(binding.agent_id, workspace)
            self._bindings.check(binding)
            change = SavedChange(
                kind="binding",
                workspace=workspace,
                thing=binding_id,
                revision=before + 1,
                by=by,
                body=binding_to_wire(binding),
            )
            await self._changes.write(change, lambda: self._take_binding(binding, before + 1))
            return binding

    def _take_binding(self, binding: Binding, revision: int) -> None:
        self._bindings.put(binding)
        self._binding_revisions[binding.workspace, binding.binding_id] = revision

    async def delete_binding(self, binding_id: str, workspace: str, by: str, revision: int | None = None) -> None:
        """Forget a binding; what it took goes to whatever matches next."""
        async with self._changing:
            if self._bindings.get(binding_id, workspace) is None:
                raise NotFound("there is no such binding", hint="`bollard bindings` lists them")
            before = self.binding_revision(binding_id, workspace)
            check_revision("binding", binding_id, before, revision)
            change = SavedChange(kind="binding", workspace=workspace, thing=binding_id, revision=before + 1, by=by)
            await self._changes.write(change, lambda: self._forget_binding(binding_id, workspace))

    def _forget_binding(self, binding_id: str, workspace: str) -> None:
        self._bindings.remove(binding_id, workspace)
        self._binding_revisions.pop((workspace, binding_id), None)

    def _refuse_unknown_agent(self, agent_id: str, workspace: str) -> None:
        there = self._agents.get(agent_id, workspace) or self.saved_agent(agent_id, workspace)
        if there is None:
            raise InvalidRequest(
                f"binding.agent_id: there is no agent {agent_id}",
                hint="`bollard agents` lists them; save the agent first",
                field="binding.agent_id",
            )


def _without_revision(body: JsonObject) -> JsonObject:
    return {name: value for name, value in body.items() if name != "revision"}


def _edited(body: JsonObject) -> int | None:
    revision = body.get("revision")
    if revision is None or (isinstance(revision, int) and not isinstance(revision, bool) and revision >= 0):
        return revision
    raise InvalidRequest(
        "binding.revision: should be a whole number from 0", hint="send the one you read", field="binding.revision"
    )
