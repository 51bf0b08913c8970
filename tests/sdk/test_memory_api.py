"""The run API of the in-memory host: scripts, permissions and caps, through the same calls a runner makes."""

import asyncio

import pytest

from bollard.protocol import (
    AgentAPIError,
    AgentEventRecord,
    ChildRunResult,
    KnowledgeChunk,
    Message,
    ToolCallContext,
    limits,
)
from bollard.sdk import AgentAPIException, RunApi, RunContext, ToolContext, content_of, runner, tool
from bollard.sdk.errors import api_failure
from bollard.sdk.testing import ManualClock, MemoryHost, ScriptedModel, Steer, tool_calls

pytestmark = pytest.mark.anyio

ASK = [Message(role="user", content="hi")]
EVERYTHING = {
    "models": ["invoke", "stream", "rerank", "embed"],
    "tools": ["detail", "call"],
    "knowledge_bases": ["list", "retrieve"],
    "history": ["page", "search"],
    "events": ["get", "page"],
    "artifacts": ["metadata", "read", "write"],
    "storage": ["plugin", "workspace"],
    "files": ["config", "knowledge"],
    "agents": ["call"],
    "platform": ["request"],
}


@pytest.fixture
def inside():
    """Run some code as a runner, and raise its exception."""

    async def go(host: MemoryHost, code, *, permissions=EVERYTHING, capabilities=(), **options):
        raised: list[BaseException] = []

        @runner(permissions=permissions, capabilities=capabilities)
        async def probe(ctx: RunContext):
            try:
                await code(ctx.api)
            except BaseException as error:
                raised.append(error)
                raise
            yield "done"

        outcome = await host.run(probe, "hi", **options)
        if raised:
            raise raised[0]
        return outcome

    return go


async def refused(call, code: str) -> AgentAPIException:
    with pytest.raises(AgentAPIException) as caught:
        await call
    assert caught.value.code == code, str(caught.value)
    return caught.value


# --- models ---


async def test_a_scripted_model_replies_in_order_and_records_its_requests(inside):
    model = ScriptedModel(["one two", Message(role="assistant", content="whole", reasoning="why"), ["a", "b"]])

    async def code(api: RunApi):
        assert (await api.models.invoke("m", ASK)).content == "one two"
        second = await api.models.invoke("m", ASK)
        assert (second.content, second.reasoning) == ("whole", "why")
        assert [chunk.content async for chunk in api.models.stream("m", ASK)] == ["a", "b"]
        error = await refused(api.models.invoke("m", ASK), "runtime_error")
        assert "no reply for request 4" in str(error)

    outcome = await inside(MemoryHost(models={"m": model}), code)
    assert [request.messages[0].content for request in model.requests] == ["hi"] * 4
    assert [(call.action, call.outcome) for call in outcome.calls] == [
        ("models.invoke", "ok"),
        ("models.invoke", "ok"),
        ("models.stream", "ok"),
        ("models.invoke", "runtime_error"),
    ]


async def test_text_is_streamed_in_words_that_join_to_the_whole(inside):
    async def code(api: RunApi):
        chunks = [chunk async for chunk in api.models.stream("m", ASK)]
        assert len(chunks) > 2
        assert "".join(str(chunk.content) for chunk in chunks) == " one  two\nthree"
        assert chunks[-1].finish_reason == "stop"

    await inside(MemoryHost(models={"m": ScriptedModel([" one  two\nthree"])}), code)


async def test_a_model_requests_tools_whole_or_in_increments(inside):
    reply = tool_calls(("weather", {"city": "Rome"}), ("weather", {"city": "Oslo"}), content="let me look")

    async def code(api: RunApi):
        message = await api.models.invoke("m", ASK)
        assert message.content == "let me look"
        assert [call.function.arguments for call in message.tool_calls or ()] == [
            '{"city": "Rome"}',
            '{"city": "Oslo"}',
        ]
        assert [call.id for call in message.tool_calls or ()] == ["call_1", "call_2"]
        items = [item async for chunk in api.models.stream("m", ASK) for item in chunk.tool_calls or ()]
        assert [item.index for item in items] == [0, 1]

    await inside(MemoryHost(models={"m": ScriptedModel([reply, reply])}), code)


