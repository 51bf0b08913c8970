"""Every call of a model is in the books, over HTTP: a whole host, a worker, the knowledge process, and the provider."""

import asyncio
import re
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.host.http.conftest import Client, HostThread
from tests.host.models.provider import KEY, PATIENCE_S, Provider, events, provider, whole

from bollard.host.settings import Settings

READER = """
    from bollard.sdk import RunContext, runner

    @runner(name="default", label="Reader", permissions={"knowledge_bases": ["list", "retrieve"]})
    async def reader(ctx: RunContext):
        found = await ctx.api.knowledge.retrieve("harbour", ctx.input.text, top_k=2)
        yield ctx.completed(" | ".join(chunk.text for chunk in found))
"""
CALLS_A_DAY = 3
RANKED = whole({"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]})
HELLO = {"choices": [{"index": 0, "delta": {"content": "hello to you"}, "finish_reason": "stop"}]}
USED = {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}}


@pytest.fixture(scope="module")
def there() -> Iterator[Provider]:
    """The provider on a separate loop."""
    known: list[tuple[Provider, asyncio.AbstractEventLoop, asyncio.Event]] = []
    up = threading.Event()

    async def serve() -> None:
        async with provider() as it:
            over = asyncio.Event()
            known.append((it, asyncio.get_running_loop(), over))
            up.set()
            await over.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert up.wait(PATIENCE_S)
    ((it, loop, over),) = known
    yield it
    loop.call_soon_threadsafe(over.set)
    thread.join(PATIENCE_S)


@pytest.fixture(scope="module")
def api(there: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A host on which every workspace may make a few calls a day; it closes the connections to the provider first."""
    assert there.port
    plugin: Path = tmp_path_factory.mktemp("plugins") / "reader.py"
    plugin.write_text(textwrap.dedent(READER), encoding="utf-8")
    settings = Settings(
        data=tmp_path_factory.mktemp("data"),
        plugins=(plugin,),
        builtin_plugins=False,
        port=0,
        grace_s=0.5,
        egress_allow=("127.0.0.0/8",),
        calls_per_day=CALLS_A_DAY,
    )
    host = HostThread(settings)
    assert host.token is not None
    client = Client(host.port, host.token)
    client.until_health(lambda health: health["plugins"]["reader"]["status"] == "ready")
    yield client
    host.stop()


def saved(api: Client, there: Provider, model_id: str, style: str, **room: str) -> None:
    assert api.put("/api/v1/secrets/KEY", {"value": KEY}, **room).status in (200, 201)
    body = {"style": style, "base_url": f"http://127.0.0.1:{there.port}/v1", "model": "tiny", "secret": "KEY"}
    answer = api.put(f"/api/v1/models/{model_id}", {**body, "tries": 1, "price": {"input": 1e6, "output": 1e6}}, **room)
    assert answer.status == 201, answer.body


def harbour(api: Client, there: Provider) -> None:
    """A base of two documents that a model of the provider puts in order."""
    saved(api, there, "ranker", "rerank")
    assert api.put("/api/v1/knowledge/harbour", {"rerank_model": "ranker"}).status == 201
    for name, text in (("moor", "Ships moor at the north pier."), ("fee", "To moor there costs nine euros a day.")):
        path = f"/api/v1/knowledge/harbour/documents/{name}"
        assert api.put(path, {"name": name, "text": text, "mime_type": "text/plain"}).status == 202
        assert api.until(path, lambda found: found["status"] in ("ready", "failed"))["status"] == "ready"


def audited(api: Client, count: int, **room: str) -> list[Any]:
    """Calls of models outside of runs, once their records are written."""
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        answer = api.get("/api/v1/audit?type=model.called", **room).json
        found = [each for each in answer["items"] if "run_id" not in each]
        if len(found) >= count:
            return found
        assert time.monotonic() < give_up_at, answer


def test_a_rerank_for_a_run_is_charged_to_the_run_within_all_budgets(api: Client, there: Provider) -> None:
    harbour(api, there)
    access = {
        "permissions": {"knowledge_bases": ["list", "retrieve"]},
        "resources": {"knowledge_bases": {"add": ["harbour"]}},
    }
    api.save_agent("mate", "reader/default", access=access)
    there.say(RANKED)
    run_id = api.tell("mate", "where do ships moor").json["run_id"]
    run = api.ended(run_id)
    records = {event.type: event.data["data"] for event in api.read(run_id)}
    called = records["model.called"]
    assert (called["model_id"], called["operation"], called["status"]) == ("ranker", "rerank", "completed")
    assert called["cost"] == called["usage"]["total_tokens"] == run["usage"]["total_tokens"] > 0
    assert called["latency_ms"] > 0
    assert (run["usage"]["model_calls"], run["usage"]["cost"]) == (1, {"USD": called["cost"]})
    (asked,) = there.asked
    assert (asked.path, asked.headers["authorization"]) == ("/v1/rerank", f"Bearer {KEY}")
    documents = asked.body["documents"]
    assert records["message.completed"]["message"]["content"] == f"{documents[1]} | {documents[0]}"
    numbers = api.get("/metrics").body.decode()
    assert 'bollard_model_calls_total{model="ranker",operation="rerank",status="completed"} 1' in numbers
    assert re.search(r'bollard_model_cost_total\{model="ranker",currency="USD"\} \d', numbers)

    there.say(RANKED, RANKED)
    for _ in range(CALLS_A_DAY - 1):
        answer = api.post("/api/v1/knowledge/harbour/retrieve", {"query": "where do ships moor", "top_k": 2})
        assert [chunk["text"] for chunk in answer.json["chunks"]] == [documents[1], documents[0]]
    assert [each["actor"] for each in audited(api, CALLS_A_DAY - 1)] == ["knowledge"] * (CALLS_A_DAY - 1)
    run_id = api.tell("mate", "where do ships moor").json["run_id"]
    api.ended(run_id)
    records = {event.type: event.data["data"] for event in api.read(run_id)}
    assert (records["model.called"]["status"], records["model.called"]["reason"]) == ("refused", "budget_exceeded")
    assert records["message.completed"]["message"]["content"] == f"{documents[0]} | {documents[1]}"
    assert len(there.asked) == CALLS_A_DAY


def test_a_model_test_is_in_the_audit_and_charged_to_the_workspace(api: Client, there: Provider) -> None:
    room = {"bollard_workspace": "tight"}
    assert api.put("/api/v1/workspaces/tight", {}).status == 201
    saved(api, there, "small", "openai-chat", **room)
    there.asked.clear()
    there.say(*(whole_stream() for _ in range(CALLS_A_DAY)))
    tried = [api.post("/api/v1/models/small/test", **room).json for _ in range(CALLS_A_DAY + 1)]
    assert [each["ok"] for each in tried] == [True] * CALLS_A_DAY + [False]
    assert tried[0]["usage"]["total_tokens"] == 14
    assert (tried[-1]["reason"], len(there.asked)) == ("budget_exceeded", CALLS_A_DAY)
    found = audited(api, CALLS_A_DAY + 1, **room)
    assert sorted(each["outcome"] for each in found) == ["completed"] * CALLS_A_DAY + ["refused"]
    assert {each["actor"] for each in found} == {api.get("/api/v1/session").json["name"]}
    numbers = api.get("/metrics").body.decode()
    assert f'bollard_model_calls_total{{model="small",operation="stream",status="completed"}} {CALLS_A_DAY}' in numbers
    assert f'bollard_model_tokens_total{{model="small",direction="input"}} {11 * CALLS_A_DAY}' in numbers


def whole_stream() -> Any:
    return whole(events(HELLO, USED, "[DONE]"), content_type="text/event-stream")
