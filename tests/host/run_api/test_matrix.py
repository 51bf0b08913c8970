"""Foreign ids: the response equals, byte for byte, that for an id which never existed."""

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from bollard.host.grants.revocation import Revocation
from bollard.protocol import ACTIONS

SOMEBODY_ELSE: dict[str, dict[str, Any]] = {
    "a run of another conversation": {"conversation": "other"},
    "another bot in a conversation of the same name": {"bot": "second"},
    "another thread of the conversation": {"thread": "aside"},
    "a run without a conversation": {"conversation": None},
    "another plugin elsewhere": {"conversation": "other", "agent": {"plugin": "evil/parrot"}},
    "another workspace": {"agent": {"workspace": "second"}},
    "a run that has ended": {"conversation": "other", "ends": True},
}
ASKING: dict[str, Callable[[str], dict[str, Any]]] = {
    "events.get": lambda name: {"event_id": name},
    "history.page": lambda name: {"conversation_id": name},
    "artifacts.metadata": lambda name: {"artifact_id": name},
    "artifacts.read": lambda name: {"artifact_id": name},
    "artifacts.append": lambda name: {"upload_id": name, "offset": 0, "content_base64": ""},
    "artifacts.finish": lambda name: {"upload_id": name, "sha256": hashlib.sha256(b"").hexdigest()},
    "files.get": lambda name: {"file_id": name},
    "state.get": lambda name: {"scope": "conversation", "key": name},
    "storage.get": lambda name: {"area": "plugin", "key": name},
}
NEVER = {"history.page": "never-a-room", "events.get": "evt_never"}


async def _belongings(house: Any, run: Any, **place: Any) -> list[tuple[str, str]]:
    """Actions, each with something that a run has and that the action could name. `place` is where the run is."""
    begun = await house.ask(run, "artifacts.begin", name="a", mime_type="text/plain")
    upload = await house.ask(run, "artifacts.begin", name="a", mime_type="text/plain")
    content = base64.b64encode(b"secret").decode()
    await house.ask(run, "artifacts.append", upload_id=begun["upload_id"], offset=0, content_base64=content)
    made = await house.ask(
        run, "artifacts.finish", upload_id=begun["upload_id"], sha256=hashlib.sha256(b"secret").hexdigest()
    )
    await house.ask(run, "state.set", scope="runner", key="theirs", value="secret")
    if run.facts.conversation is not None:
        await house.ask(run, "state.set", scope="conversation", key="theirs", value="secret")
    house.put_artifact("theirs", b"secret", workspace=run.facts.workspace)
    steered, message = await house.steer(run, raw=house.raw(b"secret"), **place)
    artifacts = [made["artifact_id"], message.raw.artifact_id, house.event_of(run).raw.artifact_id]
    return [
        ("events.get", run.facts.event_id),
        ("events.get", steered),
        ("history.page", run.facts.conversation or ""),
        *(("artifacts.metadata", artifact) for artifact in artifacts),
        *(("artifacts.read", artifact) for artifact in artifacts),
        ("artifacts.append", upload["upload_id"]),
        ("artifacts.finish", upload["upload_id"]),
        ("files.get", "theirs"),
        ("state.get", "theirs"),
    ]


@pytest.mark.requirement("P07-07")
@pytest.mark.parametrize("who", SOMEBODY_ELSE)
async def test_a_resource_of_another_run_looks_absent(house: Any, make_agent: Any, who: str) -> None:
    somebody = dict(SOMEBODY_ELSE[who])
    of, ends = somebody.pop("agent", None), somebody.pop("ends", False)
    agent = None if of is None else make_agent(**of)
    other = await house.begin(agent, raw=house.raw(b"secret"), **somebody)
    theirs = await _belongings(house, other, of=agent, **somebody)
    if ends:
        await house.end(other)
    run = await house.begin()

    for action, name in theirs:
        if name == run.facts.conversation:
            continue  # it has a room of that name too: the history tests check its content
        refused = await house.refusal(run, action, **ASKING[action](name))
        never = await house.refusal(run, action, **ASKING[action](NEVER.get(action, "never")))
        assert refused.bytes == never.bytes, action
        assert refused.code == "not_found", action


async def test_a_run_reaches_all_its_own_resources(house: Any) -> None:
    """Or the refusals above would prove nothing."""
    run = await house.begin(raw=house.raw(b"secret"))
    theirs = await _belongings(house, run)
    house.put_artifact("manual", b"secret")

    for action, name in theirs:
        if action not in ("artifacts.append", "artifacts.finish", "files.get"):
            assert await house.ask(run, action, **ASKING[action](name)), (action, name)