async def test_a_scripted_error_is_raised_at_once_or_after_pieces(inside):
    error = AgentAPIError(code="rate_limited", message="later", retryable=True)
    model = ScriptedModel([error, ["a", api_failure("budget_exceeded", "empty")], lambda asked: asked.model_id.upper()])

    async def code(api: RunApi):
        assert (await refused(api.models.invoke("m", ASK), "rate_limited")).retryable
        stream = api.models.stream("m", ASK)
        assert (await anext(stream)).content == "a"
        await refused(anext(stream), "budget_exceeded")
        assert (await api.models.invoke("m", ASK)).content == "M"

    await inside(MemoryHost(models={"m": model}), code)


async def test_an_abandoned_stream_is_recorded_as_such(inside):
    async def code(api: RunApi):
        stream = api.models.stream("m", ASK)
        await anext(stream)
        await stream.aclose()

    outcome = await inside(MemoryHost(models={"m": ScriptedModel(["a b c"])}), code)
    assert outcome.calls[0].outcome == "given up"


async def test_reranking_and_embedding_depend_on_the_text_only(inside):
    async def code(api: RunApi):
        ranked = await api.models.rerank("m", "red apple", ["green pear", "a red apple", "red car"], top_k=2)
        assert [score.index for score in ranked] == [1, 2]
        first, again, other = await api.models.embed("m", ["x", "x", "y"])
        assert first == again != other
        assert len(first) == 8

    await inside(MemoryHost(models={"m": ScriptedModel()}), code)


async def test_an_unknown_model_is_not_found_and_an_unsupported_operation_is_denied(inside):
    async def code(api: RunApi):
        await refused(api.models.invoke("other", ASK), "not_found")
        await refused(api.models.invoke("m", ASK), "capability_denied")
        await api.models.embed("m", ["x"])

    await inside(MemoryHost(models={"m": ScriptedModel(operations=["embed"])}), code)


# --- tools, knowledge, agents, platform ---


@tool(risk="high")
async def add(a: int, b: int, who: ToolContext) -> dict[str, int]:
    """Add."""
    assert who.run_id.startswith("run-")
    return {"sum": a + b}


async def test_tools_are_described_and_called(inside):
    async def code(api: RunApi):
        (detail,) = await api.tools.detail(["add"])
        assert (detail.risk, detail.input_schema["required"]) == ("high", ["a", "b"])
        result = await api.tools.call("add", {"a": 1, "b": 2}, call_id="c1")
        assert (result.call_id, result.structured, result.is_error) == ("c1", {"sum": 3}, False)
        await refused(api.tools.call("add", {"a": "x"}), "invalid_argument")
        await refused(api.tools.call("sub", {}), "not_found")
        await refused(api.tools.detail(["add", "sub"]), "not_found")

    await inside(MemoryHost(tools=[add]), code)


async def test_the_same_call_id_returns_the_recorded_outcome(inside):
    called = []

    def count(n: int) -> None:
        called.append(n)

    async def code(api: RunApi):
        first = await api.tools.call("count", {"n": 1}, call_id="c1")
        assert await api.tools.call("count", {"n": 1}, call_id="c1") == first
        error = await refused(api.tools.call("count", {"n": 2}, call_id="c1"), "invalid_argument")
        assert error.error.details["field"] == "call_id"
        assert called == [1]

    await inside(MemoryHost(tools=[count]), code)


async def test_a_call_id_belongs_to_its_run(inside):
    called = []

    def count(n: int) -> int:
        called.append(n)
        return n

    host = MemoryHost(tools=[count])
    for n in (1, 2, 2):

        async def code(api: RunApi, n: int = n):
            assert (await api.tools.call("count", {"n": n}, call_id="c1")).structured == n

        await inside(host, code)
    assert called == [1, 2, 2]


