"""Models over HTTP, and a whole run that asks one: host, worker process, and a provider on loopback."""

import json
import textwrap
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.doubles.proxy_server import proxy_server
from tests.replacement import replace
from tests.tables import for_each

from bollard.host.settings import Settings

KEY = "sk-0123456789-canary"
PATIENCE_S = 120.0
PLUGIN = """
    from contextlib import aclosing
    from typing import Annotated

    from pydantic import BaseModel
    from bollard.sdk import AgentAPIException, Form, RunContext, runner

    class Choice(BaseModel):
        model: Annotated[str, Form(type="llm-model-selector")] = ""

    @runner(name="default", label="Asker", permissions={"models": ["invoke", "stream"]})
    async def asker(ctx: RunContext[Choice]):
        messages = [{"role": "user", "content": ctx.input.text}]
        try:
            if ctx.input.text == "invoke":
                yield ctx.completed((await ctx.api.models.invoke(ctx.config.model, messages)).content)
                return
            async with aclosing(ctx.api.models.stream(ctx.config.model, messages)) as chunks:
                async for chunk in chunks:
                    if chunk.content:
                        yield ctx.delta(chunk.content)
        except AgentAPIException as refusal:
            error = refusal.error
            yield ctx.completed(f"{error.code} {error.details.get('reason')} {error.retryable}")
"""


