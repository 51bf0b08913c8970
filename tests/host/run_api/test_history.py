"""`history.page` and `history.search`: pages both ways, cursors bound to one place, no row beyond the scope."""

from typing import Any

import pytest
from tests.replacement import replace

from bollard.host.grants.revocation import NOTHING_REVOKED
from bollard.protocol import limits
from bollard.wire import encode

CANARY = "canary"
CORPUS = [
    "%",
    "_",
    "\\",
    '"',
    "'",
    "%canary%",
    "can_ry",
    "cana*",
    "canary*",
    '"canary"',
    "canary OR hello",
    "NEAR(canary hello)",
    "hello -canary",
    "hello NOT canary",
    "^canary",
    "search : canary",
    "place : canary",
    "search:canary OR place:*",
    '") OR (search : "canary',
    "' | 'canary",
    "canary:*",
    "canary & hello",
    "canary <-> hello",
    "!hello | canary",
    "canary\0",
    "'; DROP TABLE transcript; --",
    "🦜",
]


def contents(answer: dict[str, Any]) -> list[str]:
    return [item["content"] for item in answer["items"]]


async def test_a_page_has_the_newest_messages_of_the_conversation_oldest_first(house: Any) -> None:
    run = await house.begin(text="one")
    await house.say(run, "two", "three")

    page = await house.ask(run, "history.page", limit=2)

    assert contents(page) == ["two", "three"]
    assert page["has_more"] is True
    assert [item["role"] for item in page["items"]] == ["assistant", "assistant"]
    assert page["items"][0]["conversation_id"] == "room"
    assert page["items"][0]["event_id"] == run.facts.event_id


@pytest.mark.requirement("P06-12")
async def test_pages_run_backward_to_the_beginning(house: Any) -> None:
    run = await house.begin(text="0")
    await house.say(run, *(str(number) for number in range(1, 8)))

    seen: list[str] = []
    before: dict[str, str] = {}
    while True:
        page = await house.ask(run, "history.page", limit=3, **before)
        seen = contents(page) + seen
        if not page["has_more"]:
            break
        before = {"before": page["next_cursor"]}

    assert seen == [str(number) for number in range(8)]
    assert "next_cursor" not in page


async def test_pages_run_forward_from_a_cursor_and_back_again(house: Any) -> None:
    run = await house.begin(text="0")
    await house.say(run, "1", "2", "3", "4")

    first = await house.ask(run, "history.page", limit=2, direction="forward")
    second = await house.ask(run, "history.page", limit=2, direction="forward", after=first["next_cursor"])
    back = await house.ask(run, "history.page", before=second["prev_cursor"])
    between = await house.ask(
        run, "history.page", after=first["items"][0]["cursor"], before=second["items"][-1]["cursor"]
    )

    assert contents(first) == ["0", "1"]
    assert contents(second) == ["2", "3"]
    assert contents(back) == ["0", "1"]
    assert contents(between) == ["1", "2"]


async def test_a_page_may_span_several_reads(house: Any) -> None:
    run = await house.begin(text="0")
    await house.say(run, *(str(number) for number in range(1, 90)))

    page = await house.ask(run, "history.page", limit=90)

    assert contents(page) == [str(number) for number in range(90)]
    assert page["has_more"] is False


@pytest.mark.requirement("P06-12")
async def test_a_page_is_limited_in_bytes(memory_house: Any) -> None:
    house, run = memory_house, await memory_house.begin(text="first")
    await house.say(run, *("x" * (200 * limits.KIB) for _ in range(4)))

    page = await house.ask(run, "history.page")

    assert len(page["items"]) == 2
    assert page["has_more"] is True
    assert len(encode(page)) <= limits.PAGE_BYTES + 512
    rest = await house.ask(run, "history.page", before=page["next_cursor"])
    assert len(rest["items"]) == 3


async def test_a_message_larger_than_a_page_is_truncated_and_marked(memory_house: Any) -> None:
    house, run = memory_house, await memory_house.begin()
    await house.say(run, "\x01" * (150 * limits.KIB))

    page = await house.ask(run, "history.page", limit=1)

    assert page["items"][0]["metadata"] == {"shortened": True}
    assert len(encode(page)) <= limits.PAGE_BYTES


@pytest.mark.requirement("P06-17")
@pytest.mark.parametrize(
    "elsewhere",
    [{"conversation": "other"}, {"thread": "aside"}, {"bot": "second"}, {"bot": None}],
    ids=["conversation", "thread", "bot", "no bot"],
)
async def test_other_conversations_threads_and_bots_have_their_own_history(
    house: Any, elsewhere: dict[str, Any]
) -> None:
    foreign = await house.begin(text="a secret", **elsewhere)
    run = await house.begin(text="hello")

    assert contents(await house.ask(run, "history.page")) == ["hello"]
    assert contents(await house.ask(run, "history.search", query="secret")) == []
    assert contents(await house.ask(foreign, "history.page")) == ["a secret"]


async def test_another_workspace_has_its_own_history_of_the_same_conversation(house: Any, make_agent: Any) -> None:
    await house.begin(make_agent(workspace="second"), text="a secret")
    run = await house.begin(text="hello")

    assert contents(await house.ask(run, "history.page")) == ["hello"]