async def test_concurrent_calls_without_ids_get_different_ones(inside):
    begun, go = asyncio.Semaphore(0), asyncio.Event()

    async def wait(n: int) -> int:
        begun.release()
        await go.wait()
        return n

    async def code(api: RunApi):
        calls = [asyncio.create_task(api.tools.call("wait", {"n": n})) for n in (1, 2)]
        for _ in calls:
            await begun.acquire()
        go.set()
        results = await asyncio.gather(*calls)
        assert [result.structured for result in results] == [1, 2]
        assert len({result.call_id for result in results}) == 2

    await inside(MemoryHost(tools=[wait]), code)


async def test_plain_callables_are_tools_and_their_failures_are_answers(inside):
    def broken() -> str:
        raise ValueError("no")

    def needs_approval() -> str:
        raise api_failure("approval_denied", "a person said no")

    async def code(api: RunApi):
        assert (await api.tools.call("broken", {})).is_error
        await refused(api.tools.call("needs_approval", {}), "approval_denied")

    await inside(MemoryHost(tools=[broken, needs_approval]), code)


async def test_knowledge_is_ranked_and_filtered(inside):
    pieces = [
        "apples are red",
        KnowledgeChunk(chunk_id="c", kb_id="", text="red cars", score=0.0, source="x", metadata={"year": 1}),
        "pears are green",
    ]

    async def code(api: RunApi):
        assert [base.kb_id for base in await api.knowledge.list()] == ["fruit"]
        found = await api.knowledge.retrieve("fruit", "red apples", top_k=2)
        assert [chunk.text for chunk in found] == ["apples are red", "red cars"]
        assert found[0].score > found[1].score
        assert len(await api.knowledge.retrieve("fruit", "red", filters={"year": 1})) == 1
        await refused(api.knowledge.retrieve("other", "x"), "not_found")

    await inside(MemoryHost(knowledge={"fruit": pieces}), code)


HALL = {"channel": "hall"}


async def test_child_agents_and_platform_actions_give_scripted_answers(inside):
    async def later(given):
        return f"async {given.text}"

    host = MemoryHost(
        agents={
            "plain": "yes",
            "echo": lambda given: f"heard {given.text}",
            "later": later,
            "failing": ChildRunResult(run_id="r", status="failed", code="runner.error"),
        },
        platform={
            "pin": "done",
            "ban": api_failure("approval_required", "ask first"),
            "look": lambda asked: {"seen": asked.target},
        },
    )

    async def code(api: RunApi):
        assert (await api.agents.call("plain", "x")).messages[0].content == "yes"
        assert (await api.agents.call("echo", "x")).messages[0].content == "heard x"
        assert (await api.agents.call("later", "x")).messages[0].content == "async x"
        assert (await api.agents.call("failing", "x")).code == "runner.error"
        await refused(api.agents.call("nobody", "x"), "not_found")
        pinned = await api.platform.request("pin", HALL)
        assert (pinned.outcome, pinned.result) == ("completed", "done")
        assert (await api.platform.request("look", HALL)).result == {"seen": HALL}
        await refused(api.platform.request("ban", HALL), "approval_required")
        await refused(api.platform.request("fly", HALL), "not_found")
        await refused(api.platform.request("pin"), "invalid_argument")

    await inside(host, code)


# --- history and events ---


async def test_history_is_paged_backward_and_forward_with_cursors(inside):
    host = MemoryHost(history=[("user" if n % 2 else "assistant", f"message {n}") for n in range(1, 8)])

    async def code(api: RunApi):
        newest = await api.history.page(limit=3)
        assert [item.content for item in newest.items] == ["message 6", "message 7", "hi"]
        assert newest.has_more
        older = await api.history.page(limit=10, before=newest.next_cursor)
        assert [item.seq for item in older.items] == [1, 2, 3, 4, 5]
        assert not older.has_more
        assert older.next_cursor is None
        first = await api.history.page(limit=3, direction="forward")
        assert [item.seq for item in first.items] == [1, 2, 3]
        rest = await api.history.page(direction="forward", after=first.next_cursor)
        assert [item.seq for item in rest.items] == [4, 5, 6, 7, 8]

    await inside(host, code)