@pytest.mark.requirement("P07-07", "P06-17")
async def test_another_plugin_in_the_conversation_reads_its_history_and_nothing_else(
    house: Any, make_agent: Any
) -> None:
    stranger = make_agent(plugin="evil/parrot")
    other = await house.begin(stranger, raw=house.raw(b"secret"))
    theirs = await _belongings(house, other, of=stranger)
    run = await house.begin()

    for action, name in theirs:
        if action.startswith(("events.", "history.")) or action in ("artifacts.metadata", "artifacts.read"):
            assert await house.ask(run, action, **ASKING[action](name)), (action, name)
            continue
        refused = await house.refusal(run, action, **ASKING[action](name))
        assert refused.bytes == (await house.refusal(run, action, **ASKING[action]("never"))).bytes, action


@pytest.mark.requirement("P06-17")
async def test_a_conversation_in_the_grant_opens_its_other_threads_to_every_reader(house: Any, make_agent: Any) -> None:
    other = await house.begin(raw=house.raw(b"secret"), thread="aside")
    theirs = await _belongings(house, other, thread="aside")
    foreign = await house.begin(raw=house.raw(b"secret"), thread="aside", bot="second")
    hidden = await _belongings(house, foreign, thread="aside", bot="second")
    run = await house.begin(make_agent(conversations=("room",)))
    readers = ("events.get", "artifacts.metadata", "artifacts.read")

    for action, name in theirs:
        if action in readers:
            assert await house.ask(run, action, **ASKING[action](name)), (action, name)
    for action, name in hidden:
        if action in readers:
            assert (await house.refusal(run, action, **ASKING[action](name))).code == "not_found", (action, name)
    run.revoked = Revocation(resources={"conversations": frozenset({"room"})})
    for action, name in theirs:
        if action in readers:
            assert (await house.refusal(run, action, **ASKING[action](name))).code == "not_found", (action, name)


@pytest.mark.requirement("P07-07", "P06-21")
async def test_the_storage_of_another_plugin_looks_absent(house: Any, make_agent: Any) -> None:
    other = await house.begin(make_agent(plugin="evil/parrot"))
    await house.ask(other, "storage.set", area="plugin", key="theirs", content_base64="")
    run = await house.begin()

    refused = await house.refusal(run, "storage.get", area="plugin", key="theirs")

    assert refused.bytes == (await house.refusal(run, "storage.get", area="plugin", key="never")).bytes


@pytest.mark.requirement("P07-07")
@pytest.mark.parametrize("name", ["", "\0", "a\0b", "'; --", "%", "x" * 10_000, "../../etc/passwd", "🦜"])
async def test_invalid_ids_look_absent(house: Any, name: str) -> None:
    run = await house.begin()

    for action, asking in ASKING.items():
        if action in ("state.get", "storage.get"):
            continue  # a key is not an id: its tests are there
        refused = await house.refusal(run, action, **asking(name))
        never = await house.refusal(run, action, **asking(NEVER.get(action, "never")))
        assert refused.bytes == never.bytes, action


@pytest.mark.requirement("P06-10")
async def test_an_ended_run_gets_one_answer_to_every_call(memory_house: Any) -> None:
    run = await memory_house.begin(raw=memory_house.raw(b"secret"))
    theirs = await _belongings(memory_house, run)
    await memory_house.end(run)

    refusals = [await memory_house.refusal(run, action, **ASKING[action](name)) for action, name in theirs]

    assert {refused.message for refused in refusals} == {"there is no such run"}


async def test_every_action_but_those_of_models_and_knowledge_is_answered(memory_house: Any) -> None:
    answered = {name for name in ACTIONS if name.partition(".")[0] not in ("models", "knowledge")}

    assert set(memory_house.handlers) == answered


async def test_the_host_info_has_version_protocol_and_limits(memory_house: Any) -> None:
    run = await memory_house.begin()

    info = await memory_house.ask(run, "host.info")

    assert (info["host_version"], info["protocol"]) == ("1.2.3", 1)
    assert info["limits"]["calls_in_flight"] == run.grant.limits.calls_in_flight
    assert info["limits"]["state_scope_bytes"] == 4 * 1024 * 1024


def test_the_matrix_covers_every_action_with_a_resource() -> None:
    """An action that is added must be looked at here too."""
    named = {"event_id", "conversation_id", "artifact_id", "upload_id", "file_id", "key"}
    writes = {"state.set", "state.delete", "storage.set", "storage.delete"}
    wanted = {name for name, action in ACTIONS.items() if named & set(action.params.model_fields)} - writes

    assert set(ASKING) == wanted
