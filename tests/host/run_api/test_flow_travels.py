"""Flow bits are stored with the writes of a run and return with them: two runs together cannot do more than one may."""

import base64
import json
from typing import Any

import msgspec
import pytest
from tests.doubles.memory_source import MemorySource
from tests.new_events import new_event
from tests.replacement import replace

from bollard.host.agents.agent import AgentRegistry
from bollard.host.agents.policies import ResourceRule
from bollard.host.capabilities.capability import Capability, Flow
from bollard.host.capabilities.sources import CallOrder, CallResult, Sources
from bollard.host.clock import SystemClock
from bollard.host.events.steering import Claims, SteeringItem
from bollard.host.log.rebuild import rebuild
from bollard.host.log.records import DeliverTo
from bollard.host.recovery import Recovery
from bollard.host.runs.start_request import StartRequestBuilder
from bollard.host.store.queries import TranscriptQuery

PRIVATE, UNTRUSTED, OUT = 1, 2, 4


def tool(name: str, bits: int, **more: Any) -> Capability:
    fields: dict[str, Any] = {
        "id": f"tool:memory/{name}",
        "name": name,
        "kind": "tool",
        "description": name,
        "input_schema": {"type": "object"},
        "risk": "low",
        "flow": Flow.of_bits(bits),
        "source": "builtin",
        **more,
    }
    return Capability(**fields)


DIARY, SEND = tool("diary", PRIVATE), tool("send", OUT)


async def done(order: CallOrder) -> CallResult:
    return CallResult(content=({"type": "text", "text": f"did {order.capability.name}"},))


@pytest.fixture
def agent(house: Any, make_agent: Any) -> Any:
    """One that may read a diary and send."""
    house.offer(Sources([MemorySource([DIARY, SEND], done)]))
    plain = make_agent()
    added = {"tools": ResourceRule(add=(DIARY.id, SEND.id))}
    access = replace(plain.policy.access, resources={**plain.policy.access.resources, **added})
    return replace(plain, policy=replace(plain.policy, access=access))


async def writer(house: Any, agent: Any) -> Any:
    """A run of untrusted content, which has read private data, and has left it everywhere."""
    run = await house.begin(agent, trigger="webhook", event_type="order.placed", text="orders")
    assert run.flow == UNTRUSTED
    await house.ask(run, "tools.call", name="diary", parameters={})
    assert run.flow == PRIVATE | UNTRUSTED
    await house.say(run, "dear diary")
    await house.ask(run, "state.set", scope="conversation", key="note", value="dear diary")
    await house.ask(run, "storage.set", area="plugin", key="note", content_base64=base64.b64encode(b"dear").decode())
    content = base64.b64encode(b"dear diary").decode()
    house.result(run, "artifact.created", {"artifact_type": "file", "artifact_id": "a", "content_base64": content})
    house.result(run, "state.updated", {"scope": "runner", "key": "kept", "value": 1})
    assert await run.written()
    return run


READS = {
    "history.page": {},
    "history.search": {"query": "diary"},
    "state.get": {"scope": "conversation", "key": "note"},
    "state.list": {"scope": "runner"},
    "storage.get": {"area": "plugin", "key": "note"},
    "storage.list": {"area": "plugin", "prefix": "note"},
    "artifacts.metadata": {"artifact_id": "art_{}_a"},
    "artifacts.read": {"artifact_id": "art_{}_a"},
}


async def test_reading_the_traces_of_a_run_adds_its_flow(house: Any, agent: Any) -> None:
    first = await writer(house, agent)
    for action, params in READS.items():
        run = await house.begin(agent, trigger="scheduler", event_type="timer.fired", text=None)
        assert run.flow == 0
        await house.ask(run, action, **{name: value.format(first.facts.run_id) for name, value in params.items()})
        assert run.flow == PRIVATE | UNTRUSTED, action
        refused = await house.refusal(run, "tools.call", name="send", parameters={})
        assert refused.code == "capability_denied", action
        assert "has read private data and has read untrusted content" in refused.message
        assert await run.written()
        assert house.records(run, "api.called")[0]["flow"] == PRIVATE | UNTRUSTED, "the record says it"
        assert "flow" not in house.records(run, "api.called")[-1], "and once is enough"
        await house.end(run)
    other = await house.begin(agent, trigger="scheduler", event_type="timer.fired", conversation="elsewhere")
    await house.ask(other, "history.page")
    assert other.flow == 0
    await house.ask(other, "tools.call", name="send", parameters={})
    await house.end(other)
    await house.end(first)
    before = house.store.dump_projections()
    rebuild(house.store)
    assert house.store.dump_projections() == before