async def test_a_cursor_is_valid_for_its_own_api_only(inside):
    host = MemoryHost(history=["a", "b"], events=[AgentEventRecord(event_id="e1", event_type="x", source="s")])

    async def code(api: RunApi):
        page = await api.history.page(limit=1)
        for cursor in ("made up", "1.abc", f"{page.next_cursor}x"):
            await refused(api.history.page(before=cursor), "invalid_argument")
        await refused(api.events.page(before=page.next_cursor), "invalid_argument")
        await refused(api.history.page(conversation_id="another"), "not_found")

    await inside(host, code)


async def test_a_page_has_a_limit_in_bytes(inside):
    host = MemoryHost(history=["x" * 200_000] * 4)

    async def code(api: RunApi):
        page = await api.history.page()
        assert len(page.items) == 3  # two long messages, and the message of the run
        assert page.has_more

    await inside(host, code)


async def test_history_is_searched_by_words(inside):
    async def code(api: RunApi):
        found = await api.history.search("blue whale", top_k=1)
        assert [item.content for item in found.items] == ["the blue whale"]
        assert (await api.history.search("blue", filters={"role": "assistant"})).items == ()

    await inside(MemoryHost(history=["the blue whale", "a blue car", Message(role="assistant", content="red")]), code)


async def test_events_include_the_event_of_the_run(inside):
    host = MemoryHost(events=[AgentEventRecord(event_id=f"e{n}", event_type="x", source="s") for n in range(3)])

    async def code(api: RunApi):
        page = await api.events.page(limit=2)
        assert [event.event_id for event in page.items] == ["e2", "event-of-run-1"]
        older = await api.events.page(before=page.next_cursor)
        assert [event.event_id for event in older.items] == ["e0", "e1"]
        assert (await api.events.get("e1")).seq == 2
        await refused(api.events.get("e9"), "not_found")

    await inside(host, code)


# --- state, storage, files, artifacts ---


async def test_state_has_versions_and_supports_compare_and_set(inside):
    async def code(api: RunApi):
        assert (await api.state.get("conversation", "seed")).value == 1
        await refused(api.state.get("conversation", "k"), "not_found")
        first = await api.state.set("conversation", "k", "a", if_version=0)
        conflict = await refused(api.state.set("conversation", "k", "b", if_version=0), "invalid_argument")
        assert conflict.error.details == {"field": "if_version", "reason": "version", "version": first.version}
        second = await api.state.set("conversation", "k", None, if_version=first.version)
        assert (await api.state.get("conversation", "k")).value is None
        assert (await api.state.delete("conversation", "k")).existed
        assert not (await api.state.delete("conversation", "k")).existed
        third = await api.state.set("conversation", "k", 1, if_version=0)
        for stale in (first, second):
            await refused(api.state.set("conversation", "k", 2, if_version=stale.version), "invalid_argument")
        assert not third.existed

    await inside(MemoryHost(state={"conversation": {"seed": 1}}), code)


async def test_versions_grow_with_every_write(inside):
    clock = ManualClock()

    async def code(api: RunApi):
        versions: list[int | None] = []
        for key, scope in (("k", "actor"), ("l", "actor"), ("k", "runner"), ("k", "actor")):
            versions.append((await api.state.set(scope, key, 1, if_version=0, ttl=1)).version)
            clock.advance(1)
        assert sorted(set(versions)) == versions, "also where the value of before has expired"

    await inside(MemoryHost(clock=clock), code)


async def test_state_expires_by_the_clock_of_the_host(inside):
    clock = ManualClock()

    async def code(api: RunApi):
        await api.state.set("actor", "k", 1, ttl=10)
        clock.advance(9)
        assert (await api.state.get("actor", "k")).expires_at == clock.now() + 1
        clock.advance(1)
        await refused(api.state.get("actor", "k"), "not_found")

    await inside(MemoryHost(clock=clock), code)


