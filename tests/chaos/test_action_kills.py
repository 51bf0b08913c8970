"""F01 for calls: the host is killed while a run makes a call. The call was made once, and the next start records its
outcome as unknown."""

import pytest

from bollard.host.log.rebuild import rebuild


@pytest.fixture
async def host(make_host, plugin_path):
    host = make_host(plugin_path("doer"))
    await host.start()
    await host.ready("doer")
    return host


async def _granted(host):
    """An agent that may call the tool of its plugin."""
    access = {"permissions": {"tools": ["detail", "call"]}, "resources": {"tools": {"add": ["tool:local/doer/mark"]}}}
    body = {"runner_id": "plugin:local/doer/default", "policy": {"access": access}}
    async with host.client.request("PUT", "/api/v1/agents/marker", body) as answer:
        assert answer.status in (200, 201), await answer.json()


async def _under_way(host, path):
    """A run whose call is on disk and has left its mark; its id."""
    body = {"agent": "marker", "input": {"text": "go"}, "data": {"path": str(path)}}
    async with host.client.request("POST", "/api/v1/runs", body, {"accept": "text/event-stream"}) as answer:
        async for record in answer.events():
            if record.type == "action.started":
                break
            assert record.type != "run.ended", record.json
        while not (path.exists() and path.read_text()):
            await host.health()
        return answer.headers["bollard-run-id"]


@pytest.mark.smoke
async def test_a_call_of_a_killed_host_happened_once_and_its_outcome_is_unknown(host, tmp_path, repeats):
    await _granted(host)
    for number in range(repeats):
        path = tmp_path / f"mark{number}"
        async with host.awaiting("the call to be under way"):
            run_id = await _under_way(host, path)
        await host.kill()
        await host.start()
        async with (
            host.awaiting("the end of the run whose host was killed"),
            host.client.request("GET", f"/api/v1/runs/{run_id}/stream") as answer,
        ):
            kinds = [record.type async for record in answer.events()]
        assert kinds[-1] == "run.ended"
        assert [kind for kind in kinds if kind.startswith("action.")] == ["action.started", "action.unknown"]
        (call,) = (await host.client.get(f"/api/v1/runs/{run_id}/calls"))["items"]
        assert (call["call_id"], call["status"], call["code"]) == ("once", "unknown", "outcome_unknown")
        assert path.read_text() == "done\n", "nobody did it again"
        await host.ready("marker")
    await host.kill()
    store = host.open_store()
    before = store.dump_projections()
    rebuild(store)
    assert store.dump_projections() == before
    assert len(before["tool_calls"]) == repeats
    store.close()
