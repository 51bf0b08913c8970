"""`ctx.api`: every action has its method, parameters are checked before they leave, answers have their shape."""

import base64
import hashlib
from array import array

import pytest

from bollard.protocol import ACTIONS, AgentAPIError, AgentInput, Message, limits
from bollard.sdk import AgentAPIException, RunApi, content_of
from bollard.sdk.errors import api_failure

pytestmark = pytest.mark.anyio

MESSAGE = {"role": "assistant", "content": "hello"}
BYTES = {"content_base64": "YWJj", "offset": 0, "size_bytes": 3, "has_more": False}
METADATA = {"artifact_id": "artifact-1", "artifact_type": "file", "source": "runner"}
SHA = "0" * 64
PAGE = {"items": [], "has_more": False}
ASK = [{"role": "user", "content": "hi"}]

# action → (the call, the parameters that must leave, the answer, what the caller must get)
ROWS = {
    "models.invoke": (
        lambda api: api.models.invoke("m", ASK, extra_args={"temperature": 0}),
        {"model_id": "m", "messages": ASK, "extra_args": {"temperature": 0}},
        MESSAGE,
        lambda got: got == Message(role="assistant", content="hello"),
    ),
    "models.rerank": (
        lambda api: api.models.rerank("m", "q", ["a", "b"], top_k=1),
        {"model_id": "m", "query": "q", "documents": ["a", "b"], "top_k": 1},
        {"results": [{"index": 1, "score": 0.5}]},
        lambda got: got[0].index == 1,
    ),
    "models.embed": (
        lambda api: api.models.embed("m", ["a"]),
        {"model_id": "m", "texts": ["a"]},
        {"vectors_base64": [base64.b64encode(array("f", [0.5, -2.0]).tobytes()).decode()], "dimensions": 2},
        lambda got: got == [[0.5, -2.0]],
    ),
    "tools.detail": (
        lambda api: api.tools.detail(["t"]),
        {"names": ["t"]},
        {"tools": [{"tool_name": "t", "input_schema": {}, "risk": "low", "definition_sha256": SHA}]},
        lambda got: got[0].tool_name == "t",
    ),
    "tools.call": (
        lambda api: api.tools.call("t", {"a": 1}, call_id="c"),
        {"name": "t", "parameters": {"a": 1}, "call_id": "c"},
        {"call_id": "c", "content": [{"type": "text", "text": "x"}]},
        lambda got: got.call_id == "c",
    ),
    "knowledge.list": (
        lambda api: api.knowledge.list(),
        {},
        {"knowledge_bases": [{"kb_id": "k"}]},
        lambda got: got[0].kb_id == "k",
    ),
    "knowledge.retrieve": (
        lambda api: api.knowledge.retrieve("k", "q", filters={"a": 1}),
        {"kb_id": "k", "query": "q", "top_k": 5, "filters": {"a": 1}},
        {"chunks": [{"chunk_id": "c", "kb_id": "k", "text": "t", "score": 1.0, "source": None}]},
        lambda got: got[0].text == "t",
    ),
    "history.page": (
        lambda api: api.history.page(before="c", limit=10),
        {"before": "c", "limit": 10, "direction": "backward", "include_artifacts": False},
        PAGE,
        lambda got: got.items == (),
    ),
    "history.search": (
        lambda api: api.history.search("q"),
        {"query": "q", "top_k": 10},
        {"items": [], "query": "q"},
        lambda got: got.query == "q",
    ),
    "events.get": (
        lambda api: api.events.get("e"),
        {"event_id": "e"},
        {"event_id": "e", "event_type": "x", "source": "s"},
        lambda got: got.event_id == "e",
    ),
    "events.page": (lambda api: api.events.page(), {"limit": 50}, PAGE, lambda got: not got.has_more),
    "steering.pull": (
        lambda api: api.steering.pull("one-at-a-time"),
        {"mode": "one-at-a-time"},
        {"items": []},
        lambda got: got.items == (),
    ),
    "artifacts.metadata": (
        lambda api: api.artifacts.metadata("a"),
        {"artifact_id": "a"},
        METADATA,
        lambda got: got.artifact_id == "artifact-1",
    ),
    "artifacts.read": (
        lambda api: api.artifacts.read("a", 1, 2),
        {"artifact_id": "a", "offset": 1, "length": 2},
        {"artifact_id": "a", "offset": 1, "content_base64": "YWI="},
        lambda got: content_of(got) == b"ab",
    ),
    "state.get": (
        lambda api: api.state.get("actor", "k"),
        {"scope": "actor", "key": "k"},
        {"value": None, "version": 2},
        lambda got: (got.value, got.version) == (None, 2),
    ),
    "state.set": (
        lambda api: api.state.set("actor", "k", None, if_version=0, ttl=5),
        {"scope": "actor", "key": "k", "value": None, "if_version": 0, "ttl": 5},
        {"version": 1},
        lambda got: got.version == 1,
    ),
    "state.delete": (
        lambda api: api.state.delete("actor", "k"),
        {"scope": "actor", "key": "k"},
        {"existed": True},
        lambda got: got.existed,
    ),
    "state.list": (
        lambda api: api.state.list("actor", "p"),
        {"scope": "actor", "prefix": "p", "limit": 100},
        {"keys": ["p1"]},
        lambda got: got.keys == ("p1",),
    ),
    "storage.get": (
        lambda api: api.storage.workspace.get("k", 0, 9),
        {"area": "workspace", "key": "k", "offset": 0, "length": 9},
        BYTES,
        lambda got: content_of(got) == b"abc",
    ),
    "storage.set": (
        lambda api: api.storage.plugin.set("k", b"abc"),
        {"area": "plugin", "key": "k", "content_base64": "YWJj"},
        {"existed": False},
        lambda got: got.existed is False,
    ),
    "storage.delete": (
        lambda api: api.storage.plugin.delete("k"),
        {"area": "plugin", "key": "k"},
        {},
        lambda got: got.existed is None,
    ),
    "storage.list": (
        lambda api: api.storage.plugin.list(),
        {"area": "plugin", "prefix": "", "limit": 100},
        {"keys": []},
        lambda got: got.keys == (),
    ),
    "files.get": (
        lambda api: api.files.get("f"),
        {"file_id": "f", "offset": 0, "length": limits.READ_BYTES_DEFAULT},
        BYTES,
        lambda got: content_of(got) == b"abc",
    ),
    "agents.call": (
        lambda api: api.agents.call("a", "hi"),
        {"agent_id": "a", "input": {"text": "hi", "contents": [], "attachments": []}},
        {"run_id": "r", "status": "completed", "messages": [MESSAGE]},
        lambda got: got.messages[0].content == "hello",
    ),
    "platform.request": (
        lambda api: api.platform.request("pin", {"id": "1"}, {}),
        {"action": "pin", "target": {"id": "1"}, "payload": {}},
        {"call_id": "c", "outcome": "done"},
        lambda got: got.outcome == "done",
    ),
    "host.info": (
        lambda api: api.host.info(),
        {},
        {"host_version": "1", "protocol": 1, "a_new_field": True},
        lambda got: got.protocol == 1,
    ),
    "host.prompt": (
        lambda api: api.host.prompt("prompt"),
        {"name": "prompt"},
        {"name": "prompt", "text": "Be brief.", "sha256": "0" * 64},
        lambda got: got.text == "Be brief.",
    ),
}


