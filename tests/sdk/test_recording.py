"""Recordings: a run is written down, and its runner runs again without the host."""

import json

import pytest
from pydantic import BaseModel, SecretStr

from bollard.protocol import Message
from bollard.sdk import AgentAPIException, RunContext, runner
from bollard.sdk.errors import api_failure
from bollard.sdk.testing import MemoryHost, Recording, RecordingError, ReplayMismatch, ScriptedModel, record, replay

pytestmark = pytest.mark.anyio

ASK = [Message(role="user", content="hi")]
PERMISSIONS = {"models": ["invoke", "stream"], "history": ["page"]}


class Config(BaseModel):
    key: SecretStr = SecretStr("")
    question: str = "hi"


@runner(permissions=PERMISSIONS)
async def talker(ctx: RunContext[Config]):
    page = await ctx.api.history.page(limit=5)
    yield f"{len(page.items)} messages; "
    try:
        await ctx.api.state.get("actor", "absent")
    except AgentAPIException as error:
        yield f"{error.code}; "
    answer = await ctx.api.models.invoke("m", [Message(role="user", content=ctx.config.question)])
    yield f"{answer.content}; "
    async for chunk in ctx.api.models.stream("m", ASK):
        yield f"{chunk.content}"


@pytest.fixture
async def recorded(tmp_path):
    path = tmp_path / "run.jsonl"
    host = MemoryHost(models={"m": ScriptedModel(["whole", ["p", "q"]])}, history=["a", "b"])
    outcome = await host.run(talker, "hi", config={"key": "hunter2"}, record=path)
    assert outcome.text == "3 messages; not_found; whole; pq"
    return path


async def test_a_recording_replays_to_the_same_results(recorded):
    outcome = await replay(talker, recorded)
    assert outcome.text == "3 messages; not_found; whole; pq"
    assert list(outcome.results) == Recording.load(recorded).results
    assert outcome.status == "completed"


async def test_a_recording_is_json_lines_in_starting_order(recorded):
    lines = [json.loads(line) for line in recorded.read_text(encoding="utf-8").splitlines()]
    assert [line["kind"] for line in lines if line["kind"] != "result"] == ["context", "call", "call", "call", "stream"]
    assert next(line["action"] for line in lines if "action" in line) == "history.page"
    assert [chunk["content"] for chunk in lines[-4]["chunks"]] == ["p", "q"]


async def test_secret_settings_are_not_recorded(recorded):
    assert "hunter2" not in recorded.read_text(encoding="utf-8")


async def test_a_differing_call_is_reported_with_its_position(recorded):
    @runner(permissions=PERMISSIONS)
    async def changed(ctx: RunContext[Config]):
        await ctx.api.history.page(limit=6)
        yield "x"

    with pytest.raises(ReplayMismatch) as caught:
        await replay(changed, recorded)
    assert caught.value.position == 1
    assert '"limit": 5' in str(caught.value.expected)
    assert '"limit": 6' in str(caught.value.got)


async def test_a_mismatch_is_raised_even_if_the_runner_swallows_it(recorded):
    @runner(permissions=PERMISSIONS)
    async def hides(ctx: RunContext[Config]):
        try:
            await ctx.api.history.page(limit=6)
        except Exception:
            yield "never mind"

    with pytest.raises(ReplayMismatch):
        await replay(hides, recorded)


async def test_a_missing_call_is_reported(recorded):
    @runner(permissions=PERMISSIONS)
    async def short(ctx: RunContext[Config]):
        await ctx.api.history.page(limit=5)
        yield "x"

    with pytest.raises(ReplayMismatch) as caught:
        await replay(short, recorded)
    assert (caught.value.position, caught.value.got) == (2, None)
    assert "state.get" in str(caught.value.expected)


async def test_an_extra_call_is_reported(tmp_path):
    @runner()
    async def quiet(ctx: RunContext):
        yield "x"

    @runner()
    async def curious(ctx: RunContext):
        await ctx.api.host.info()
        yield "x"

    path = tmp_path / "run.jsonl"
    await MemoryHost().run(quiet, "hi", record=path)
    with pytest.raises(ReplayMismatch) as caught:
        await replay(curious, path)
    assert (caught.value.expected, caught.value.position) == (None, 1)


async def test_a_broken_stream_breaks_again_at_the_same_position(tmp_path):
    @runner(permissions=PERMISSIONS)
    async def streams(ctx: RunContext):
        try:
            async for chunk in ctx.api.models.stream("m", ASK):
                yield f"{chunk.content}"
        except AgentAPIException as error:
            yield error.code

    path = tmp_path / "run.jsonl"
    model = ScriptedModel([["a", api_failure("budget_exceeded", "x")]])
    first = await MemoryHost(models={"m": model}).run(streams, "hi", record=path)
    assert first.text == "abudget_exceeded"
    assert (await replay(streams, path)).text == first.text


async def test_any_caller_can_be_recorded(caller, raw):
    caller.answers = {"host.info": {"host_version": "1", "protocol": 1}, "models.stream": [{"content": "a"}]}
    recording = Recording.begin(raw)
    ctx = RunContext(raw, record(caller, recording), {})
    await ctx.api.host.info()
    assert [chunk.content async for chunk in ctx.api.models.stream("m", ASK)] == ["a"]
    assert [(entry["kind"], entry["action"]) for entry in recording.entries] == [
        ("call", "host.info"),
        ("stream", "models.stream"),
    ]
    assert recording.entries[0]["answer"] == {"host_version": "1", "protocol": 1}


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("", 1, "empty"),
        ("not json\n", 1, "not JSON"),
        ("[]\n", 1, "object"),
        ('{"kind": "call", "action": "a", "params": {}}\n', 1, "does not belong"),
        ('{"kind": "context", "context": {"run_id": 3}}\n', 1, "run_id"),
        ('{"kind": "context"}\n', 1, "context: is missing"),
        ('{"kind": "context", "context": CONTEXT}\n{"kind": "dance"}\n', 2, "does not belong"),
        ('{"kind": "context", "context": CONTEXT}\n{"kind": "call", "action": "a"}\n', 2, "params: is missing"),
    ],
)
def test_an_invalid_recording_is_refused_by_line(tmp_path, raw, text, line, problem):
    path = tmp_path / "bad.jsonl"
    path.write_text(text.replace("CONTEXT", json.dumps(raw.to_wire())), encoding="utf-8")
    with pytest.raises(RecordingError) as caught:
        Recording.load(path)
    assert caught.value.line == line
    assert problem in caught.value.problem
