"""The start request: the grant that calls are checked against, and bounded state."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.doubles.memory_store import MemoryStore

from bollard.host.agents.policies import AccessPolicy, AgentPolicy, ConcurrencyPolicy, StatePolicy
from bollard.host.grants.grant import available_apis_of, resources_of
from bollard.protocol import AgentAPIError, limits
from bollard.trust import sha256_of
from bollard.wire import RemoteError, WorkerRun

Stages = Callable[..., Awaitable[Any]]
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "history_page": ("history.page", {}),
    "history_search": ("history.search", {"query": "hello"}),
    "event_page": ("events.page", {}),
    "artifact_write": ("artifacts.append", {"upload_id": "u", "offset": 0, "content_base64": ""}),
    "state": ("state.list", {"scope": "conversation"}),
    "storage": ("storage.list", {"area": "plugin"}),
    "steering_pull": ("steering.pull", {}),
}
"""For each available API of a context, a call that needs it."""
LET_THROUGH, HELD_BACK = {"ok", "not_found"}, {"unauthorized", "capability_denied"}
"""Answers with the permission: the upload is absent. Answers without it."""


@pytest.mark.requirement("P12-04", "P03-03", "P03-07")
@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("granted", [{}, {"history": ("page",)}, {"artifacts": ("write",), "storage": ("plugin",)}])
async def test_a_runner_sees_exactly_the_apis_of_its_grant(
    memory_store: MemoryStore, stages: Stages, granted: dict[str, tuple[str, ...]], enabled: bool
) -> None:
    outcomes: dict[str, str] = {}

    async def prober(worker: Any, run: WorkerRun) -> None:
        for api, (action, params) in CALLS.items():
            try:
                await run.call(action, params)
            except RemoteError as error:
                outcomes[api] = AgentAPIError.from_wire(error.data).code
            else:
                outcomes[api] = "ok"
        grants.append(stage.dispatcher.live[run.run_id].grant)
        await worker.complete(run, message={"role": "assistant", "content": "done"})

    grants: list[Any] = []
    stage = await stages(memory_store, prober)
    policy = AgentPolicy(
        access=AccessPolicy(permissions=granted),
        state=StatePolicy(enabled=enabled),
        concurrency=ConcurrencyPolicy(mode="parallel"),
    )
    every = ("history.page", "history.search", "events.page", "artifacts.write", "storage.plugin")
    stage.agent(policy=policy, permissions=frozenset(every))
    run_id = await stage.say()
    await stage.read(run_id)

    (grant,) = grants
    context = stage.pool.slots[0].worker.runs[0].request["context"]
    told = context["context"]["available_apis"]
    assert (told, context["resources"]) == (available_apis_of(grant), resources_of(grant))
    assert {api for api, outcome in outcomes.items() if outcome in LET_THROUGH} == {api for api in CALLS if told[api]}
    assert {api for api, outcome in outcomes.items() if outcome in HELD_BACK} == {api for api in CALLS if not told[api]}
    (issued,) = [row.data for row in stage.records(run_id) if row.type == "grant.issued"]
    (created,) = stage.data(run_id, "run.created")
    assert issued == grant.json
    assert created["grant_sha256"] == sha256_of(issued)


async def repository(worker: Any, run: Any) -> None:
    """Stores values of the given sizes."""
    for key, size in json.loads(run.request["context"]["input"]["text"]).items():
        await run.emit("state.updated", {"scope": "conversation", "key": key, "value": "x" * (size - len('""'))})
    await worker.complete(run, message={"role": "assistant", "content": "done"})


@pytest.mark.requirement("P06-14")
@pytest.mark.parametrize("over", [0, 1])
async def test_state_too_large_for_a_context_is_listed_by_its_keys(
    memory_store: MemoryStore, stages: Stages, over: int
) -> None:
    stage = await stages(memory_store, repository)
    sizes = {"a": 10, "b": limits.STATE_SNAPSHOT_BYTES - len("ab") - 10 + over}
    for text in (json.dumps(sizes), "{}"):
        await stage.read(await stage.say(text))

    contexts = [run.request["context"] for run in stage.pool.slots[0].worker.runs]
    first, second = (context["state"]["conversation"] for context in contexts)
    assert first == {}
    assert second == ({"a": None, "b": None} if over else {key: "x" * (size - 2) for key, size in sizes.items()})
    said = {"state_snapshot": {"conversation": {"keys_only": True, "more_keys": False}}} if over else None
    assert [context.get("metadata") for context in contexts] == [None, said]


@pytest.mark.requirement("P06-14")
async def test_the_state_of_all_scopes_has_a_total_limit(memory_store: MemoryStore, stages: Stages) -> None:
    """Each fits alone; the second one does not fit beside the first."""
    value = "x" * (limits.STATE_SNAPSHOT_BYTES * 2 // 3)

    async def repository(worker: Any, run: Any) -> None:
        for scope in ("actor", "conversation", "runner"):
            await run.emit(
                "state.updated", {"scope": scope, "key": "k", "value": "short" if scope == "runner" else value}
            )
        await worker.complete(run, message={"role": "assistant", "content": "done"})

    stage = await stages(memory_store, repository)
    stage.agent(policy=AgentPolicy(state=StatePolicy(scopes=("conversation", "actor", "runner"))))
    for _ in range(2):
        await stage.read(await stage.say("hello", actor_type="user", actor_id="ann"))

    context = stage.pool.slots[0].worker.runs[1].request["context"]
    assert context["state"] == {"actor": {"k": value}, "conversation": {"k": None}, "runner": {"k": "short"}}
    assert context["metadata"] == {"state_snapshot": {"conversation": {"keys_only": True, "more_keys": False}}}


@pytest.mark.requirement("P06-14")
@pytest.mark.parametrize("over", [0, 1])
async def test_keys_beyond_the_list_are_marked(memory_store: MemoryStore, stages: Stages, over: int) -> None:
    stage = await stages(memory_store, repository)
    sizes = {f"k{number:03}": 3 for number in range(limits.STATE_LIST_KEYS + over)}
    for text in (json.dumps(sizes), "{}"):
        await stage.read(await stage.say(text))

    context = stage.pool.slots[0].worker.runs[1].request["context"]
    told = list(sizes)[: limits.STATE_LIST_KEYS]
    assert context["state"]["conversation"] == dict.fromkeys(told, None if over else "x")
    said = {"state_snapshot": {"conversation": {"keys_only": True, "more_keys": True}}} if over else None
    assert context.get("metadata") == said
