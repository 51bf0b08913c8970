"""The MCP gateway with the official client, over a real socket, in both groups of MCP versions."""

import json
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bollard.host.settings import Settings

pytestmark = pytest.mark.full


PROGRAM = Path(__file__).parent / "programs" / "mcp_client.py"
SERVER = Path(__file__).parents[1] / "mcp" / "programs" / "friendly.py"
PATIENCE_S = 120.0
ERAS = {"2026-07-28": "2026-07-28", "legacy": "2025-11-25"}
HARNESS = """
    from bollard.sdk import RunContext, runner

    @runner(
        name="default",
        label="Harness",
        permissions={
            "tools": ["detail", "call"],
            "history": ["page", "search"],
            "artifacts": ["metadata", "read", "write"],
        },
    )
    async def harness(ctx: RunContext):
        yield ctx.completed("a program outside does it")
"""
PERMISSIONS = {"tools": ["detail", "call"], "history": ["page", "search"], "artifacts": ["metadata", "read", "write"]}
GRANTED = ("tool:builtin/calculate", "tool:builtin/now", "mcp:friendly/steps")
NO_FLOW = {"reads_private": False, "brings_untrusted": False, "sends_out": False}
OWN = {
    *(f"bollard_history_{name}" for name in ("page", "search")),
    *(f"bollard_artifacts_{name}" for name in ("metadata", "read", "write")),
    *(f"bollard_state_{name}" for name in ("get", "set", "delete", "list")),
}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, plugin: Path) -> Settings:
    harness = tmp_path_factory.mktemp("plugins") / "harness.py"
    harness.write_text(textwrap.dedent(HARNESS), encoding="utf-8")
    return Settings(
        data=tmp_path_factory.mktemp("data"), plugins=(plugin, harness), builtin_plugins=False, port=0, grace_s=0.5
    )


@pytest.fixture(scope="module")
def gateway(api: Any) -> Any:
    api.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    assert api.put("/api/v1/mcp-servers/friendly", {"command": sys.executable, "args": [str(SERVER)]}).status == 201
    listed = {each["name"]: each for each in api.post("/api/v1/mcp-servers/friendly/refresh", {}).json["tools"]}
    yes = {"name": "steps", "definition_sha256": listed["steps"]["definition_sha256"], "risk": "low"}
    agreed = api.post("/api/v1/mcp-servers/friendly/consent", {"tools": [{**yes, "flow": NO_FLOW, "effects": "none"}]})
    assert agreed.status == 200, agreed.body
    access = {"permissions": PERMISSIONS, "resources": {"tools": {"add": [*GRANTED]}}}
    state = {"scopes": ["conversation"]}
    api.save_agent("harness", "harness/default", access=access, state=state)
    api.save_agent("asking", "harness/default", access=access, approval={"mode": "always"})
    return api


class Harness:
    """A run that a program outside executes, with its token for the gateway."""

    def __init__(self, api: Any, agent: str = "harness", **more: Any) -> None:
        self.api = api
        body = {"agent": agent, "input": {"text": "find the blue heron"}, "execution": "external", **more}
        made = api.post("/api/v1/runs", body).json
        self.run_id, self.run_token = made["run_id"], made["run_token"]
        issued = api.post(f"/api/v1/runs/{self.run_id}/mcp-token", token=self.run_token)
        assert issued.status == 201, issued.body
        self.token = issued.json["token"]

    def post(self, body: Any, token: str | None = None, **headers: str) -> Any:
        return self.api.post("/mcp/run", body, token=token or self.token, **headers)

    def call(self, tool: str, /, **arguments: Any) -> Any:
        """Without the official client, in the older era: the whole response message."""
        params = {"name": tool, "arguments": arguments}
        return self.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).json

    def tell(self, era: str, *steps: Any) -> list[Any]:
        return client(self.api, "/mcp/run", self.token, era, *steps)

    def end(self) -> None:
        done = {"message": {"role": "assistant", "content": "done"}}
        assert self.api.post(f"/api/v1/runs/{self.run_id}/finalize", done, token=self.run_token).status == 200