async def test_state_has_limits_by_value_and_scope(inside):
    async def code(api: RunApi):
        await refused(api.state.set("actor", "k", "x" * limits.STATE_VALUE_BYTES), "payload_too_large")
        most = "x" * (limits.STATE_VALUE_BYTES - 2)
        for number in range(15):
            await api.state.set("actor", f"k{number}", most)
        full = await refused(api.state.set("actor", "k15", most), "payload_too_large")  # keys count too
        assert full.error.details == {"field": "value", "reason": "quota"}
        await api.state.set("actor", "k0", 1)
        await api.state.set("conversation", "k", 1)

    await inside(MemoryHost(), code)


async def test_a_large_snapshot_contains_only_keys():
    @runner()
    async def look(ctx: RunContext):
        assert ctx.state_snapshot.actor == {"big": None, "small": None}
        assert ctx.state_snapshot.runner == {"small": 1}
        assert ctx.raw.metadata["state_snapshot"] == {"actor": {"keys_only": True, "more_keys": False}}
        yield "x"

    big = "x" * limits.STATE_SNAPSHOT_BYTES
    state = {"actor": {"big": big, "small": 1}, "runner": {"small": 1}}
    assert (await MemoryHost(state=state).run(look, "hi")).status == "completed"


async def test_keys_beyond_one_page_are_marked():
    @runner()
    async def look(ctx: RunContext):
        assert ctx.state_snapshot.runner == {f"k{number:03}": None for number in range(limits.STATE_LIST_KEYS)}
        assert ctx.raw.metadata["state_snapshot"] == {"runner": {"keys_only": True, "more_keys": True}}
        yield "x"

    state = {"runner": {f"k{number:03}": 1 for number in range(limits.STATE_LIST_KEYS + 1)}}
    assert (await MemoryHost(state=state).run(look, "hi")).status == "completed"


async def test_keys_are_paged(inside):
    async def code(api: RunApi):
        for number in range(5):
            await api.state.set("actor", f"a{number}", number)
            await api.storage.plugin.set(f"a{number}", b"x")
        await api.state.set("actor", "b", 1)
        for listed in (api.state.list("actor", "a", limit=3), api.storage.plugin.list("a", limit=3)):
            page = await listed
            assert (page.keys, page.has_more) == (("a0", "a1", "a2"), True)
        first = await api.state.list("actor", "a", limit=3)
        page = await api.state.list("actor", "a", cursor=first.next_cursor)
        assert (page.keys, page.has_more, page.next_cursor) == (("a3", "a4"), False, None)
        await refused(api.state.list("actor", "", cursor=first.next_cursor), "invalid_argument")

    await inside(MemoryHost(), code)


async def test_storage_holds_bytes_by_area(inside):
    async def code(api: RunApi):
        assert await api.storage.workspace.read("w") == b"shared"
        await api.storage.plugin.set("k", b"0123456789")
        piece = await api.storage.plugin.get("k", 2, 3)
        assert (content_of(piece), piece.size_bytes, piece.has_more) == (b"234", 10, True)
        await refused(api.storage.workspace.get("k"), "not_found")
        assert (await api.storage.plugin.delete("k")).existed
        assert content_of(await api.files.get("f")) == b"file"
        await refused(api.files.get("g"), "not_found")

    await inside(MemoryHost(storage={"workspace": {"w": b"shared"}}, files={"f": b"file"}), code)


async def test_artifacts_are_written_in_pieces_and_read_in_ranges(inside):
    content = bytes(range(256)) * 3000

    async def code(api: RunApi):
        kept = await api.artifacts.write("a.bin", "application/x", content)
        assert kept.size_bytes == len(content)
        assert (await api.artifacts.metadata(kept.artifact_id)).name == "a.bin"
        assert b"".join([piece async for piece in api.artifacts.stream(kept.artifact_id)]) == content
        assert content_of(await api.artifacts.read("old")) == b"before"
        await refused(api.artifacts.read("nothing"), "not_found")

    outcome = await inside(MemoryHost(artifacts={"old": b"before"}), code)
    assert [item.content for item in outcome.artifacts.values()] == [content]


