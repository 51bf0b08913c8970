"""F31, F32, F33, F49: a worker calls the run API for foreign resources. Only the connection identifies the caller."""

import asyncio
import json
from itertools import count, product

import pytest

from bollard.protocol import ACTIONS

PARAMS = {
    "models.invoke": {"model_id": "m", "messages": [{"role": "user", "content": "x"}]},
    "models.stream": {"model_id": "m", "messages": [{"role": "user", "content": "x"}]},
    "models.rerank": {"model_id": "m", "query": "x", "documents": ["x"]},
    "models.embed": {"model_id": "m", "texts": ["x"]},
    "tools.detail": {"names": ["t"]},
    "tools.call": {"name": "t", "parameters": {}},
    "knowledge.list": {},
    "knowledge.retrieve": {"kb_id": "k", "query": "x"},
    "history.page": {},
    "history.search": {"query": "x"},
    "events.get": {"event_id": "e"},
    "events.page": {},
    "steering.pull": {},
    "artifacts.metadata": {"artifact_id": "a"},
    "artifacts.read": {"artifact_id": "a"},
    "artifacts.begin": {"name": "n", "mime_type": "text/plain"},
    "artifacts.append": {"upload_id": "u", "offset": 0, "content_base64": "eA=="},
    "artifacts.finish": {"upload_id": "u", "sha256": "0" * 64},
    "state.get": {"scope": "conversation", "key": "k"},
    "state.set": {"scope": "conversation", "key": "k", "value": "poison"},
    "state.delete": {"scope": "conversation", "key": "k"},
    "state.list": {"scope": "conversation"},
    "storage.get": {"area": "plugin", "key": "k"},
    "storage.set": {"area": "plugin", "key": "k", "content_base64": "eA=="},
    "storage.delete": {"area": "plugin", "key": "k"},
    "storage.list": {"area": "plugin"},
    "files.get": {"file_id": "f"},
    "agents.call": {"agent_id": "scripted", "input": {"text": "x"}},
    "platform.request": {"action": "send"},
    "host.info": {},
    "host.prompt": {},
}
KINDS = ("another plugin's run", "a finished run", "a run that never was", "a run's id, almost")
FORGIVEN = 2
"""Calls for a run that is not the channel's which one channel may make: the third ends it."""
_NUMBERS = count()
IDENTITY = ("run_id", "plugin", "workspace", "actor_id", "agent")


def test_the_attacks_cover_every_action():
    assert set(PARAMS) == set(ACTIONS)


def _call(action, run_id=None, **more):
    call = {"action": action, "params": {**PARAMS[action], **more}}
    if run_id is not None:
        call["run_id"] = run_id
    return {**call, "stream_id": "s"} if ACTIONS[action].streamed else call


@pytest.fixture
async def evil_host(make_host, scripted, plugin_path):
    """Hosts with a number of malicious plugins beside a good one, each with its own connection."""

    async def start(number):
        command = str(plugin_path("malicious_api"))
        names = [f"evil{index}" for index in range(number)]
        host = make_host(scripted, commands={name: [command, "local", name] for name in names})
        await host.start()
        await host.ready("scripted", *names)
        return host

    return start


async def _say(host, agent, **data):
    """A run of the malicious plugin: its id, the answers that it got, and its records."""
    records = await host.client.run(agent, data, conversation=f"room of {agent}", actor={"id": "eve"})
    assert records[-1]["data"] == {"status": "completed"}, records[-1]
    said = [record["data"]["message"]["content"] for record in records if record["type"] == "message.completed"]
    return records[0]["run_id"], json.loads(said[0]), records


def _codes(answers):
    return [json.loads(answer).get("error", {}).get("data", {}).get("code", "ok") for answer in answers]


@pytest.mark.requirement("P06-10", "P07-07")
@pytest.mark.smoke
async def test_every_action_for_a_foreign_run_gets_the_same_bytes(evil_host):
    cells = list(product(ACTIONS, KINDS))
    pairs = [cells[first : first + FORGIVEN] for first in range(0, len(cells), FORGIVEN)]
    host = await evil_host(len(pairs))
    slow = {"deltas": 100_000, "pause_ms": 20}
    body = {"source": "t", "id": "victim", "type": "message.received", "agent": "scripted", "text": "go", "data": slow}
    victim = (await host.client.post("/api/v1/events", {**body, "conversation": "victim's"}))["run_id"]

    async def attack(name, pair):
        own, _, _ = await _say(host, name)
        ids = dict(zip(KINDS, (victim, own, f"run_{'0' * 27}", f"{victim} "), strict=True))
        _, answers, records = await _say(host, name, calls=[_call(action, ids[kind]) for action, kind in pair])
        assert not [record for record in records if record["type"].startswith("api.")], "it is not the run's own call"
        return answers

    attacks = (attack(f"evil{index}", pair) for index, pair in enumerate(pairs))
    answers = [answer for found in await asyncio.gather(*attacks) for answer in found]
    assert len(answers) == len(cells)
    assert len(set(answers)) == 1, set(answers)
    assert _codes(answers[:1]) == ["not_found"]
    before = await host.client.get(f"/api/v1/runs/{victim}")
    assert before["status"] == "running"
    await host.client.post(f"/api/v1/runs/{victim}/cancel", {})
    async with host.client.request("GET", f"/api/v1/runs/{victim}/stream") as stream:
        records = [json.loads(record.json) async for record in stream.events()]
    kinds = {record["type"] for record in records}
    assert not {kind for kind in kinds if kind.startswith(("api.", "state.", "artifact", "steering."))}, kinds


