"""`knowledge.list` and `knowledge.retrieve`: for granted bases, with their flow."""

from typing import Any

import pytest
from tests.doubles.memory_engine import MemoryEngine
from tests.replacement import replace

from bollard.host.agents.policies import ResourceRule
from bollard.host.capabilities.sources import Sources
from bollard.host.errors import KnowledgeUnavailable
from bollard.host.grants.grant import resources_of
from bollard.host.grants.revocation import revoke
from bollard.host.http.mcp.run_tools import RunTools
from bollard.host.knowledge.bases import KnowledgeBaseRepository
from bollard.host.knowledge.boundary import NewDocument, Question
from bollard.host.knowledge.library import KnowledgeSource, Library
from bollard.host.knowledge.limits import ANSWER_BYTES
from bollard.host.log.records import PRIVATE_BIT, UNTRUSTED_BIT
from bollard.host.run_api.handlers import Knowledge
from bollard.host.run_api.models import Models
from bollard.host.run_api.tools import ToolCalls
from bollard.wire import encode

PRIVATE, WEB = "handbook", "web"


class Away(MemoryEngine):
    """An engine whose process is gone."""

    async def retrieve(self, workspace: str, kb_id: str, question: Question) -> Any:
        raise KnowledgeUnavailable("the knowledge process does not answer", reason="test", hint="try again")


async def library_of(house: Any, engine: MemoryEngine | None = None, models: Models | None = None) -> Library:
    """Two bases with a document each, behind the run API of this house."""
    made = engine or MemoryEngine(house.clock)
    library = Library(KnowledgeBaseRepository(house.journal, house.clock), house.journal, house.clock, lambda: made)
    for kb_id, flow, text in ((PRIVATE, ["private"], "Thirty days of leave."), (WEB, ["untrusted"], "Days are long.")):
        for workspace in ("default", "other"):
            await library.save({"name": kb_id.title(), "flow": flow}, workspace, kb_id, by="ann", edited=None)
        document = NewDocument(
            document_id="d", name="d.md", mime_type="text/plain", content=text.encode(), metadata={"year": 2026}
        )
        await library.put("default", kb_id, document, by="ann")
    knowledge = Knowledge(library, models)
    house.handlers.update({"knowledge.list": knowledge.list, "knowledge.retrieve": knowledge.retrieve})
    house.offer(Sources([KnowledgeSource(library.book)]))
    return library


@pytest.fixture
def reader(make_agent: Any) -> Any:
    def make(*bases: str, **more: Any) -> Any:
        agent = make_agent(**more)
        access = agent.policy.access
        access = replace(access, resources={**access.resources, "knowledge_bases": ResourceRule(add=bases)})
        return replace(agent, policy=replace(agent.policy, access=access))

    return make


async def test_a_run_lists_and_queries_its_granted_bases(house: Any, reader: Any) -> None:
    await library_of(house)
    run = await house.begin(reader(PRIVATE))
    base = {"kb_id": PRIVATE, "kb_name": "Handbook", "kb_type": "documents", "operations": ["list", "retrieve"]}
    assert (await house.ask(run, "knowledge.list")) == {"knowledge_bases": [base]}
    assert resources_of(run.grant)["knowledge_bases"] == [base]
    found = await house.ask(run, "knowledge.retrieve", kb_id=PRIVATE, query="how many days")
    (chunk,) = found["chunks"]
    assert (chunk["kb_id"], chunk["text"]) == (PRIVATE, "Thirty days of leave.")
    assert chunk["source"]["name"] == "d.md"
    node = run.session.graph.node("kb:handbook")
    assert node.operations == {"knowledge.list", "knowledge.retrieve"}


async def test_absent_foreign_and_ungranted_bases_look_the_same(memory_house: Any, reader: Any) -> None:
    library = await library_of(memory_house)
    await library.save({}, "other", "theirs", by="ann", edited=None)
    run = await memory_house.begin(reader(PRIVATE, "absent", "theirs"))
    refusals = [
        await memory_house.refusal(run, "knowledge.retrieve", kb_id=kb_id, query="days")
        for kb_id in (WEB, "absent", "theirs", "", "kb:handbook")
    ]
    assert {each.bytes for each in refusals} == {refusals[0].bytes}
    assert refusals[0].code == "not_found"


async def test_a_run_without_a_knowledge_grant_has_no_bases(memory_house: Any, reader: Any) -> None:
    await library_of(memory_house)
    agent = reader(PRIVATE)
    run = await memory_house.begin(replace(agent, permissions=agent.permissions - {"knowledge_bases.retrieve"}))
    assert (await memory_house.refusal(run, "knowledge.retrieve", kb_id=PRIVATE, query="x")).code == "capability_denied"
    assert (await memory_house.ask(run, "knowledge.list"))["knowledge_bases"][0]["operations"] == ["list"]
    nothing = await memory_house.begin(replace(agent, permissions=frozenset()))
    for action, params in (("knowledge.list", {}), ("knowledge.retrieve", {"kb_id": PRIVATE, "query": "x"})):
        assert (await memory_house.refusal(nothing, action, **params)).code == "unauthorized"