async def test_an_upload_checks_its_offsets_and_its_digest():
    host = MemoryHost()

    @runner(permissions={"artifacts": ["write"]})
    async def uploads(ctx: RunContext):
        async def call(action, **params):
            return await host.answer(ctx.run_id, action, params)

        upload = (await call("artifacts.begin", name="a", mime_type="text/plain"))["upload_id"]
        await call("artifacts.append", upload_id=upload, offset=0, content_base64="YWJj")
        again = await call("artifacts.append", upload_id=upload, offset=0, content_base64="YWJj")
        assert again["offset"] == 3
        await refused(call("artifacts.append", upload_id=upload, offset=9, content_base64="YWJj"), "invalid_argument")
        await refused(call("artifacts.finish", upload_id=upload, sha256="0" * 64), "invalid_argument")
        await refused(call("artifacts.finish", upload_id="other", sha256="0" * 64), "not_found")
        yield "done"

    outcome = await host.run(uploads, "hi")
    assert outcome.status == "completed", outcome.error


# --- gates ---


async def test_a_call_outside_the_manifest_is_refused_with_the_missing_permission(inside):
    host = MemoryHost(models={"m": ScriptedModel(["x"])})

    async def code(api: RunApi):
        error = await refused(api.models.invoke("m", ASK), "capability_denied")
        assert '"models": ["invoke"]' in str(error)
        await refused(api.history.page(), "unauthorized")
        await refused(api.storage.workspace.get("k"), "capability_denied")

    outcome = await inside(host, code, permissions={"models": ["stream"], "storage": ["plugin"]})
    assert [call.outcome for call in outcome.calls] == ["capability_denied", "unauthorized", "capability_denied"]


async def test_resources_and_apis_are_projections_of_the_same_grant():
    host = MemoryHost(models={"m": ScriptedModel()}, tools=[add], knowledge={"k": []}, files={"f": b""}, history=["a"])

    @runner(permissions={"models": ["invoke"], "history": ["page"]})
    async def look(ctx: RunContext):
        assert [(model.model_id, model.operations) for model in ctx.resources.models] == [("m", ("invoke",))]
        assert ctx.resources.tools == ctx.resources.knowledge_bases == ctx.resources.files == ()
        apis = ctx.access.available_apis
        assert (apis.history_page, apis.history_search, apis.state, apis.steering_pull) == (True, False, True, False)
        assert ctx.access.has_history_before
        yield "x"

    assert (await host.run(look, "hi")).status == "completed"


async def test_a_denied_action_is_refused_until_it_is_allowed(inside):
    host = MemoryHost()
    host.deny("state.set", "storage_full", "the disk is full", retryable=True)

    async def code(api: RunApi):
        error = await refused(api.state.set("actor", "k", 1), "storage_full")
        assert (error.error.message, error.retryable) == ("the disk is full", True)
        host.allow("state.set")
        await api.state.set("actor", "k", 1)

    await inside(host, code)
    with pytest.raises(ValueError, match="no action"):
        host.deny("state.sett")


async def test_parameters_are_checked_as_by_a_host():
    host = MemoryHost()

    @runner(permissions={"history": ["page"], "models": ["stream"]})
    async def raw_calls(ctx: RunContext):
        async def call(action, params):
            return await host.answer(ctx.run_id, action, params)

        error = await refused(call("history.page", {"limit": 0}), "invalid_argument")
        assert error.error.details["field"] == "limit"
        await refused(call("history.page", {"surprise": 1}), "invalid_argument")
        await refused(call("history.rewrite", {}), "invalid_argument")
        await refused(call("models.stream", {}), "invalid_argument")
        await refused(call("state.set", {"scope": "actor", "key": "k", "value": "x" * 2**20}), "payload_too_large")
        await refused(anext(host.answer_stream(ctx.run_id, "host.info", {})), "invalid_argument")
        await refused(host.answer("run-99", "host.info", {}), "not_found")
        yield "done"

    outcome = await host.run(raw_calls, "hi")
    assert outcome.status == "completed", outcome.error


