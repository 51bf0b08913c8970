"""The gate of the run API: calls in flight, rate, size and time limits, and the records of calls."""

import asyncio
from typing import Any

import msgspec
import pytest
from tests.replacement import replace

from bollard.host.log.records import RunFacts
from bollard.host.runs.api_call import ConditionalAnswer
from bollard.protocol import HostInfo, limits

PATIENCE_S = 30


@pytest.mark.requirement("P06-11", "P06-10")
async def test_each_run_has_its_own_limit_of_calls_in_flight(memory_house: Any) -> None:
    house = memory_house
    run, neighbour = await house.begin(), await house.begin()
    info, opened, full = house.handlers["host.info"], asyncio.Event(), asyncio.Event()

    async def slow(asking: Any, params: Any) -> Any:
        if run.calls_in_flight == limits.CALLS_IN_FLIGHT:
            full.set()
        await opened.wait()
        return await info(asking, params)

    house.handlers["host.info"] = slow
    waiting = [asyncio.create_task(house.ask(run, "host.info")) for _ in range(limits.CALLS_IN_FLIGHT)]
    await full.wait()

    refused = await house.refusal(run, "state.list", scope="conversation")
    beside = await house.ask(neighbour, "state.list", scope="conversation")
    opened.set()
    answers = await asyncio.gather(*waiting)

    assert (refused.code, refused.message) == ("rate_limited", "32 calls are in flight already")
    assert beside["keys"] == []
    assert {answer["protocol"] for answer in answers} == {1}
    assert (await house.ask(run, "state.list", scope="conversation"))["keys"] == [], "there is room again"


@pytest.mark.requirement("P06-11", "P06-10")
async def test_a_run_has_a_burst_of_calls_and_then_its_rate(memory_house: Any) -> None:
    house = memory_house
    run, neighbour = await house.begin(), await house.begin()

    for _ in range(limits.CALLS_BURST):
        await house.ask(run, "host.info")
    refused = await house.refusal(run, "host.info")
    await house.ask(neighbour, "host.info")
    house.clock.advance(1)
    for _ in range(limits.CALLS_PER_S):
        await house.ask(run, "host.info")
    again = await house.refusal(run, "host.info")

    assert (refused.code, again.code) == ("rate_limited", "rate_limited")
    assert refused.details["retry_after_s"] == pytest.approx(1 / limits.CALLS_PER_S, abs=0.001)


@pytest.mark.requirement("P06-11", "P06-10")
async def test_the_rate_of_a_run_is_that_of_its_grant(memory_house: Any) -> None:
    house = memory_house
    run, neighbour = await house.begin(), await house.begin()
    run.grant = replace(run.grant, limits=msgspec.structs.replace(run.grant.limits, calls_per_s=4))

    for _ in range(8):  # twice as many at once, as for every run
        await house.ask(run, "host.info")
    refused = await house.refusal(run, "host.info")
    for _ in range(9):
        await house.ask(neighbour, "host.info")
    house.clock.advance(1)
    for _ in range(4):
        await house.ask(run, "host.info")
    again = await house.refusal(run, "host.info")

    assert (refused.code, refused.message) == ("rate_limited", "a run makes 4 calls a second")
    assert again.code == "rate_limited"


@pytest.mark.requirement("P06-10")
async def test_an_oversized_call_changes_nothing(memory_house: Any) -> None:
    run = await memory_house.begin()

    refused = await memory_house.refusal(run, "state.set", scope="conversation", key="k", value="x" * limits.CALL_BYTES)

    assert (refused.code, refused.message) == ("payload_too_large", f"the parameters are larger than {1 << 20} bytes")
    assert (await memory_house.ask(run, "state.list", scope="conversation"))["keys"] == []


@pytest.mark.requirement("P08-18", "P06-10")
async def test_a_run_past_its_deadline_gets_no_answer(memory_house: Any, make_agent: Any) -> None:
    run = await memory_house.begin(replace(make_agent(), deadline_s=1e-9))
    run.begin(lambda live: None)  # its time passes from here, and the timer that ends it has not fired

    refused = await memory_house.refusal(run, "state.set", scope="conversation", key="k", value=1)

    assert (refused.code, refused.message) == ("deadline_exceeded", "the run has no time left")
    other = await memory_house.begin()
    assert (await memory_house.ask(other, "state.list", scope="conversation"))["keys"] == []