async def test_the_record_of_a_retrieval_has_the_flow_of_its_base(house: Any, reader: Any) -> None:
    await library_of(house)
    run = await house.begin(reader(PRIVATE, WEB))
    await house.ask(run, "knowledge.retrieve", kb_id=PRIVATE, query="days")
    assert run.flow == PRIVATE_BIT
    await house.ask(run, "knowledge.retrieve", kb_id=WEB, query="days")
    assert run.flow == PRIVATE_BIT | UNTRUSTED_BIT
    assert await run.written()
    told = [each for each in house.records(run, "api.called") if each["action"] == "knowledge.retrieve"]
    assert [(each["resource"], each["outcome"], each["flow"]) for each in told] == [
        (PRIVATE, "ok", PRIVATE_BIT),
        (WEB, "ok", PRIVATE_BIT | UNTRUSTED_BIT),
    ]
    assert all("days" not in str(each) for each in told), "no record contains the query"


async def test_a_deleted_or_revoked_base_is_refused(memory_house: Any, reader: Any) -> None:
    library = await library_of(memory_house)
    run = await memory_house.begin(reader(PRIVATE, WEB))
    await library.delete("default", WEB, by="ann", edited=None)
    assert (await memory_house.refusal(run, "knowledge.retrieve", kb_id=WEB, query="days")).code == "not_found"
    listed = (await memory_house.ask(run, "knowledge.list"))["knowledge_bases"]
    assert [each["kb_id"] for each in listed] == [PRIVATE]
    run.revoke(revoke(run.grant, run.revoked, resources={"knowledge_bases": [PRIVATE]}), "ann", lambda *_: None)
    assert (await memory_house.refusal(run, "knowledge.retrieve", kb_id=PRIVATE, query="days")).code == "revoked"
    assert (await memory_house.ask(run, "knowledge.list"))["knowledge_bases"] == []


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"query": " "}, "query"),
        ({"query": "x" * 5000}, "query"),
        ({"query": "x", "top_k": 51}, "top_k"),
        ({"query": "x", "top_k": 0}, "top_k"),
        ({"query": "x", "filters": {"year": {"$gt": 1}}}, "filters.year"),
        ({"query": "x", "colour": 1}, "colour"),
    ],
)
async def test_an_invalid_retrieval_is_refused_by_its_field(
    memory_house: Any, reader: Any, params: Any, field: str
) -> None:
    await library_of(memory_house)
    run = await memory_house.begin(reader(PRIVATE))
    refused = await memory_house.refusal(run, "knowledge.retrieve", kb_id=PRIVATE, **params)
    assert (refused.code, refused.details["field"]) == ("invalid_argument", field)


async def test_filters_narrow_the_retrieval(memory_house: Any, reader: Any) -> None:
    await library_of(memory_house)
    run = await memory_house.begin(reader(PRIVATE))
    for year, count in ((2026, 1), ([2025, 2026], 1), (2025, 0)):
        found = await memory_house.ask(run, "knowledge.retrieve", kb_id=PRIVATE, query="days", filters={"year": year})
        assert len(found["chunks"]) == count


async def test_an_answer_stays_within_its_byte_limit(memory_house: Any, reader: Any) -> None:
    library = await library_of(memory_house)
    text = "\n\n".join(f"days {number} " + "字" * 15_000 for number in range(40))
    document = NewDocument(document_id="long", name="long", mime_type="text/plain", content=text.encode())
    await library.put("default", PRIVATE, document, by="ann")
    run = await memory_house.begin(reader(PRIVATE))
    found = await memory_house.ask(run, "knowledge.retrieve", kb_id=PRIVATE, query="days", top_k=50)
    assert 1 < len(found["chunks"]) < 40
    assert len(encode(found)) <= ANSWER_BYTES + 100


async def test_an_unavailable_engine_gives_a_retryable_error(memory_house: Any, reader: Any) -> None:
    await library_of(memory_house, Away(memory_house.clock))
    run = await memory_house.begin(reader(PRIVATE))
    refused = await memory_house.refusal(run, "knowledge.retrieve", kb_id=PRIVATE, query="days")
    assert (refused.code, b'"retryable":true' in refused.bytes) == ("runtime_error", True)


async def test_a_harness_queries_the_granted_bases_through_the_gateway(memory_house: Any, reader: Any) -> None:
    await library_of(memory_house)
    run = await memory_house.begin(reader(PRIVATE))
    tools = RunTools(run, ToolCalls(memory_house.executor), frozenset(memory_house.handlers), str)
    assert {"bollard_knowledge_list", "bollard_knowledge_retrieve"} <= tools.tools().keys()
    found = await tools.call("bollard_knowledge_retrieve", {"kb_id": PRIVATE, "query": "days"}, {}, lambda *_: None)
    assert "Thirty days of leave." in str(found["content"])
    refused = await tools.call("bollard_knowledge_retrieve", {"kb_id": WEB, "query": "days"}, {}, lambda *_: None)
    assert refused["isError"] is True
    nothing = await memory_house.begin(reader())
    offered = RunTools(nothing, ToolCalls(memory_house.executor), frozenset(memory_house.handlers), str).tools()
    assert "bollard_knowledge_retrieve" not in offered