def client(api: Any, path: str, token: str, era: str, *steps: Any) -> list[Any]:
    """The results of the official client for these steps; the first is its protocol version."""
    told = {"MCP_URL": f"http://127.0.0.1:{api.port}{path}", "MCP_TOKEN": token, "MCP_MODE": era}
    ended = subprocess.run(
        [sys.executable, str(PROGRAM)],
        input=json.dumps(steps),
        env={**os.environ, **told},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    version, *answers = json.loads(ended.stdout)
    assert version == ERAS[era]
    return answers


def call(tool: str, /, meta: Any = None, **arguments: Any) -> dict[str, Any]:
    return {"do": "call", "name": tool, "arguments": arguments, "meta": meta}


def text_of(answer: Any) -> str:
    return "".join(block.get("text", "") for block in answer["content"])


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.smoke
def test_a_harness_uses_the_rights_of_its_run_through_the_official_client(
    gateway: Any, settings: Settings, era: str
) -> None:
    harness = Harness(gateway, conversation=f"room-{era}")
    repeated = {"bollard/call_id": "my-own-1"}
    written = call("bollard_artifacts_write", name="note.txt", text="kept by a harness")
    listed, sum_, again, steps, found, page, note, stored, value = harness.tell(
        era,
        {"do": "list"},
        call("calculate", repeated, expression="6 * 7"),
        call("calculate", repeated, expression="6 * 7"),
        call("steps"),
        call("bollard_history_search", query="heron"),
        call("bollard_history_page", limit=5),
        written,
        call("bollard_state_set", scope="conversation", key="bird", value={"name": "heron"}),
        call("bollard_state_get", scope="conversation", key="bird"),
    )
    assert {tool["name"] for tool in listed} == {"calculate", "now", "steps", *OWN}
    assert listed == sorted(listed, key=lambda tool: tool["name"])
    assert all(tool["inputSchema"]["type"] == "object" for tool in listed)
    assert (text_of(sum_), sum_["isError"]) == ("42", False)
    assert again["content"] == sum_["content"], "the same call again is answered by what was recorded"
    assert (text_of(steps), steps["progress"]) == ("done", [[1, 2, "half of it"]])
    assert "blue heron" in text_of(found)
    assert [item["role"] for item in page["structuredContent"]["items"]] == ["user"]
    artifact = note["structuredContent"]
    assert (artifact["name"], artifact["size_bytes"]) == ("note.txt", 17)
    assert stored["isError"] is False
    assert value["structuredContent"]["value"] == {"name": "heron"}
    harness.end()
    records = gateway.read(harness.run_id)
    started = [each.data["data"] for each in records if each.type == "action.started"]
    assert [each["capability"] for each in started] == ["tool:builtin/calculate", "mcp:friendly/steps"]
    assert all(each.data["observed"] for each in records if each.type.startswith("action."))
    issued = [each.data["data"]["purpose"] for each in records if each.type == "token.issued"]
    assert issued == ["external", "mcp-run"]
    assert harness.token not in str([each.data for each in records])
    kept = [path.read_bytes() for path in settings.data.rglob("*") if path.is_file()]
    assert any(harness.run_id.encode() in each for each in kept)
    assert not any(harness.token.encode() in each for each in kept), "the token itself is kept nowhere"


def test_an_ungranted_tool_is_unknown_and_wrong_arguments_are_a_tool_error(gateway: Any) -> None:
    harness = Harness(gateway)
    absent = harness.call("http_fetch", url="http://127.0.0.1/")["error"]
    assert (absent["code"], absent["message"]) == (-32602, "Unknown tool: http_fetch")
    wrong = harness.call("calculate", formula="1")["result"]
    assert wrong["isError"]
    assert text_of(wrong).startswith("invalid_argument: ")
    no_room = harness.call("bollard_state_get", scope="conversation", key="k")["error"]
    assert no_room["code"] == -32602, "a run without a conversation has no state of one, and no history"
    revoked = gateway.post(f"/api/v1/runs/{harness.run_id}/revoke", {"resources": {"tools": ["tool:builtin/now"]}})
    assert revoked.status == 200, revoked.body
    listed = harness.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).json["result"]["tools"]
    assert {tool["name"] for tool in listed} == {"calculate", "steps", *(name for name in OWN if "artifacts" in name)}
    taken = harness.call("now")["result"]
    assert (taken["isError"], taken["_meta"]["bollard/error"]["code"]) == (True, "revoked")
    harness.end()