async def test_the_third_call_for_a_foreign_run_ends_only_that_worker(evil_host):
    host = await evil_host(1)
    calls = [_call("host.info", f"run_{number:027x}") for number in range(3)]
    records, good = await asyncio.gather(
        host.client.run("evil0", {"calls": calls}), host.client.run("scripted", {"deltas": 20, "pause_ms": 20})
    )
    assert records[-1]["data"]["code"] == "runner.crashed"
    assert good[-1]["data"] == {"status": "completed"}
    await host.until_plugin("evil0", "ready")
    assert (await _say(host, "evil0"))[1] == [], "another worker took its place"


async def test_frames_recorded_before_a_restart_are_refused_after_it(evil_host):
    host = await evil_host(2)
    finished, _, _ = await _say(host, "evil0", calls=[_call("host.info")])
    event = {"source": "t", "id": "1", "type": "message.received", "agent": "evil1", "text": "go"}
    lost = (await host.client.post("/api/v1/events", {**event, "data": {"never": True}}))["run_id"]
    async with host.awaiting("the run to be running"):
        while (await host.client.get(f"/api/v1/runs/{lost}"))["status"] != "running":  # noqa: ASYNC110 -- a process
            await asyncio.sleep(0.02)
    ledger = await _ledger(host, finished)
    await host.kill()
    await host.start()
    await host.ready("scripted", "evil0", "evil1")
    poison = {"message": {"role": "assistant", "content": "poison"}}
    answers = []
    for name, run_id in (("evil0", finished), ("evil1", lost)):
        result = {"run_id": run_id, "type": "message.completed", "data": poison, "sequence": 1}
        recorded = {"jsonrpc": "2.0", "method": "run/result", "params": result}
        _, found, _ = await _say(host, name, calls=[_call("host.info", run_id)], frames=[recorded])
        answers += found
    never = (await _say(host, "evil0"))[0]
    assert never not in (finished, lost)
    assert len(set(answers)) == 1
    assert _codes(answers) == ["not_found", "not_found"]
    assert await _ledger(host, finished) == ledger, "nothing was added to a run that has ended"
    records = await _ledger(host, lost)
    assert "poison" not in json.dumps(records)
    assert (records[-1]["type"], records[-1]["data"]["code"]) == ("run.ended", "host.lost")


async def _ledger(host, run_id):
    async with host.client.request("GET", f"/api/v1/runs/{run_id}/stream") as stream:
        return [json.loads(record.json) async for record in stream.events()]


@pytest.mark.requirement("P06-18")
async def test_an_identity_claimed_in_parameters_is_refused_for_every_action(evil_host):
    host = await evil_host(1)
    victim = (await host.client.run("scripted", {"deltas": 1}))[0]["run_id"]
    forged = [_forged(action, field, victim) for action in ACTIONS for field in IDENTITY]
    _, answers, records = await _say(host, "evil0", calls=forged)
    assert set(_codes(answers)) == {"invalid_argument"}
    outcomes = [record["data"]["outcome"] for record in records if record["type"] == "api.denied"]
    assert outcomes == ["invalid_argument"] * len(forged), "each attempt is in the log"


def _forged(action, field, value):
    call = _call(action)
    return {**call, "params": {**call["params"], field: value}}


async def test_an_envelope_that_claims_an_identity_is_refused_and_strikes_its_own_run(evil_host):
    host = await evil_host(1)
    forged = [{**_call("host.info"), field: "local/scripted"} for field in ("plugin", "workspace")]
    _, answers, records = await _say(host, "evil0", calls=[*forged, _call("host.info")])
    assert [json.loads(answer)["error"]["code"] for answer in answers[:2]] == [-32602, -32602]
    assert _codes(answers[2:]) == ["ok"]
    assert [record["data"]["strike"] for record in records if record["type"] == "result.rejected"] == [1, 2]


