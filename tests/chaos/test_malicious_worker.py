"""F07, F08, F25, F33, F37: a worker without the SDK. Each attack has the consequence of §5 and §11; all other runs
continue."""

import asyncio
import json

import pytest


@pytest.fixture
async def host(make_host, scripted, plugin_path):
    """A host with a malicious worker beside a good one."""
    host = make_host(scripted, commands={"evil": [str(plugin_path("malicious")), "local", "evil"]})
    await host.start()
    await host.ready("scripted", "evil")
    return host


def _of(records, kind):
    return [record["data"] for record in records if record["type"] == kind]


def _text(records):
    return "".join(data["chunk"]["content"] for data in _of(records, "message.delta"))


async def _violations(host, count):
    """The recorded violations of the malicious plugin by kind and run, once there are `count`."""
    async with host.awaiting("the records of violations"):
        while True:
            page = await host.client.get("/api/v1/audit?type=worker.violation")
            if len(page["items"]) >= count:
                break
    assert {item["subject"] for item in page["items"]} == {"local/evil"}
    return sorted((item["outcome"], item["run_id"]) for item in page["items"])


async def _attack(host, name, **data):
    """One attack, with a good run beside it: the ledger of the attack."""
    records, good = await asyncio.gather(
        host.client.run("evil", {"attack": name, **data}), host.client.run("scripted", {"deltas": 10})
    )
    assert good[-1]["data"] == {"status": "completed"}
    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert [record["type"] for record in records].count("run.ended") == 1
    assert records[-1]["type"] == "run.ended"
    return records


@pytest.mark.requirement("P05-18", "P05-29", "P05-30")
@pytest.mark.smoke
async def test_duplicate_late_and_unordered_results_are_dropped_refused_or_named(host):
    doubled = await _attack(host, "duplicates")
    assert _text(doubled) == "ac"
    assert doubled[-1]["data"]["status"] == "completed"

    shuffled = await _attack(host, "reordered")
    assert _text(shuffled) == "ad", "the host never waits to re-order"
    assert _of(shuffled, "result.gap") == [{"first": 2, "last": 3}]

    late = await _attack(host, "late")
    assert late[-1]["data"] == {"status": "completed"}, "the first terminal result wins"
    assert [data["reason"] for data in _of(late, "result.rejected")] == ["late", "late"]

    flood = await _attack(host, "late_flood")
    assert len(flood) < 1000, "late results take part in the window too"

    assert (await _attack(host, "answered_twice"))[-1]["data"] == {"status": "completed"}
    assert (await _attack(host, "without_terminal"))[-1]["data"]["code"] == "runner.protocol"
    assert (await _attack(host, "refused"))[-1]["data"]["code"] == "runner.protocol"


async def test_a_run_that_exceeds_its_window_or_calls_unknown_methods_is_ended(host):
    over = await _attack(host, "over_credit")
    assert over[-1]["data"]["code"] == "runner.protocol"
    assert len(over) < 4000
    invented = await _attack(host, "unknown_notes")
    assert invented[-1]["data"]["code"] == "runner.protocol"
    assert (await _attack(host, "fine"))[-1]["data"] == {"status": "completed"}, "the worker itself goes on"


async def test_unreadable_frames_strike_the_connection_and_the_third_ends_the_worker(host):
    first = ["junk", "deep", "duplicate_keys"]
    second = ["nan", "surrogate", "not_utf8"]
    third = ["huge_integer", "oversized"]
    for kinds in (first, second, third):
        for number, kind in enumerate(kinds, start=1):
            ledger = await _attack(host, "bad_frame", frame=kind)
            expected = {"status": "completed"} if number < 3 else "runner.crashed"
            assert ledger[-1]["data"] == expected or ledger[-1]["data"]["code"] == expected, kind
    assert (await _attack(host, "fine"))[-1]["data"] == {"status": "completed"}