def test_a_call_waits_for_the_approval_of_a_user(gateway: Any) -> None:
    harness = Harness(gateway, "asking")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(harness.call, "calculate", expression="1 + 1")
        page = gateway.until(
            "/api/v1/approvals?status=requested",
            lambda page: [each for each in page["items"] if each["run_id"] == harness.run_id],
        )
        (item,) = [each for each in page["items"] if each["run_id"] == harness.run_id]
        no = gateway.post(f"/api/v1/approvals/{item['approval_id']}/decide", token=harness.token)
        assert no.status == 401, "a token of the run approves nothing"
        yes = {"decision": "allow_once", "digest": item["digest"]}
        assert gateway.post(f"/api/v1/approvals/{item['approval_id']}/decide", yes).status == 200
        sum_ = asked.result(PATIENCE_S)["result"]
    assert (text_of(sum_), sum_["isError"]) == ("2", False)
    harness.end()


def test_a_call_ends_with_its_run(gateway: Any) -> None:
    harness = Harness(gateway, "asking")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(harness.call, "calculate", expression="1 + 1")
        gateway.until(f"/api/v1/runs/{harness.run_id}", lambda run: run["status"] == "waiting")
        harness.end()
        answer = asked.result(PATIENCE_S)["result"]
    assert (answer["isError"], answer["_meta"]["bollard/error"]["code"]) == (True, "cancelled")
    assert harness.post(PING).status == 401


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def test_a_gateway_token_opens_the_tools_of_its_run_only_while_it_is_valid(gateway: Any) -> None:
    harness, other = Harness(gateway), Harness(gateway)
    assert harness.post(PING).json == {"jsonrpc": "2.0", "id": 1, "result": {}}
    for path in ("/api/v1/runs", f"/api/v1/runs/{harness.run_id}", "/api/v1/agents"):
        assert gateway.get(path, token=harness.token).status == 401
    assert gateway.post("/mcp", PING, token=harness.token).status == 401
    for path in ("mcp-token", "results", "finalize"):
        assert gateway.post(f"/api/v1/runs/{harness.run_id}/{path}", {}, token=harness.token).status == 404
    for foreign in (harness.run_token, gateway.token, "blg_" + "0" * 43):
        refused = harness.post(PING, foreign)
        assert (refused.status, refused.error["code"]) == (401, "unauthenticated")
        assert refused.headers["www-authenticate"] == "Bearer"
    foreign = gateway.post(f"/api/v1/runs/{other.run_id}/mcp-token", token=harness.run_token)
    assert foreign.status == 404
    in_url = gateway.post(f"/mcp/run?token={harness.token}", PING, token=None)
    assert (in_url.status, harness.token in in_url.body.decode()) == (400, False)
    page = harness.post(PING, origin="https://attacker.example")
    assert (page.status, page.error["code"]) == (403, "forbidden_origin")
    assert gateway.get("/mcp/run", token=harness.token).status == 405
    harness.end()
    assert harness.post(PING).status == 401
    assert other.post(PING).status == 200
    late = gateway.post(f"/api/v1/runs/{harness.run_id}/mcp-token")
    assert (late.status, late.error["code"]) == (409, "conflict")
    other.end()