async def test_untrusted_content_is_distinguished_from_private_data(house: Any, agent: Any) -> None:
    outside = await house.begin(agent, trigger="platform", text="look here")
    run = await house.begin(agent, trigger="api", text="what did they say?")
    assert run.flow == 0
    await house.ask(run, "events.page")
    assert run.flow == UNTRUSTED
    await house.say(run, "they say look")
    query = TranscriptQuery(workspace="default", bot="bot", conversation="room", thread=None, limit=10)
    rows = {row.content: row.flow for row in house.store.transcript(query)}
    assert rows == {"look here": UNTRUSTED, "what did they say?": 0, "they say look": UNTRUSTED}
    await house.end(outside)
    await house.end(run)


async def test_a_lost_run_keeps_its_flow_on_its_messages(house: Any, agent: Any) -> None:
    await writer(house, agent)
    run = await house.begin(agent, trigger="api", text="go on")
    await house.ask(run, "history.page")
    house.result(run, "message.delta", {"chunk": {"role": "assistant", "content": "dear"}})
    assert await run.written()
    row = house.store.run(run.facts.run_id)
    recovery = Recovery(house.store, SystemClock(), AgentRegistry(), "i2")
    assert recovery.replay(row).flow == PRIVATE | UNTRUSTED
    said = [json.loads(record.data) for record in recovery.lost_entry(row, "host.lost").records]
    assert said[0] == {"message": {"role": "assistant", "content": "dear"}, "flow": PRIVATE | UNTRUSTED}
    run.cancel("cancelled")
    await run.done
    assert house.records(run, "message.completed")[0]["flow"] == PRIVATE | UNTRUSTED, "as by its own host"


async def test_a_steering_message_adds_its_flow_when_it_is_pulled(memory_house: Any) -> None:
    house = memory_house
    run = await house.begin(trigger="api")
    claims = Claims()
    event = new_event(source="chat", source_id="s1", event_type="message.received", trigger="platform", text="or else")
    item = SteeringItem(event_id="evt_s1", event=event, claimed_ms=0)
    claims.put(run.facts.run_id, item)
    assert run.note("steering.queued", {"event_id": "evt_s1"})
    assert run.flow == 0
    assert await claims.pull(run, 5) == [item]
    assert run.flow == UNTRUSTED
    assert house.records(run, "steering.injected") == [{"event_id": "evt_s1", "flow": UNTRUSTED}]
    await house.end(run)


async def test_the_start_context_of_a_run_counts_as_read(house: Any, agent: Any) -> None:
    await writer(house, agent)
    opening = StartRequestBuilder(house.store, house.clock, "1.2.3")
    for room, flow in (("room", PRIVATE | UNTRUSTED), ("elsewhere", PRIVATE | UNTRUSTED)):
        opened = await opening.read(house.queued(agent, trigger="api", conversation=room))
        assert opened.flow == flow, "the runner's own state is everywhere"
    other = replace(agent, agent_id="other")
    assert (await opening.read(house.queued(other, trigger="api", conversation="room"))).flow == 0


async def test_the_flow_of_a_tool_result_stays_with_its_stored_output(memory_house: Any, make_agent: Any) -> None:
    house, big = memory_house, tool("big", 0)

    async def much(order: CallOrder) -> CallResult:
        return CallResult(content=({"type": "text", "text": "x" * 200_000},), flow=Flow.of_bits(PRIVATE))

    house.offer(Sources([MemorySource([big], much)]))
    plain = make_agent()
    access = replace(plain.policy.access, resources={"tools": ResourceRule(add=(big.id,))})
    run = await house.begin(replace(plain, policy=replace(plain.policy, access=access)), trigger="webhook")
    answer = await house.ask(run, "tools.call", name="big", parameters={})
    assert await run.written()
    (kept,) = answer["artifact_refs"]
    assert house.store.artifact("default", kept["artifact_id"]).flow == PRIVATE | UNTRUSTED
    assert run.flow == PRIVATE | UNTRUSTED
    await house.end(run)


async def test_an_answer_to_the_reply_target_is_no_outgoing_flow(memory_house: Any, make_agent: Any) -> None:
    house = memory_house
    fields = {"type": "object", "properties": {"target": {"type": "string"}}}
    say = tool("message.send", OUT, id="channel:desk/message.send", kind="channel", input_schema=fields)
    house.offer(Sources([MemorySource([DIARY, say], done)]))
    plain = make_agent()
    added = {"tools": ResourceRule(add=(DIARY.id,))}
    access = replace(plain.policy.access, resources={**plain.policy.access.resources, **added})
    run = await house.begin(replace(plain, policy=replace(plain.policy, access=access)), trigger="webhook")
    run.facts = msgspec.structs.replace(run.facts, deliver_to=DeliverTo(channel="desk", target="ann"))
    await house.ask(run, "tools.call", name="diary", parameters={})
    answered = await house.ask(run, "platform.request", action="message.send")
    assert answered["outcome"] == "completed"
    assert run.flow == PRIVATE | UNTRUSTED
    for target in ({"channel": "desk", "target": "bob"}, {"channel": "desk", "target": ""}):
        refused = await house.refusal(run, "platform.request", action="message.send", target=target)
        assert refused.code == "capability_denied"
    await house.end(run)