async def test_another_conversation_is_read_if_the_grant_names_it_until_a_revocation(
    house: Any, make_agent: Any
) -> None:
    await house.begin(conversation="elsewhere", text="there")
    run = await house.begin(make_agent(conversations=("elsewhere",)), text="here")

    page = await house.ask(run, "history.page", conversation_id="elsewhere")
    run.revoked = replace(NOTHING_REVOKED, resources={"conversations": frozenset({"elsewhere"})})
    refused = await house.refusal(run, "history.page", conversation_id="elsewhere")

    assert contents(page) == ["there"]
    assert refused.code == "revoked"
    assert contents(await house.ask(run, "history.page", conversation_id="room")) == ["here"]


async def test_a_cursor_of_another_conversation_run_or_action_is_refused_like_a_forged_one(
    house: Any, make_agent: Any
) -> None:
    able = make_agent(conversations=("elsewhere",))
    there = await house.begin(able, conversation="elsewhere")
    run, second = await house.begin(able), await house.begin(able)
    own = (await house.ask(run, "history.page"))["items"][0]["cursor"]
    foreign = [
        (await house.ask(there, "history.page"))["items"][0]["cursor"],
        (await house.ask(second, "history.page"))["items"][0]["cursor"],
        (await house.ask(run, "history.page", conversation_id="elsewhere"))["items"][0]["cursor"],
        (await house.ask(run, "events.page"))["items"][0]["cursor"],
        own[:-2],
        "x" * 5000,
        "é",
        "",
    ]

    assert await house.ask(run, "history.page", before=own)
    refusals = [await house.refusal(run, "history.page", before=cursor) for cursor in foreign]

    assert {refused.code for refused in refusals} == {"invalid_argument"}
    assert len({refused.bytes for refused in refusals}) == 1
    assert refusals[0].details == {"field": "before"}


@pytest.mark.requirement("P05-32")
async def test_a_run_reads_its_own_latest_message(house: Any) -> None:
    run = await house.begin(text="hello")
    house.result(run, "message.completed", {"message": {"role": "assistant", "content": "just now"}})

    assert contents(await house.ask(run, "history.page")) == ["hello", "just now"]


@pytest.mark.requirement("P06-17")
async def test_a_page_contains_only_messages(house: Any) -> None:
    run = await house.begin(text="hello", thread="aside")
    house.result(run, "message.delta", {"chunk": {"role": "assistant", "content": "half a sen"}})
    house.result(run, "state.updated", {"scope": "conversation", "key": "k", "value": "kept"})
    house.result(run, "artifact.created", {"artifact_type": "file", "name": "f", "content_base64": "eA=="})
    await house.ask(run, "state.set", scope="conversation", key="other", value="kept too")
    await house.say(run, "said")

    page = await house.ask(run, "history.page")

    assert [(item["role"], item["content"]) for item in page["items"]] == [("user", "hello"), ("assistant", "said")]
    assert {(item["conversation_id"], item["thread_id"]) for item in page["items"]} == {("room", "aside")}


async def test_artifacts_of_a_message_are_returned_on_request(house: Any) -> None:
    run = await house.begin()
    house.put_artifact("art_here", b"abc", of=await house.begin())
    house.put_artifact("art_there", b"abc", of=await house.begin(conversation="other"))
    elements = [{"type": "artifact", "artifact_id": name} for name in ("art_here", "art_there", "art_never")]
    refs = [{"artifact_id": "art_said", "artifact_type": "image"}]
    message = {"role": "assistant", "content": [{"type": "text", "text": "see"}, *elements], "artifact_refs": refs}
    house.result(run, "message.completed", {"message": message})

    plain = await house.ask(run, "history.page", limit=1)
    full = await house.ask(run, "history.page", limit=1, include_artifacts=True)

    assert plain["items"][0]["artifact_refs"] == []
    assert [ref["artifact_id"] for ref in full["items"][0]["artifact_refs"]] == ["art_said", "art_here"]
    assert full["items"][0]["artifact_refs"][1]["size_bytes"] == 3


async def test_artifacts_of_a_plain_text_message_are_stored_too(house: Any) -> None:
    run = await house.begin()
    await house.say(run, "see", artifact_refs=[{"artifact_id": "art_said", "artifact_type": "image"}])

    page = await house.ask(run, "history.page", limit=1, include_artifacts=True)

    assert contents(page) == ["see"]
    assert [ref["artifact_id"] for ref in page["items"][0]["artifact_refs"]] == ["art_said"]