@pytest.mark.requirement("P06-08")
@pytest.mark.parametrize("action", ROWS)
async def test_a_method_sends_its_action_and_parses_its_answer(caller, action):
    call, params, answer, fits = ROWS[action]
    caller.answers[action] = answer
    got = await call(RunApi(caller))
    assert caller.asked == [(action, params)]
    ACTIONS[action].params.from_wire(params)
    assert fits(got)


@pytest.mark.requirement("P06-08")
def test_every_action_has_a_tested_method():
    elsewhere = {"models.stream", "artifacts.begin", "artifacts.append", "artifacts.finish"}
    assert set(ROWS) | elsewhere == set(ACTIONS)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda api: api.models.invoke("m", []), "messages"),
        (lambda api: api.models.invoke("m", [{"role": "robot"}]), "messages.0.role"),
        (lambda api: api.models.invoke(None, ASK), "model_id"),
        (lambda api: api.models.rerank("m", "q", ["d"] * 65), "documents"),
        (lambda api: api.tools.call("t", {"a": {1, 2}}), "parameters.a"),
        (lambda api: api.knowledge.retrieve("k", "q", top_k=0), "top_k"),
        (lambda api: api.history.page(limit=101), "limit"),
        (lambda api: api.history.page(direction="sideways"), "direction"),
        (lambda api: api.history.search("q", top_k=51), "top_k"),
        (lambda api: api.events.page(limit=-1), "limit"),
        (lambda api: api.steering.pull("some"), "mode"),
        (lambda api: api.artifacts.read("a", length=limits.READ_BYTES + 1), "length"),
        (lambda api: api.artifacts.read("a", offset=-1), "offset"),
        (lambda api: api.state.get("everywhere", "k"), "scope"),
        (lambda api: api.state.set("actor", "", 1), "key"),
        (lambda api: api.state.set("actor", "k", 1, ttl=0), "ttl"),
        (lambda api: api.storage.plugin.set("k", "text"), "content"),
        (lambda api: api.storage.plugin.get("k", length=0), "length"),
        (lambda api: api.agents.call("a", {"text": 3}), "input.text"),
        (lambda api: api.platform.request("pin", "target"), "target"),
    ],
)
async def test_a_wrong_argument_is_refused_by_field_before_the_request(caller, call, field):
    with pytest.raises(AgentAPIException) as caught:
        await call(RunApi(caller))
    assert caught.value.code == "invalid_argument"
    assert str(caught.value.error.details["field"]).startswith(field)
    assert field in str(caught.value)
    assert caller.asked == []


