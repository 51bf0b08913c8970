"""The keeper of agents and bindings: on disk first, then in the book; one change after the other."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore

from bollard.host.agents.agent import AgentRegistry, agent_of
from bollard.host.agents.agent_repository import AgentRepository
from bollard.host.agents.gates import FrontGates, utc_day
from bollard.host.agents.routing import BindingRegistry
from bollard.host.errors import Conflict, InvalidRequest, NotFound, SettingsError, StorageFull
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.log.saved_resources import SavedChanges
from bollard.host.store.store import Store
from bollard.protocol import AgentRunnerDiscovery

RUNNER = AgentRunnerDiscovery.from_wire(
    {
        "plugin_author": "acme",
        "plugin_name": "parrot",
        "runner_name": "default",
        "manifest": {
            "id": "plugin:acme/parrot/default",
            "name": "default",
            "label": {"en_US": "Parrot"},
            "config_schema": [{"name": "key", "type": "secret", "label": {"en_US": "Key"}}],
        },
    }
)
BODY = {"runner_id": RUNNER.manifest.id}


@dataclass
class Desk:
    """Repositories with separate registries."""

    journal: Journal
    store: Store
    clock: ManualClock
    agents: AgentRegistry = field(default_factory=AgentRegistry)
    bindings: BindingRegistry = field(default_factory=BindingRegistry)
    gates: FrontGates = field(default_factory=FrontGates)

    def __post_init__(self) -> None:
        self.agents.put(agent_of(RUNNER))
        self.repository = AgentRepository(
            SavedChanges(self.journal, self.clock),
            store=self.store,
            agents=self.agents,
            bindings=self.bindings,
            clock=self.clock,
            gates=self.gates,
            runners={("default", RUNNER.manifest.id): RUNNER},
            has_file=lambda workspace, file_id: (workspace, file_id) == ("default", "file_1"),
        )
        self.saved_bindings = self.repository.bindings

    async def load(self) -> None:
        await self.repository.load(self.store)

    async def save(self, agent_id: str = "polly", edited: int | None = None, **more: Any) -> Any:
        return await self.repository.save({**BODY, **more}, "default", agent_id, by="admin", edited=edited)

    async def delete(self, agent_id: str = "polly", by: str = "admin") -> None:
        await self.repository.delete("default", agent_id, by=by)

    async def bind(self, binding_id: str, **more: Any) -> Any:
        body = {"binding_id": binding_id, "agent_id": "polly", **more}
        return await self.saved_bindings.save(body, "default", binding_id, by="admin")


@pytest.fixture
async def make_desk(open_journal: Callable[..., Journal], clock: ManualClock) -> Callable[[Store], Desk]:
    return lambda store: Desk(open_journal(store), store, clock)


async def test_an_agent_is_in_the_registry_only_after_its_commit(make_desk: Any, gate: Any) -> None:
    desk = make_desk(gate.store)
    gate.shut()
    saving = asyncio.create_task(desk.save())
    await gate.arrival()
    assert (desk.agents.get("polly"), saving.done()) == (None, False)
    gate.lift()
    saved = await saving
    assert desk.agents.get("polly").revision == saved.revision == 1
    (row,) = gate.store.policies("agent", "default")
    assert (row.id, row.revision) == ("polly", 1)


async def test_a_change_of_a_disconnected_caller_reaches_the_registry_after_its_commit(
    make_desk: Any, gate: Any
) -> None:
    desk = make_desk(gate.store)
    gate.shut()
    saving = asyncio.create_task(desk.save())
    await gate.arrival()
    saving.cancel()
    gate.lift()
    await asyncio.gather(saving, return_exceptions=True)
    await desk.bind("all", agent_id="parrot")  # behind the first in the journal
    assert desk.agents.get("polly") is not None


async def test_a_change_that_the_store_refuses_changes_no_registry(make_desk: Any, gate: Any) -> None:
    desk = make_desk(gate.store)
    before = await desk.save()
    await desk.bind("all")
    gate.broken = StorageFull("the disk is full", reason="test", hint="free some")
    for change in (
        desk.save(deadline_s=1.0),
        desk.bind("all", priority=1),
        desk.saved_bindings.delete("default", "all", by="admin"),
    ):
        with pytest.raises(StorageFull):
            await change
    assert desk.repository.get("default", "polly") == before
    assert (desk.saved_bindings.get("default", "all").revision, desk.bindings.get("all").priority) == (1, 0)


async def test_of_two_concurrent_changes_the_second_sees_the_first(make_desk: Any, memory_store: MemoryStore) -> None:
    desk = make_desk(memory_store)
    await desk.save()
    outcomes = await asyncio.gather(desk.save(edited=1), desk.save(edited=1), return_exceptions=True)
    assert [type(outcome).__name__ for outcome in outcomes] == ["Saved", "Conflict"]
    outcomes = await asyncio.gather(desk.bind("one"), desk.bind("two"), return_exceptions=True)
    assert [type(outcome).__name__ for outcome in outcomes] == ["Saved", "Conflict"]
    outcomes = await asyncio.gather(desk.delete("polly"), desk.bind("three", priority=1), return_exceptions=True)
    assert [type(outcome).__name__ for outcome in outcomes] == ["Conflict", "Saved"]


async def test_saved_agents_are_loaded_again_and_deleted_ones_are_not(make_desk: Any, store: Any) -> None:
    desk = make_desk(store)
    agent = await desk.save(config={"key": "s3cret"}, policy={"budget": {"runs_per_day": 5}})
    await desk.save(agent_id="gone")
    await desk.delete("gone")
    await desk.bind("all", scope={"conversation": "room"}, filters=[{"field": "event_type", "values": ["x"]}])
    binding = await desk.bind("all", scope={"conversation": "room"})
    await desk.bind("gone")
    await desk.saved_bindings.delete("default", "gone", by="admin")
    again = Desk(desk.journal, store, desk.clock)
    await again.load()
    assert again.repository.all("default") == [agent]
    assert again.agents.get("polly") == desk.agents.get("polly")
    assert again.agents.saved() == desk.agents.saved()
    assert again.bindings.all() == [binding.value]
    assert again.saved_bindings.get("default", "all").revision == 2
    assert again.agents.get("polly").config == {"key": "s3cret"}


async def test_a_loaded_budget_counts_only_the_runs_of_the_day(
    make_desk: Any, memory_store: MemoryStore, scribe: Any, clock: ManualClock
) -> None:
    desk = make_desk(memory_store)
    await desk.save(policy={"budget": {"runs_per_day": 5}})
    today, yesterday = clock.now_ms(), clock.now_ms() - 24 * 3600 * 1000
    for number, created_ms in enumerate((yesterday, today, today)):
        entry = scribe.first(scribe.facts(f"run_{number}", agent_id="polly"))
        records = [msgspec.structs.replace(record, created_ms=created_ms) for record in entry.records]
        await desk.journal.commit(Entry(records=records, dedupe=entry.dedupe))
    again = Desk(desk.journal, memory_store, clock)
    await again.load()
    assert again.gates.runs_of_day("polly", utc_day(today), workspace="default") == 2


@pytest.mark.parametrize(("kind", "body"), [("agent", {"agent_id": "polly"}), ("binding", {"binding_id": "polly"})])
async def test_an_unreadable_saved_resource_stops_the_start_by_its_name(
    make_desk: Any, memory_store: MemoryStore, kind: str, body: Any
) -> None:
    desk = make_desk(memory_store)
    data = encode_data({"kind": kind, "id": "polly", "action": "saved", "revision": 1, "body": body})
    changed = NewRecord(workspace="default", type="policy.changed", data=data, created_ms=desk.clock.now_ms())
    await desk.journal.commit(Entry(records=[changed]))
    with pytest.raises(SettingsError, match=f"the saved {kind} polly cannot be read") as refused:
        await Desk(desk.journal, memory_store, desk.clock).load()
    assert refused.value.hint


async def test_deleting_an_agent_notifies_the_listeners(make_desk: Any, memory_store: MemoryStore) -> None:
    desk = make_desk(memory_store)
    await desk.save()
    before = desk.agents.changes
    await desk.delete("polly")
    assert desk.agents.changes > before
    with pytest.raises(NotFound):
        await desk.delete("polly")
    with pytest.raises(Conflict):
        await desk.delete("parrot")
    with pytest.raises(InvalidRequest):
        await desk.bind("late")


async def test_a_record_names_the_caller_and_the_change(make_desk: Any, memory_store: MemoryStore) -> None:
    desk = make_desk(memory_store)
    await desk.save(config={"key": "s3cret"})
    await desk.delete("polly", by="ada")
    saved, deleted = (msgspec.json.decode(row.data) for row in memory_store.records(0, 10))
    assert (saved["kind"], saved["id"], saved["action"], saved["revision"], saved["by"]) == (
        "agent",
        "polly",
        "saved",
        1,
        "admin",
    )
    assert saved["body"]["config"] == {"key": "s3cret"}
    assert deleted == {"kind": "agent", "id": "polly", "action": "deleted", "revision": 2, "by": "ada"}