@pytest.mark.requirement("P08-18")
async def test_a_call_that_exceeds_the_deadline_of_its_run_is_abandoned(memory_house: Any, make_agent: Any) -> None:
    run = await memory_house.begin(replace(make_agent(), deadline_s=0.01))
    stopped = asyncio.Event()

    async def endless(asking: Any, params: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    memory_house.handlers["host.info"] = endless

    async with asyncio.timeout(PATIENCE_S):
        refused = await memory_house.refusal(run, "host.info")

    assert (refused.code, stopped.is_set()) == ("deadline_exceeded", True)
    assert run.calls_in_flight == 0


@pytest.mark.requirement("P06-18")
async def test_every_call_is_in_the_log_with_its_resource_and_its_outcome(house: Any) -> None:
    run, other = await house.begin(), await house.begin(conversation="other")

    await house.ask(run, "state.set", scope="actor", key="k", value=1)
    await house.refusal(run, "artifacts.read", artifact_id="art_never")
    await house.refusal(run, "files.get", file_id="not-granted")
    await house.refusal(run, "events.page", limit=0)
    await house.refusal(run, "history.page", conversation_id="elsewhere")
    await house.refusal(run, "artifacts.append", upload_id="upl_never", offset=0, content_base64="")
    await house.refusal(run, "storage.get", area="plugin", key="settings/never")
    await house.refusal(run, "tools.detail", names=["tool:acme/never", "tool:acme/nor-this"])
    await house.refusal(run, "tools.detail", names=["x" * 100, "y" * 100])
    await house.refusal(run, "platform.request", action="message.send", target={"channel": "chat", "room": 7})
    await house.end(run)
    await house.end(other)

    def outcomes(of: Any, kind: str) -> list[tuple[Any, ...]]:
        names = ("action", "resource", "key", "outcome")
        return [tuple(data.get(name) for name in names) for data in house.records(of, kind)]

    assert outcomes(run, "api.called") == [
        ("state.set", "actor", "k", "ok"),
        ("artifacts.read", "art_never", None, "not_found"),
        ("artifacts.append", "upl_never", None, "not_found"),
        ("storage.get", "plugin", "settings/never", "not_found"),
    ]
    assert outcomes(run, "api.denied") == [
        ("files.get", "not-granted", None, "not_found"),
        ("events.page", None, None, "invalid_argument"),
        ("history.page", "elsewhere", None, "not_found"),
        ("tools.detail", "tool:acme/never, tool:acme/nor-this", None, "not_found"),
        ("tools.detail", f"{'x' * 100}, {'y' * 26}", None, "not_found"),
        ("platform.request", "message.send", None, "not_found"),
    ]
    assert [each.get("target") for each in house.records(run, "api.denied")][-2:] == [
        None,
        '{"channel":"chat","room":7}',
    ]
    assert outcomes(other, "api.called") == outcomes(other, "api.denied") == []
    (created,) = house.records(run, "run.created")
    facts = msgspec.convert(created, RunFacts)
    assert (facts.runner_id, facts.conversation, facts.actor_id) == ("plugin:acme/parrot/default", "room", "ann")


@pytest.mark.requirement("P06-11")
async def test_a_flood_leaves_its_first_call_and_its_count_in_the_log(memory_house: Any) -> None:
    house = memory_house
    run, brief = await house.begin(), await house.begin(conversation="brief")

    async def flood(of: Any, times: int) -> None:
        for _ in range(limits.CALLS_BURST):
            await house.ask(of, "host.info")
        for _ in range(times):
            await house.refusal(of, "state.list", scope="conversation")

    await flood(run, 5)
    house.clock.advance(1)
    await house.ask(run, "host.info")
    await house.end(run)
    await flood(brief, 3)
    await house.end(brief)

    first = {"action": "state.list", "outcome": "rate_limited", "resource": "conversation"}
    assert house.records(run, "api.denied") == [first, {"outcome": "rate_limited", "count": 5}]
    assert house.records(brief, "api.denied") == [first, {"outcome": "rate_limited", "count": 3}]


@pytest.mark.requirement("P06-11", "P06-12")
async def test_an_immediately_cancelled_call_frees_its_slot_and_leaves_a_record(memory_house: Any) -> None:
    house = memory_house
    run = await house.begin()

    for _ in range(limits.CALLS_IN_FLIGHT + 1):
        house.begin_call(run, "host.info").give_up()

    assert run.calls_in_flight == 0
    assert run.closing == set()
    await house.end(run)
    outcomes = [(data["action"], data["outcome"]) for data in house.records(run, "api.called")]
    assert outcomes == [("host.info", "cancelled")] * (limits.CALLS_IN_FLIGHT + 1)


async def test_a_call_with_an_oversized_answer_is_logged_with_the_error_of_the_runner(memory_house: Any) -> None:
    house = memory_house
    run = await house.begin()
    call = house.begin_call(run, "host.info")
    call.holds = 1
    with pytest.raises(Exception, match="the answer is too large"):
        await call.outcome
    await house.end(run)
    (record,) = [data for data in house.records(run, "api.called") if data["action"] == "host.info"]
    assert record["outcome"] == "payload_too_large"


async def test_an_unread_or_oversized_conditional_answer_is_taken_back(memory_house: Any) -> None:
    house = memory_house
    run, back = await house.begin(), list[str]()

    async def lend(asking: Any, params: Any) -> ConditionalAnswer:
        return ConditionalAnswer(HostInfo(host_version="1", protocol=1), lambda: back.append("it"))

    house.handlers["host.info"] = lend
    large = house.begin_call(run, "host.info")
    large.holds = 1
    with pytest.raises(Exception, match="the answer is too large"):
        await large.outcome
    assert (back, large.on_unread) == (["it"], None)
    call = house.begin_call(run, "host.info")
    await call.outcome
    assert back == ["it"], "it may have been read"
    call.on_unread()
    assert back == ["it", "it"]


async def test_a_call_cut_by_the_end_of_its_run_is_in_the_log(memory_house: Any) -> None:
    house = memory_house
    run, never = await house.begin(), asyncio.Event()

    async def slow(asking: Any, params: Any) -> Any:
        await never.wait()

    house.handlers["host.info"] = slow
    call = house.begin_call(run, "host.info")
    await house.end(run)
    call.give_up()

    outcomes = [(data["action"], data["outcome"]) for data in house.records(run, "api.called")]
    assert outcomes == [("host.info", "cancelled")]


@pytest.mark.requirement("P05-32")
async def test_a_call_waits_for_earlier_results(house: Any) -> None:
    run = await house.begin()
    info, found = house.handlers["host.info"], list[Any]()

    async def looks(asking: Any, params: Any) -> Any:
        found.append(house.store.state(run.grant.state_keys["conversation"], "k", house.clock.now_ms()))
        return await info(asking, params)

    house.handlers["host.info"] = looks
    house.result(run, "state.updated", {"scope": "conversation", "key": "k", "value": "just now"})
    await house.ask(run, "host.info")

    assert [row and row.value for row in found] == [b'"just now"']


@pytest.mark.requirement("P06-12", "P06-14")
@pytest.mark.parametrize(
    ("action", "params"),
    [
        ("history.page", {}),
        ("events.page", {}),
        ("state.list", {"scope": "conversation"}),
        ("storage.list", {"area": "plugin"}),
    ],
)
async def test_a_page_of_more_than_a_hundred_is_refused(memory_house: Any, action: str, params: Any) -> None:
    run = await memory_house.begin()

    refused = await memory_house.refusal(run, action, limit=limits.PAGE_ITEMS + 1, **params)

    assert (refused.code, refused.details["field"]) == ("invalid_argument", "limit")
    await memory_house.ask(run, action, limit=limits.PAGE_ITEMS, **params)