async def test_a_whole_conversation_in_the_grant_is_read_with_all_its_threads(house: Any, make_agent: Any) -> None:
    for number in range(12):
        house.clock.advance(1)
        await house.begin(conversation="elsewhere", thread=(None, "a", "b")[number % 3], text=str(number))
    await house.begin(conversation="elsewhere", bot="second", thread="a", text="a secret")
    await house.begin(conversation="elsewhere", bot="second", thread="c", text="a secret")
    run = await house.begin(make_agent(conversations=("elsewhere", "room")), thread="aside", text="here")
    await house.begin(text="beside it")

    async def pages(direction: str, edge: str) -> list[str]:
        seen: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = await house.ask(
                run, "history.page", conversation_id="elsewhere", limit=5, direction=direction, **cursor
            )
            seen = seen + contents(page) if direction == "forward" else contents(page) + seen
            if not page["has_more"]:
                return seen
            cursor = {edge: page["next_cursor"]}

    assert await pages("backward", "before") == [str(number) for number in range(12)]
    assert await pages("forward", "after") == [str(number) for number in range(12)]
    assert contents(await house.ask(run, "history.page", conversation_id="room")) == ["here", "beside it"]
    assert contents(await house.ask(run, "history.page")) == ["here"]


async def test_a_cursor_of_the_whole_conversation_is_invalid_for_a_thread(house: Any, make_agent: Any) -> None:
    run = await house.begin(make_agent(conversations=("room",)))
    whole = (await house.ask(run, "history.page", conversation_id="room"))["items"][0]["cursor"]
    own = (await house.ask(run, "history.page"))["items"][0]["cursor"]

    assert (await house.refusal(run, "history.page", before=whole)).code == "invalid_argument"
    assert (await house.refusal(run, "history.page", before=own, conversation_id="room")).code == "invalid_argument"


@pytest.mark.parametrize("query", CORPUS)
async def test_no_query_finds_a_row_outside_the_scope(memory_house: Any, query: str) -> None:
    await _hunt(memory_house, [query])


async def test_no_query_of_the_corpus_finds_a_row_outside_the_scope_in_any_store(house: Any) -> None:
    await _hunt(house, CORPUS)


async def _hunt(house: Any, queries: list[str]) -> None:
    await house.begin(conversation="other", text=f"{CANARY} hello place search")
    await house.begin(thread="aside", text=f"{CANARY} hello")
    await house.begin(bot="second", text=f"{CANARY} hello")
    run = await house.begin(text="hello world")
    for query in queries:
        found = await house.ask(run, "history.search", query=query, top_k=50)
        assert contents(found) in ([], ["hello world"]), query
        assert found["query"] == query


async def test_search_operators_are_plain_words(house: Any) -> None:
    run = await house.begin(text="an apple or a pear")
    await house.say(run, "an apple", "50% of near_misses")

    async def found(query: str) -> list[str]:
        return contents(await house.ask(run, "history.search", query=query))

    assert await found("apple OR banana") == []
    assert await found("apple or pear") == ["an apple or a pear"]
    assert await found("app*") == []
    assert await found("an -apple") == ["an apple", "an apple or a pear"]
    assert await found("50%") == ["50% of near_misses"]
    assert await found("5%") == []
    assert await found("%") == []


async def test_a_search_is_filtered_by_role_and_time(house: Any) -> None:
    run = await house.begin(text="parrot from the user")
    house.clock.advance(10)
    middle = house.clock.now_ms() / 1000
    house.clock.advance(10)
    await house.say(run, "parrot from the runner")

    async def found(**filters: Any) -> list[str]:
        return contents(await house.ask(run, "history.search", query="parrot", filters=filters))

    assert await found(role="user") == ["parrot from the user"]
    assert await found(after=middle) == ["parrot from the runner"]
    assert await found(before=middle) == ["parrot from the user"]
    assert await found(role="user", after=middle) == []
    assert await found(before=1e300, after=0) != []
    assert len(await found()) == 2


async def test_a_filter_applies_to_all_hits_and_not_only_to_the_best(house: Any) -> None:
    run = await house.begin(text="a parrot among many other words of a user")
    await house.say(run, *("parrot" for _ in range(8)))

    found = await house.ask(run, "history.search", query="parrot", top_k=1, filters={"role": "user"})

    assert contents(found) == ["a parrot among many other words of a user"]


@pytest.mark.parametrize("filters", [{"colour": "blue"}, {"role": 1}, {"before": "yesterday"}])
async def test_an_unknown_or_mistyped_filter_is_refused(memory_house: Any, filters: dict[str, Any]) -> None:
    run = await memory_house.begin()

    refused = await memory_house.refusal(run, "history.search", query="hello", filters=filters)

    assert refused.code == "invalid_argument"
    assert refused.details == {"field": f"filters.{next(iter(filters))}"}


async def test_hits_are_ranked_limited_and_have_a_cursor(house: Any) -> None:
    run = await house.begin(text="a parrot among many other words that are not it")
    await house.say(run, "parrot", "nothing")

    found = await house.ask(run, "history.search", query="parrot", top_k=1)
    around = await house.ask(run, "history.page", before=found["items"][0]["cursor"])

    assert contents(found) == ["parrot"]
    assert contents(around) == ["a parrot among many other words that are not it"]


@pytest.mark.parametrize(("action", "params"), [("history.page", {}), ("history.search", {"query": "hello"})])
async def test_a_run_without_a_conversation_has_no_history(
    memory_house: Any, action: str, params: dict[str, Any]
) -> None:
    run = await memory_house.begin(conversation=None)

    assert (await memory_house.refusal(run, action, **params)).code == "not_found"