@pytest.mark.requirement("P01-07", "P01-15", "P05-34", "P05-35")
async def test_forbidden_payloads_have_no_effect_and_a_reason(host):
    ledger = await _attack(host, "bad_payloads")
    assert ledger[-1]["data"] == {"status": "completed"}
    fields = [data.get("field") for data in _of(ledger, "result.rejected")]
    assert fields == ["scope", "scope", "artifact_type", "target", "run_id", None]
    assert _of(ledger, "result.rejected")[-1]["reason"] == "too_large"
    assert [data["type"] for data in _of(ledger, "result.unknown")] == ["approval.granted"]
    assert [data["message"]["content"] for data in _of(ledger, "message.completed")] == ["still here"]
    assert not _of(ledger, "state.updated")
    assert not _of(ledger, "artifact.created")


async def test_results_and_calls_for_the_run_of_another_plugin_change_nothing(host):
    slow = {"deltas": 40, "pause_ms": 20}
    body = {"agent": "scripted", "input": {"text": "go"}, "data": slow}
    async with host.client.request("POST", "/api/v1/runs", body, {"accept": "text/event-stream"}) as answer:
        victim = answer.headers["bollard-run-id"]
        ledger = await _attack(host, "foreign", victim=victim)
        assert ledger[-1]["data"] == {"status": "completed"}, "two strikes against the channel are forgiven"
        records = [json.loads(record.json) async for record in answer.events()]
    assert "poison" not in _text(records)
    assert records[-1]["data"] == {"status": "completed"}
    assert await _violations(host, 2) == [("foreign_call", victim), ("foreign_result", victim)]


@pytest.mark.requirement("P05-40", "P05-41", "P05-43")
async def test_a_jump_and_a_duplicate_with_other_content_are_recorded_and_repeats_are_counted(host):
    jump = await _attack(host, "jump")
    assert jump[-1]["data"] == {"status": "completed"}
    assert (_text(jump), _of(jump, "result.gap")) == ("a", [])
    assert [data["reason"] for data in _of(jump, "result.rejected")] == ["sequence"]
    doubled = await _attack(host, "double_flood")
    assert (_text(doubled), doubled[-1]["data"]) == ("a", {"status": "completed"})
    assert len(doubled) < 10
    assert [kind for kind, _ in await _violations(host, 2)] == ["duplicate", "sequence"]
    async with host.client.request("GET", "/metrics") as answer:
        metrics = b"".join([part async for part in answer.body()])
    assert b'bollard_worker_violations_total{plugin="local/evil",kind="duplicate"} 5000' in metrics


@pytest.mark.requirement("P08-14", "P11-55")
async def test_a_worker_that_never_answers_loses_its_run_after_the_grace(host):
    event = {"source": "t", "id": "1", "type": "message.received", "agent": "evil", "data": {"attack": "never"}}
    run_id = (await host.client.post("/api/v1/events", event))["run_id"]
    await host.client.post(f"/api/v1/runs/{run_id}/cancel", {})
    async with (
        host.awaiting("the end of the run"),
        host.client.request("GET", f"/api/v1/runs/{run_id}/stream") as answer,
    ):
        records = [record async for record in answer.events()]
    assert b'"status":"cancelled"' in records[-1].json
    assert (await _attack(host, "fine"))[-1]["data"] == {"status": "completed"}, "another worker took its place"


@pytest.mark.requirement("P02-18")
@pytest.mark.parametrize("author", ["local", "stranger"])
async def test_a_worker_with_the_name_of_another_plugin_gets_none_of_its_runs(make_host, scripted, plugin_path, author):
    host = make_host(scripted, commands={"forger": [str(plugin_path("malicious")), author, "scripted"]})
    await host.start()
    await host.ready("scripted")
    await host.until_plugin("forger", "ready")
    for _ in range(3):
        records = await host.client.run("scripted", {"deltas": 2, "attack": "duplicates", "artifact": True})
        assert _text(records) == "0 1 ", "the plugin that owns the name ran it"
        assert _of(records, "artifact.created"), "with its own permissions"