@pytest.mark.requirement("P07-04")
async def test_a_refusal_is_raised_with_all_its_fields(caller):
    error = AgentAPIError(code="rate_limited", message="slow down", retryable=True, details={"after_s": 3})
    caller.answers["host.info"] = AgentAPIException(error)
    with pytest.raises(AgentAPIException) as caught:
        await RunApi(caller).host.info()
    assert caught.value.error is error
    assert (caught.value.code, caught.value.retryable) == ("rate_limited", True)


async def test_an_invalid_answer_is_a_runtime_error_with_the_field(caller):
    caller.answers["host.info"] = {"host_version": "1"}
    with pytest.raises(AgentAPIException) as caught:
        await RunApi(caller).host.info()
    assert caught.value.code == "runtime_error"
    assert caught.value.error.details["field"] == "protocol"


async def test_a_stream_returns_its_chunks_in_order(caller):
    caller.answers["models.stream"] = [{"content": "a"}, {"content": "b", "finish_reason": "stop"}]
    chunks = [chunk async for chunk in RunApi(caller).models.stream("m", ASK)]
    assert [chunk.content for chunk in chunks] == ["a", "b"]
    assert caller.asked == [("models.stream", {"model_id": "m", "messages": ASK})]


async def test_an_abandoned_stream_is_cancelled(caller):
    caller.answers["models.stream"] = [{"content": "a"}, {"content": "b"}]
    stream = RunApi(caller).models.stream("m", ASK)
    assert (await anext(stream)).content == "a"
    await stream.aclose()
    assert caller.closed == ["models.stream"]


async def test_a_stream_ends_with_its_error_after_the_chunks_before_it(caller):
    caller.answers["models.stream"] = [{"content": "a"}, api_failure("budget_exceeded", "no tokens left")]
    stream = RunApi(caller).models.stream("m", ASK)
    assert (await anext(stream)).content == "a"
    with pytest.raises(AgentAPIException, match="budget_exceeded"):
        await anext(stream)


def test_a_wrong_argument_of_a_stream_is_raised_at_the_call(caller):
    with pytest.raises(AgentAPIException, match="messages"):
        RunApi(caller).models.stream("m", [])


async def test_a_vector_of_the_wrong_length_is_refused(caller):
    caller.answers["models.embed"] = {"vectors_base64": ["AAAA"], "dimensions": 2}
    with pytest.raises(AgentAPIException, match="3 bytes for 2 dimensions"):
        await RunApi(caller).models.embed("m", ["a"])