class Provider(ThreadingHTTPServer):
    """Speaks as much of OpenAI's chat format as these tests need."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.status = 200
        self.held = threading.Event()
        self.holding = False
        self.hung_up = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Provider  # type: ignore[assignment]

    def do_POST(self) -> None:
        there = self.server
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        there.asked.append(body)
        there.keys.append(self.headers.get("authorization"))
        if there.status != 200:
            self._whole({"error": {"message": f"no, {KEY}", "type": "x"}}, there.status)
            return
        usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
        if not body.get("stream"):
            message = {"role": "assistant", "content": "as a whole"}
            self._whole({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        try:
            self._event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": "in "}}]})
            if there.holding:
                self._hold()
            self._event({"choices": [{"index": 0, "delta": {"content": "pieces"}}]})
            self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            self._event({"choices": [], "usage": usage})
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            there.hung_up.set()
        self.close_connection = True

    def _hold(self) -> None:
        """Until the client disconnects: then writing fails."""
        while not self.server.held.wait(0.01):
            self.wfile.write(b": still here\n\n")

    def _event(self, body: Any) -> None:
        self.wfile.write(b"data: " + json.dumps({"id": "c", "model": "tiny", **body}).encode() + b"\n\n")
        self.wfile.flush()

    def _whole(self, body: Any, status: int = 200) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the library's name
        del format, args


@pytest.fixture
def provider() -> Iterator[Provider]:
    there = Provider()
    thread = threading.Thread(target=there.serve_forever, daemon=True)
    thread.start()
    yield there
    there.held.set()
    there.shutdown()
    there.server_close()
    thread.join(PATIENCE_S)


@pytest.fixture(scope="module")
def asker(settings: Settings, tmp_path_factory: pytest.TempPathFactory, start_module_host: Any, client_of: Any) -> Any:
    """A host with a runner that passes its input to its model."""
    plugin: Path = tmp_path_factory.mktemp("plugins") / "asker.py"
    plugin.write_text(textwrap.dedent(PLUGIN), encoding="utf-8")
    host = start_module_host(replace(settings, plugins=(plugin,), tokens_per_day=1_000_000, cost_per_day=1000.0))
    client = client_of(host.port, host.token)
    client.until_health(lambda health: health["plugins"]["asker"]["status"] == "ready")
    client.put("/api/v1/secrets/KEY", {"value": KEY})
    return client


def saved(api: Any, provider: Provider, model_id: str, **more: Any) -> None:
    body = {"style": "openai-chat", "base_url": provider.url, "model": "tiny", "secret": "KEY", "tries": 1, **more}
    answer = api.put(f"/api/v1/models/{model_id}", body)
    assert answer.status in (200, 201), answer.body


def agent(api: Any, agent_id: str, model: str, **policy: Any) -> None:
    access = {"permissions": {"models": ["invoke", "stream"]}}
    api.save_agent(agent_id, "asker/default", {"model": model}, access=access, **policy)


def test_a_run_streams_a_model_and_its_usage_and_metrics_show_the_cost(asker: Any, provider: Provider) -> None:
    saved(asker, provider, "streamed", price={"input": 10.0, "output": 100.0})
    agent(asker, "talker", "streamed")
    run_id = asker.tell("talker", "hello").json["run_id"]
    run = asker.ended(run_id)
    assert run["status"] == "completed"
    assert run["usage"] == {
        "model_calls": 1,
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "total_tokens": 9,
        "estimated": False,
        "cost": {"USD": 0.00027},
    }
    records = {event.type: event.data["data"] for event in asker.read(run_id)}
    assert records["model.called"]["operation"] == "stream"
    assert records["model.called"]["cost"] == 0.00027
    assert records["message.completed"]["message"]["content"] == "in pieces"
    assert provider.asked[0]["messages"] == [{"role": "user", "content": "hello"}]
    assert provider.keys == [f"Bearer {KEY}"]
    numbers = asker.get("/metrics").body.decode()
    assert 'bollard_model_calls_total{model="streamed",operation="stream",status="completed"} 1' in numbers
    assert 'bollard_model_tokens_total{model="streamed",direction="input"} 7' in numbers
    assert 'bollard_model_cost_total{model="streamed",currency="USD"}' in numbers


def test_a_refusal_of_the_provider_reaches_the_runner_without_the_key(asker: Any, provider: Provider) -> None:
    saved(asker, provider, "refusing")
    agent(asker, "refused", "refusing")
    provider.status = 429
    run_id = asker.tell("refused", "invoke").json["run_id"]
    assert asker.ended(run_id)["status"] == "completed"
    events = asker.read(run_id)
    records = {event.type: event.data["data"] for event in events}
    assert records["message.completed"]["message"]["content"] == "rate_limited rate_limited True"
    assert (records["model.called"]["status"], records["model.called"]["reason"]) == ("failed", "rate_limited")
    assert KEY not in json.dumps([event.data for event in events])
    assert 'bollard_model_errors_total{reason="rate_limited"}' in asker.get("/metrics").body.decode()


def test_cancelling_a_run_during_an_answer_closes_the_provider_connection(asker: Any, provider: Provider) -> None:
    saved(asker, provider, "endless")
    agent(asker, "stopped", "endless")
    provider.holding = True
    run_id = asker.tell("stopped", "hello").json["run_id"]
    stream = asker.stream(run_id)
    stream.until("message.delta")
    assert asker.post(f"/api/v1/runs/{run_id}/cancel", {}).status in (200, 202)
    ended = stream.until("run.ended")
    stream.close()
    assert ended.data["data"]["status"] == "cancelled"
    assert provider.hung_up.wait(PATIENCE_S)
    (called,) = [each.data["data"] for each in asker.read(run_id) if each.type == "model.called"]
    assert (called["status"], called["estimated"]) == ("cancelled", True)


def test_the_model_named_default_is_the_default_model_of_the_workspace(asker: Any, provider: Provider) -> None:
    saved(asker, provider, "chosen", secret=None, default=True)
    agent(asker, "anybody", "default")
    run_id = asker.tell("anybody", "hello").json["run_id"]
    assert asker.ended(run_id)["status"] == "completed"
    (called,) = [each.data["data"] for each in asker.read(run_id) if each.type == "model.called"]
    assert (called["model_id"], called["alias_of"]) == ("default", "chosen")
    assert asker.delete("/api/v1/models/chosen").status == 200


def test_a_model_excluded_by_the_policy_does_not_exist_for_the_run(asker: Any, provider: Provider) -> None:
    saved(asker, provider, "cut")
    access = {"permissions": {"models": ["invoke", "stream"]}, "resources": {"models": {"only": ["other"]}}}
    asker.save_agent("cut", "asker/default", {"model": "cut"}, access=access)
    run_id = asker.tell("cut", "invoke").json["run_id"]
    asker.ended(run_id)
    records = {event.type: event.data["data"] for event in asker.read(run_id)}
    assert records["message.completed"]["message"]["content"].startswith("not_found")
    assert provider.asked == []


def test_a_model_with_its_own_proxy_reads_the_login_from_a_secret_and_notices_changes(
    asker: Any, provider: Provider
) -> None:
    with proxy_server(provider.server_address[1], login="ann:right") as proxy:
        asker.put("/api/v1/secrets/PROXY_LOGIN", {"value": "ann:wrong"})
        saved(asker, provider, "behind", secret=None, proxy=proxy.url("socks5"), proxy_secret="PROXY_LOGIN")
        tried = asker.post("/api/v1/models/behind/test").json
        assert (tried["ok"], tried["reason"]) == (False, "unreachable")
        assert "the proxy refused the login" in tried["message"]
        asker.put("/api/v1/secrets/PROXY_LOGIN", {"value": "ann:right"})
        assert asker.post("/api/v1/models/behind/test").json["ok"] is True
        assert proxy.logins == ["ann:wrong", "ann:right"]
        assert proxy.targets == [f"127.0.0.1:{provider.server_address[1]}"], "its own proxy is used for loopback too"
        asker.delete("/api/v1/secrets/PROXY_LOGIN")
        saved(asker, provider, "behind", secret=None, proxy=proxy.url("http"), proxy_secret="PROXY_LOGIN")
        assert "there is no secret PROXY_LOGIN" in asker.post("/api/v1/models/behind/test").json["message"]
    asker.delete("/api/v1/models/behind")


def test_models_are_saved_listed_changed_and_deleted_with_their_revisions(asker: Any, provider: Provider) -> None:
    path = "/api/v1/models/edited"
    body = {"style": "openai-chat", "base_url": provider.url, "model": "tiny"}
    first = asker.put(path, body)
    assert (first.status, first.headers["etag"], first.json["origin"]) == (201, '"1"', "saved")
    assert asker.get(path, if_none_match='"1"').status == 304
    assert asker.put(path, {**body, "vision": True}, if_match='"7"').status == 412
    assert asker.put(path, {**body, "vision": True, "revision": 7}).status == 409
    assert asker.put(path, {**body, "vision": True}, if_match='"1"').json["vision"] is True
    listed = {item["model_id"]: item for item in asker.get("/api/v1/models?limit=100").json["items"]}
    assert listed["edited"]["revision"] == 2
    assert listed["demo"]["origin"] == "builtin"
    (default,) = [item["model_id"] for item in listed.values() if item["is_default"]]
    page = asker.get("/api/v1/models?limit=1").json
    assert page["has_more"] is True
    assert asker.get(f"/api/v1/models?limit=1&cursor={page['next_cursor']}").status == 200
    assert asker.get("/api/v1/models/default").json["alias_of"] == default
    assert asker.delete(path, if_match='"1"').status == 412
    assert asker.delete(path).json == {"model_id": "edited", "deleted": True}
    assert asker.get(path).status == 404


@for_each(
    ("change", "field"),
    [
        ({"base_url": "ftp://example.org"}, "model.base_url"),
        ({"base_url": "http://example.org/v1"}, "model.base_url"),
        ({"base_url": "http://169.254.169.254/v1"}, "model.base_url"),
        ({"base_url": "https://user:word@example.org/v1"}, "model.base_url"),
        ({"base_url": ""}, "model.base_url"),
        ({"model": " "}, "model.model"),
        ({"proxy": "ftp://proxy.example"}, "model.proxy"),
        ({"proxy": "http://ann:word@proxy.example"}, "model.proxy"),
        ({"proxy": "http://10.0.0.1:3128"}, "model.proxy"),
        ({"proxy_secret": "LOGIN"}, "model.proxy_secret"),
        ({"style": "telepathy"}, "model.style"),
        ({"model_type": "rerank"}, "model.model_type"),
        ({"headers": {"X-Api-Token": "abc"}}, "model.headers.X-Api-Token"),
        ({"headers": {"Authorization": "Bearer abc"}}, "model.headers.Authorization"),
        ({"tries": 0}, "model.tries"),
        ({"price": {"input": -1}}, "model.price.input"),
        ({"colour": "red"}, "model.colour"),
    ],
)
def test_an_invalid_model_is_refused_by_its_field(asker: Any, change: Any, field: str) -> None:
    body = {"style": "openai-chat", "base_url": "https://example.org/v1", "model": "tiny", **change}
    answer = asker.put("/api/v1/models/wrong", body)
    assert (answer.status, answer.error["details"]["field"]) == (400, field)
    assert asker.get("/api/v1/models/wrong").status == 404


@pytest.mark.parametrize("model_id", ["demo", "default"])
def test_a_builtin_model_cannot_be_changed_or_deleted(asker: Any, model_id: str) -> None:
    assert asker.put(f"/api/v1/models/{model_id}", {"style": "demo"}).status == 409
    assert asker.delete(f"/api/v1/models/{model_id}").status == 409


def test_a_model_test_reports_the_answer_or_the_reason_of_its_failure(asker: Any, provider: Provider) -> None:
    saved(asker, provider, "tried")
    heard = asker.post("/api/v1/models/tried/test").json
    assert (heard["ok"], heard["words"], heard["usage"]["total_tokens"]) == (True, "in pieces", 9)
    assert heard["latency_ms"] >= heard["first_token_ms"] >= 0
    provider.status = 401
    failed = asker.post("/api/v1/models/tried/test")
    assert (failed.json["ok"], failed.json["reason"]) == (False, "unauthorized")
    assert failed.json["message"]
    assert KEY not in failed.body.decode()
    assert asker.post("/api/v1/models/nowhere/test").status == 404


def test_models_of_one_workspace_are_absent_from_another(asker: Any, provider: Provider) -> None:
    saved(asker, provider, "private")
    assert asker.put("/api/v1/workspaces/elsewhere", {}).status == 201
    there = asker.get("/api/v1/models?limit=100", bollard_workspace="elsewhere").json["items"]
    assert [item["model_id"] for item in there] == ["demo"]
    assert asker.get("/api/v1/models/private", bollard_workspace="elsewhere").status == 404


def test_saved_models_survive_a_restart(
    settings: Settings, provider: Provider, tmp_path: Path, start_host: Any, client_of: Any
) -> None:
    alone = replace(settings, data=tmp_path / "data", database="", plugins=(), builtin_plugins=False)
    host = start_host(alone)
    first = client_of(host.port, host.token)
    saved(first, provider, "kept", secret=None)
    token = host.token
    host.stop()
    again = client_of(start_host(replace(alone, default_model="kept")).port, token)
    assert again.get("/api/v1/models/kept").json["revision"] == 1
    assert again.get("/api/v1/models/default").json["alias_of"] == "kept"


def test_the_capabilities_of_an_agent_include_its_models_with_reasons(asker: Any) -> None:
    access = {"permissions": {"models": ["invoke", "stream"]}, "resources": {"models": {"add": ["demo"]}}}
    asker.save_agent("modelled", "asker/default", access=access)
    answer = asker.get("/api/v1/agents/modelled/capabilities")
    assert answer.status == 200, answer.body
    (model,) = [each for each in answer.json["items"] if each["id"] == "model:demo"]
    assert model["kind"] == "model"


def unsaved(provider: Any, **more: Any) -> dict[str, Any]:
    return {"style": "openai-chat", "base_url": provider.url, "model": "tiny", **more}


def test_an_unsaved_model_is_tested_with_a_key_that_is_not_stored(asker: Any, provider: Any) -> None:
    before = asker.get("/api/v1/models").json["items"], asker.get("/api/v1/secrets").json["items"]
    body = {"model": unsaved(provider), "key": "sk-never-stored-0001"}
    tried = asker.post("/api/v1/models/test", body).json
    assert (tried["model_id"], tried["ok"], tried["words"]) == ("unsaved", True, "in pieces")
    assert provider.keys == ["Bearer sk-never-stored-0001"]
    assert (asker.get("/api/v1/models").json["items"], asker.get("/api/v1/secrets").json["items"]) == before
    assert b"sk-never-stored-0001" not in asker.get("/api/v1/audit/export").body


def test_an_unsaved_model_without_a_key_uses_its_secret(asker: Any, provider: Any) -> None:
    assert asker.post("/api/v1/models/test", {"model": unsaved(provider, secret="KEY")}).json["ok"] is True
    assert provider.keys == [f"Bearer {KEY}"]
    provider.status = 401
    tried = asker.post("/api/v1/models/test", {"model": unsaved(provider), "key": "wrong-key-0001"}).json
    assert (tried["ok"], tried["reason"], tried["status"]) == (False, "unauthorized", 401)


def test_a_wrong_unsaved_model_is_refused(asker: Any) -> None:
    for body in (
        {},
        {"model": {"style": "telepathy", "model": "x"}},
        {"model": {"style": "demo", "model": "x"}, "k": 1},
    ):
        answer = asker.post("/api/v1/models/test", body)
        assert (answer.status, answer.error["code"]) == (400, "invalid_argument"), body


def test_known_providers_are_listed_and_no_model_takes_their_address(asker: Any) -> None:
    items = asker.get("/api/v1/models/presets?limit=100").json["items"]
    openai = next(each for each in items if each["preset_id"] == "openai")
    assert (openai["secret"], openai["base_url"]) == ("OPENAI_API_KEY", "https://api.openai.com/v1")
    assert any("secret" not in each for each in items)
    refused = asker.put("/api/v1/models/presets", {"style": "demo", "model": "demo"})
    assert (refused.status, refused.error["details"]["reason"]) == (409, "model_reserved")
