"""Sources for an answer, and the citations in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.local_agent.context_kit import called, memory, prepared, shown
from tests.tables import for_each

from bollard.protocol import KnowledgeChunk
from bollard.sdk import ImageUrl, ImageUrlContent, TextContent
from bollard.sdk.agent.retrieval import Source, build_query, citations, sources_message
from bollard.sdk.testing import ScriptedModel

pytestmark = pytest.mark.anyio

TIDES = "The ferry leaves at 06:30 and costs 4 euros."
CATS = "Cats sleep sixteen hours a day."


def chunk(text: str, **source: object) -> KnowledgeChunk:
    return KnowledgeChunk(chunk_id=text[:8], kb_id="", text=text, score=0, source={"name": "guide.md", **source})


async def test_sources_precede_the_input_and_the_prompt_explains_citations():
    host = memory(knowledge={"guide": [CATS, chunk(TIDES, headings=["Travel", "Ferry"])]})
    question, outcome = await prepared(host, "when does the ferry leave in the morning?", {"retrieval_top_k": 1})
    (role, prompt), (sources_role, sources), (_, asked) = shown(question)
    assert (role, sources_role) == ("system", "user")
    assert "[1]" in prompt
    assert f'<source id="1" name="guide.md › Travel › Ferry">{TIDES}</source>' in sources
    assert "Cats" not in sources
    assert asked == "when does the ferry leave in the morning?"
    assert called(outcome, "knowledge.retrieve") == [
        {"kb_id": "guide", "query": "when does the ferry leave in the morning?", "top_k": 1}
    ]


async def test_only_chosen_and_granted_bases_are_queried():
    host = memory(knowledge={"one": [TIDES], "two": [CATS]})
    _, outcome = await prepared(host, "how long do cats sleep at night?", {"knowledge_bases": ["two", "three"]})
    assert [params["kb_id"] for params in called(outcome, "knowledge.retrieve")] == ["two"]


async def test_chunks_of_several_bases_are_merged_without_duplicates():
    host = memory(knowledge={"one": [TIDES, CATS], "two": [TIDES, "Dogs bark at the ferry."]})
    question, _ = await prepared(host, "what about the ferry, dogs and cats and the sea?", {"retrieval_top_k": 4})
    texts = [source.text for source in question.sources]
    assert texts.count(TIDES) == 1
    assert {source.kb_id for source in question.sources} == {"one", "two"}
    assert [source.id for source in question.sources] == list(range(1, len(texts) + 1))


async def test_a_rerank_model_decides_the_order():
    models = {"default": ScriptedModel(), "order": ScriptedModel(model_type="rerank")}
    host = memory(models, knowledge={"one": [CATS], "two": [TIDES]})
    asked = "which ferry costs 4 euros and leaves early?"
    question, outcome = await prepared(host, asked, {"rerank_model": "order", "retrieval_top_k": 1})
    assert [source.text for source in question.sources] == [TIDES]
    assert len(called(outcome, "models.rerank")) == 1


async def test_a_failed_source_is_left_out_and_noted():
    models = {"default": ScriptedModel(), "order": ScriptedModel(model_type="rerank")}
    host = memory(models, knowledge={"one": [CATS, TIDES]})
    host.deny("models.rerank", "runtime_error")
    question, _ = await prepared(host, "which ferry leaves early in the morning?", {"rerank_model": "order"})
    assert len(question.sources) == 2
    assert question.notes == ["rerank order: runtime_error"]
    host.deny("knowledge.retrieve", "runtime_error")
    question, _ = await prepared(host, "which ferry leaves early in the morning?")
    assert question.sources == []
    assert question.notes == ["knowledge base one: runtime_error"]
    assert shown(question)[-1][1] == "which ferry leaves early in the morning?"


async def test_a_question_that_depends_on_the_previous_one_is_queried_with_it():
    host = memory(knowledge={"guide": [TIDES]}, history=["When does the ferry leave?", ("assistant", "At 06:30.")])
    _, outcome = await prepared(host, "and what does it cost?")
    (asked,) = called(outcome, "knowledge.retrieve")
    assert asked["query"] == "When does the ferry leave?\nand what does it cost?"


@for_each(
    ("question", "leans"),
    [
        ("那它多少钱？", True),
        ("价格呢？", True),
        ("and the price?", True),
        ("Which documents do I need to register a company in Hamburg?", False),
        ("请问在上海注册公司需要准备哪些材料，大概要多长时间才能办完？", False),
    ],
)
def test_a_dependent_question_is_recognised_in_both_languages(question, leans):
    assert build_query(question, "before").startswith("before") == leans


async def test_pictures_of_the_input_stay_in_place():
    host = memory(knowledge={"guide": [TIDES]})
    picture = ImageUrlContent(image_url=ImageUrl(url="https://example.test/a.png"))
    contents = [TextContent(text="what ferry is this picture of, exactly?"), picture, TextContent(text="thanks")]
    question, _ = await prepared(host, None, contents=contents)
    assert "ferry leaves" in shown(question)[-2][1]
    assert shown(question)[-1][1].split("\n")[1] == "[image: https://example.test/a.png]"


def source(number: int, text: str = "text", name: str = "name") -> Source:
    return Source(id=number, kb_id="kb", chunk_id=f"c{number}", name=name, text=text, source={"document_id": "d"})


@given(st.text(alphabet='</>source id="1 \n&SOURCE', max_size=60), st.text(alphabet='"<>&\n name', max_size=30))
def test_a_document_cannot_close_its_tag_or_open_another(text, name):
    shown_text = str(sources_message([source(1, text, name), source(2)]).content).lower()
    assert shown_text.count("<source") == shown_text.count("</source>") == 2
    assert "< source" not in shown_text
    assert "</ source" not in shown_text


def test_citations_are_mapped_back_once_in_their_order():
    cited = citations(
        "It leaves early [2], says 【1】, and [1, 2]; [7] is nothing, [x] neither.", [source(1), source(2)]
    )
    assert [each["id"] for each in cited] == [2, 1]
    assert cited[0] == {"id": 2, "kb_id": "kb", "chunk_id": "c2", "name": "name", "source": {"document_id": "d"}}
    assert citations("no source at all", [source(1)]) == []


async def test_sources_stay_within_their_share_of_the_budget():
    models = {"default": ScriptedModel(context_window=2000)}
    host = memory(models, knowledge={"guide": [f"ferry {at} " + "and more words " * 200 for at in range(5)]})
    question, _ = await prepared(host, "tell me everything about every ferry there is")
    assert sum(len(each.text) for each in question.sources) < 2400
    assert len(question.sources) >= 1