async def _hear(host, person, room, *calls, source="web"):
    """The answers that the plugin got in a run of an actor's message."""
    event = {"source": source, "type": "message.received", "agent": "evil0", "text": "go", "conversation": room}
    event |= {"id": f"e{next(_NUMBERS)}", "actor": {"id": person}, "data": {"calls": [*calls]}}
    run_id = (await host.client.post("/api/v1/events", event))["run_id"]
    async with host.awaiting(f"the end of a run for {person}"):
        records = await _ledger(host, run_id)
    (said,) = [record["data"]["message"]["content"] for record in records if record["type"] == "message.completed"]
    return run_id, json.loads(said)


@pytest.mark.requirement("P07-07")
async def test_the_state_of_another_users_run_is_not_found_byte_for_byte(evil_host):
    """One plugin, two users: state and history of a conversation are invisible in another, and the state of a user is
    invisible to another one in the same room (F49)."""
    host = await evil_host(1)
    own = [_call(f"state.{verb}", scope="actor") for verb in ("set", "get")]
    for room in ("eve's", "shared"):
        _, kept = await _hear(host, "eve", room, *own, _call("state.set"))
        assert _codes(kept) == ["ok", "ok", "ok"]
    reads = [_call("state.get"), _call("history.page", conversation_id="eve's"), _call("history.page")]
    _, theirs = await _hear(host, "ann", "ann's", *reads, _call("state.get", key="never was"))
    assert _codes(theirs) == ["not_found", "not_found", "ok", "not_found"]
    assert theirs[0] == theirs[3], "what another has and what nobody has get the same bytes"
    assert "eve's" not in theirs[2]
    assert "poison" not in json.dumps(theirs)

    persons = [_call("state.get", scope="actor", key=key) for key in ("k", "never was")]
    _, beside = await _hear(host, "ann", "shared", *persons, _call("state.list", scope="actor"))
    assert _codes(beside) == ["not_found", "not_found", "ok"]
    assert beside[0] == beside[1]
    assert json.loads(beside[2])["result"]["keys"] == []


async def test_a_purge_by_source_removes_only_the_state_of_the_poisoner(evil_host):
    host = await evil_host(1)
    good = [_call("state.set", scope=scope, key=f"{scope} of ann", value="good") for scope in ("conversation", "actor")]
    await _hear(host, "ann", "shared", *good, _call("state.set", key="won back"))
    bad = [_call("state.set"), _call("state.set", scope="actor"), _call("state.set", key="won back")]
    poisoner, _ = await _hear(host, "eve", "shared", *bad, source="guestbook")
    await _hear(host, "ann", "shared", _call("state.set", key="won back", value="good"))
    seen = [_call("state.get"), *(_call("state.get", key=key) for key in ("won back", "conversation of ann"))]
    seen.append(_call("state.get", scope="actor", key="actor of ann"))
    _, before = await _hear(host, "ann", "shared", *seen)
    assert ["poison" in answer for answer in before] == [True, False, False, False]

    path, wanted = "/api/v1/state/purge", {"source": "guestbook"}
    found = await host.client.post(path, {**wanted, "dry_run": True})
    assert (found["matched"], found["deleted"], found["unknown"]) == (2, 0, 0)
    assert sorted((item["scope"], item["key"]) for item in found["items"]) == [("actor", "k"), ("conversation", "k")]
    assert {item["run_id"] for item in found["items"]} == {poisoner}
    assert (await host.client.post(path, wanted))["deleted"] == 2
    _, after = await _hear(host, "ann", "shared", *seen)
    assert _codes(after) == ["not_found", "ok", "ok", "ok"]
    assert after[1:] == before[1:], "nothing of hers was touched"
    _, gone = await _hear(host, "eve", "shared", _call("state.get", scope="actor"))
    assert _codes(gone) == ["not_found"]
    await host.kill()
    await host.start()
    await host.ready("evil0")
    assert (await _hear(host, "ann", "shared", *seen))[1] == after
    assert (await host.client.post(path, wanted))["matched"] == 0


@pytest.mark.requirement("P06-11")
async def test_a_flood_of_calls_is_limited_and_leaves_few_records(evil_host):
    host = await evil_host(1)
    flood, good = await asyncio.gather(
        _say(host, "evil0", flood=6000), host.client.run("scripted", {"deltas": 40, "pause_ms": 5})
    )
    _, kinds, records = flood
    assert good[-1]["data"] == {"status": "completed"}
    assert sum(kinds.values()) == 6000
    assert set(kinds) == {"ok", "rate_limited"}
    assert kinds["rate_limited"] > kinds["ok"], kinds
    written = [record for record in records if record["type"].startswith("api.")]
    assert len(written) <= 3 * kinds["ok"] + 10, "what was refused is counted, not written one by one"
    denied = [record["data"] for record in written if record["type"] == "api.denied"]
    # Each wave of refusals has its first call, and where there were more, their number.
    waves = [data.get("count") for data in denied]
    counted = sum(1 if count is None else count - 1 for count in waves)
    assert counted == kinds["rate_limited"], "no refusal is missing in the log"