async def test_find_returns_none_for_absent_state(caller):
    caller.answers["state.get"] = api_failure("not_found", "no state k")
    assert await RunApi(caller).state.find("actor", "k") is None
    caller.answers["state.get"] = api_failure("unauthorized", "no state at all")
    with pytest.raises(AgentAPIException, match="unauthorized"):
        await RunApi(caller).state.find("actor", "k")


def serve(content: bytes):
    """Ranged reads of some content."""

    def read(params):
        piece = content[params["offset"] : params["offset"] + params["length"]]
        end = params["offset"] + len(piece)
        body = {
            "content_base64": base64.b64encode(piece).decode(),
            "offset": params["offset"],
            "size_bytes": len(content),
            "has_more": end < len(content),
        }
        return body | ({"artifact_id": "a"} if "artifact_id" in params else {})

    return read


async def test_whole_contents_are_read_range_by_range(caller):
    content = bytes(range(256)) * 2500
    caller.answers = dict.fromkeys(("artifacts.read", "storage.get", "files.get"), serve(content))
    api = RunApi(caller)
    assert b"".join([piece async for piece in api.artifacts.stream("a")]) == content
    assert await api.storage.plugin.read("k") == content
    assert await api.files.read("f") == content
    assert all(params["length"] == 256 * 1024 for _, params in caller.asked)


async def test_an_empty_content_is_read_as_no_bytes(caller):
    caller.answers["files.get"] = serve(b"")
    assert await RunApi(caller).files.read("f") == b""


async def test_a_host_without_progress_is_not_asked_for_ever(caller):
    caller.answers["files.get"] = {"content_base64": "", "offset": 0, "size_bytes": 9, "has_more": True}
    with pytest.raises(AgentAPIException, match="no bytes"):
        await RunApi(caller).files.read("f")


async def in_pieces(content: bytes, size: int):
    for start in range(0, len(content), size):
        yield content[start : start + size]


CONTENT = bytes(range(251)) * 2500


@pytest.mark.requirement("P06-09")
@pytest.mark.parametrize(
    "source",
    [
        lambda: CONTENT,
        lambda: bytearray(CONTENT),
        lambda: memoryview(CONTENT),
        lambda: [CONTENT[:10], CONTENT[10:]],
        lambda: in_pieces(CONTENT, 1000),
    ],
)
async def test_an_upload_is_sent_in_pieces_and_finished_with_its_digest(caller, source):
    received = bytearray()

    def append(params):
        piece = base64.b64decode(params["content_base64"])
        assert params["offset"] == len(received)
        assert len(piece) <= 256 * 1024
        received.extend(piece)
        return {"upload_id": "u", "offset": len(received)}

    caller.answers = {"artifacts.begin": {"upload_id": "u"}, "artifacts.append": append, "artifacts.finish": METADATA}
    kept = await RunApi(caller).artifacts.write("a.bin", "application/octet-stream", source())
    assert kept.artifact_id == "artifact-1"
    assert bytes(received) == CONTENT
    actions = [action for action, _ in caller.asked]
    assert actions == ["artifacts.begin", *["artifacts.append"] * 3, "artifacts.finish"]
    assert caller.asked[0][1] == {"name": "a.bin", "mime_type": "application/octet-stream", "artifact_type": "file"}
    assert caller.asked[-1][1] == {"upload_id": "u", "sha256": hashlib.sha256(CONTENT).hexdigest()}


@pytest.mark.parametrize("source", ["text", ["text"], 3])
async def test_an_upload_of_another_type_than_bytes_is_refused(caller, source):
    caller.answers = {"artifacts.begin": {"upload_id": "u"}}
    with pytest.raises(AgentAPIException) as caught:
        await RunApi(caller).artifacts.write("a", "text/plain", source)
    assert caught.value.code == "invalid_argument"
    assert caught.value.error.details["field"] == "stream"


async def test_a_child_agent_takes_a_complete_input(caller):
    caller.answers["agents.call"] = {"run_id": "r", "status": "failed", "code": "runner.error"}
    result = await RunApi(caller).agents.call("a", AgentInput(text="x"))
    assert (result.status, result.code) == ("failed", "runner.error")