def test_new_tokens_of_a_run_replace_the_oldest(gateway: Any) -> None:
    harness = Harness(gateway)
    path = f"/api/v1/runs/{harness.run_id}/mcp-token"
    tokens = [harness.token, *(gateway.post(path, token=harness.run_token).json["token"] for _ in range(8))]
    assert [harness.post(PING, token).status for token in tokens] == [401, *[200] * 8]
    harness.end()


# --- agents as tools ---


@pytest.mark.parametrize("era", ERAS)
def test_an_agent_is_a_tool_for_an_external_client(gateway: Any, era: str) -> None:
    key = gateway.post("/api/v1/keys", {"name": "outside", "rights": ["runs.create"]}).json
    gateway.save_agent("shy", gate={"talk": "listed", "actors": ["user:nobody"]})
    wait = {**call("parrot", text="wait"), "leave": True}
    listed, said, failed, left, empty, absent = client(
        gateway,
        "/mcp",
        key["token"],
        era,
        {"do": "list"},
        call("parrot", text="hello out there", conversation=f"mcp-{era}"),
        call("parrot", text=" "),
        wait,
        call("parrot"),
        call("shy", text="hello"),
    )
    assert {"parrot", "harness"} <= {tool["name"] for tool in listed}
    assert "shy" not in {tool["name"] for tool in listed}
    assert (text_of(said), said["isError"]) == ("hello out there ", False)
    assert "".join(piece[2] for piece in said["progress"]) == "hello out there "
    assert [piece[0] for piece in said["progress"]] == [1, 2, 3]
    run = gateway.get(f"/api/v1/runs/{said['structuredContent']['run_id']}").json
    assert (run["status"], run["conversation_id"]) == ("completed", f"mcp-{era}")
    assert failed["isError"]
    assert "The run ended as " in text_of(failed)
    assert text_of(empty).startswith("invalid_argument: ")
    assert absent["code"] == -32602
    assert left == {"left": True, "progress": [[1, None, "waiting"]]}
    newest = gateway.get("/api/v1/runs?agent=parrot&limit=1").json["items"][0]["run_id"]
    assert gateway.ended(newest)["status"] == "cancelled", "a client that stops waiting cancels its run"


def test_a_repeated_message_gets_the_first_run_and_a_reader_may_not_talk(gateway: Any) -> None:
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "parrot", "arguments": {"text": "hi"}},
    }
    first, again = (gateway.post("/mcp", body, idempotency_key="mcp-once").json["result"] for _ in range(2))
    assert first["structuredContent"] == again["structuredContent"]
    assert text_of(again) == text_of(first) == "hi "
    reader = gateway.post("/api/v1/keys", {"name": "reader", "rights": ["runs.read"]}).json["token"]
    refused = gateway.post("/mcp", body, token=reader)
    assert (refused.status, refused.error["details"]["right"]) == (403, "runs.create")


def test_a_call_ends_with_its_key(gateway: Any) -> None:
    key = gateway.post("/api/v1/keys", {"name": "short", "rights": ["runs.create"]}).json
    params = {"name": "parrot", "arguments": {"text": "wait"}, "_meta": {"progressToken": "p"}}
    body = json.dumps({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params}).encode()
    accepted = {"accept": "application/json, text/event-stream"}
    connection, response = gateway._open("POST", "/mcp", body, accepted, key["token"])
    try:
        assert response.headers["content-type"] == "text/event-stream"
        assert response.readline() == b"event: message\n"
        note = json.loads(response.readline().removeprefix(b"data: "))
        assert (note["method"], note["params"]["message"]) == ("notifications/progress", "waiting")
        assert gateway.delete(f"/api/v1/keys/{key['key_id']}").status == 200
        last = [line for line in response.read().splitlines() if line.startswith(b"data: ")][-1]
        assert json.loads(last.removeprefix(b"data: "))["error"]["message"] == "the call was cancelled"
    finally:
        response.close()
        connection.close()
    newest = gateway.get("/api/v1/runs?agent=parrot&limit=1").json["items"][0]["run_id"]
    assert gateway.ended(newest)["status"] == "cancelled"