async def test_more_than_32_concurrent_calls_are_refused(inside):
    async def code(api: RunApi):
        answers = await asyncio.gather(*(api.host.info() for _ in range(40)), return_exceptions=True)
        refusals = [answer for answer in answers if isinstance(answer, AgentAPIException)]
        assert len(refusals) == 40 - limits.CALLS_IN_FLIGHT
        assert {error.code for error in refusals} == {"rate_limited"}
        await api.host.info()

    await inside(MemoryHost(), code)


async def test_an_oversized_answer_is_refused_completely(inside):
    async def code(api: RunApi):
        await refused(api.models.invoke("m", ASK), "payload_too_large")

    await inside(MemoryHost(models={"m": ScriptedModel([Message(role="assistant", content="x" * 2**20)])}), code)


async def test_an_error_in_the_script_is_distinguished_from_one_of_the_runner(inside):
    async def code(api: RunApi):
        error = await refused(api.models.invoke("m", ASK), "runtime_error")
        assert "ZeroDivisionError" in str(error)

    await inside(MemoryHost(models={"m": ScriptedModel([lambda asked: 1 / 0])}), code)


# --- steering ---


@runner(capabilities=["steering"], permissions={"models": ["invoke"]})
async def steered(ctx: RunContext):
    heard = []
    for _ in range(2):
        await ctx.api.models.invoke("m", ASK)
        pulled = await ctx.api.steering.pull()
        heard.append([item.input.text for item in pulled.items])
    yield f"{heard}"


@pytest.mark.requirement("P09-10")
async def test_a_message_reaches_the_run_at_its_next_pull():
    host = MemoryHost(
        models={"m": ScriptedModel(["a", "b"])}, steering=["early", Steer("later", after="steering.pull")]
    )
    outcome = await host.run(steered, "hi")
    assert outcome.text == "[['early'], ['later']]"
    assert outcome.steering == (("early", "acknowledged"), ("later", "acknowledged"))


@pytest.mark.requirement("P09-10")
async def test_a_live_run_is_steered_in_the_middle():
    @runner(capabilities=["steering"])
    async def listens(ctx: RunContext):
        yield "ready"
        while not (pulled := await ctx.api.steering.pull("one-at-a-time")).items:
            pass
        yield f" {pulled.items[0].input.text}"

    live = MemoryHost().start(listens, "hi")
    await live.result("message.delta")
    live.steer("turn left")
    live.steer("never pulled")
    outcome = await live.outcome()
    assert outcome.text == "ready turn left"
    assert outcome.steering == (("turn left", "acknowledged"), ("never pulled", "dropped"))


async def test_a_message_pulled_by_a_failing_run_is_dropped():
    @runner(capabilities=["steering"])
    async def fails(ctx: RunContext):
        await ctx.api.steering.pull()
        yield ctx.fail("no")

    outcome = await MemoryHost(steering=["a"]).run(fails, "hi")
    assert outcome.steering == (("a", "dropped"),)


async def test_only_a_runner_with_the_steering_capability_can_be_steered(inside):
    async def code(api: RunApi):
        await refused(api.steering.pull(), "unauthorized")

    await inside(MemoryHost(), code)

    @runner()
    async def plain(ctx: RunContext):
        yield "x"

    live = MemoryHost().start(plain, "hi")
    with pytest.raises(ValueError, match="steering"):
        live.steer("x")
    await live.outcome()


async def test_tools_of_the_test_host_know_the_calling_run(inside):
    seen: list[ToolCallContext] = []

    @tool()
    def whose(who: ToolContext) -> str:
        """Whose?"""
        seen.append(who.raw)
        return "x"

    async def code(api: RunApi):
        await api.tools.call("whose", {})

    await inside(MemoryHost(tools=[whose]), code, actor_id="ada")
    assert seen[0].actor is not None
    assert seen[0].actor.actor_id == "ada"
