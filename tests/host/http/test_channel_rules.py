"""The rules of channels over HTTP: answered messages, the stored part of other messages, and the explanation."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.host.http.chat_program import Program, bind, post, save


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    yield program
    program.stop()


def test_a_group_message_that_does_not_address_the_bot_is_kept_without_its_words(api: Any, program: Program) -> None:
    secret = save(api, "hall", url=program.url, bot="polly", rules={"groups": "addressed"})["secret"]
    bind(api, "hall")
    chatter = post(api, "hall", secret, {"text": "between us", "conversation": "g", "actor": {"id": "a", "name": "A"}})
    assert (chatter.status, chatter.json["run_id"]) == (202, None)
    assert chatter.json["reason"]["code"] == "not_answered"
    assert "does not address the bot" in chatter.json["reason"]["message"]
    kept = api.get(f"/api/v1/events/{chatter.json['event_id']}").json
    assert (kept["summary"], kept["actor_name"], kept["content"].get("text")) == (None, None, None)
    assert post(api, "hall", secret, {"text": "between us", "conversation": "g"}).json["event_id"] == kept["event_id"]
    asked = {"text": "polly, hi", "conversation": "g", "mentions": ["polly"], "reply_to": "m-7"}
    assert post(api, "hall", secret, asked, number="msg-2").json["run_id"]
    assert program.until(1)[0]["text"]


def test_words_are_masked_on_the_way_in_and_withheld_on_the_way_out(api: Any, program: Program) -> None:
    rules = {"filter_in": {"words": ["rum"], "outcome": "mask"}, "filter_out": {"words": ["暗号"], "outcome": "block"}}
    secret = save(api, "bar", url=program.url, locale="zh_Hans", rules=rules)["secret"]
    bind(api, "bar")
    post(api, "bar", secret, {"text": "a rum", "conversation": "b"})
    assert "***" in program.until(1)[0]["text"]
    post(api, "bar", secret, {"text": "说暗号", "conversation": "b"}, number="msg-2")
    assert program.until(2)[1]["text"] == "该回答已被此渠道的内容检查拦截。"


def test_texts_in_the_contents_are_filtered_and_address_the_bot_too(api: Any) -> None:
    rules = {"groups": "addressed", "prefixes": ["!"], "filter_in": {"words": ["rum"], "outcome": "mask"}}
    secret = save(api, "cellar", rules=rules)["secret"]
    bind(api, "cellar")

    def elements(text: str) -> list[Any]:
        return [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": "https://a.test/rum"}}]

    asked = post(api, "cellar", secret, {"contents": elements("!a rum"), "conversation": "c"})
    assert asked.json["run_id"]
    kept = api.get(f"/api/v1/events/{asked.json['event_id']}").json["content"]["contents"]
    assert kept == elements("!a ***")
    chatter = {"contents": elements("rum"), "conversation": "c"}
    assert post(api, "cellar", secret, chatter, number="msg-2").json["reason"]["code"] == "not_answered"
    save(api, "cellar", rules={"filter_in": {"words": ["rum"]}})
    blocked = post(api, "cellar", secret, {**chatter, "text": "fine"}, number="msg-3").json
    assert blocked["reason"]["code"] == "content_blocked"
    assert "rum" not in str(api.get(f"/api/v1/events/{blocked['event_id']}").json["content"])


def test_a_message_beyond_the_rate_is_refused_and_a_repeat_of_an_accepted_one_is_not(api: Any) -> None:
    secret = save(api, "slow", rules={"actor_rate": {"per_minute": 1}})["secret"]
    bind(api, "slow")
    hello = {"text": "hello", "conversation": "s", "actor": {"id": "ann"}}
    first = post(api, "slow", secret, hello)
    assert first.json["run_id"]
    again = post(api, "slow", secret, hello)
    assert (again.status, again.json["run_id"]) == (200, first.json["run_id"])
    refused = post(api, "slow", secret, hello, number="msg-2")
    assert (refused.status, refused.error["details"]["reason"]) == (429, "channel_rate")


def test_a_preview_explains_the_rules_before_the_bindings(api: Any) -> None:
    save(api, "quiet", bot="polly", rules={"groups": "addressed", "actors": {"deny": ["quiet:eve"]}})
    bind(api, "quiet")
    event = {"source": "quiet", "text": "hello", "conversation": "q", "locale": "zh_Hans"}
    ignored = api.post("/api/v1/bindings/resolve", event).json
    assert (ignored["agent"], ignored["decision"]) == (None, None)
    assert [step["key"] for step in ignored["steps"]] == ["not_addressed"]
    assert "群聊" in ignored["steps"][0]["text"]
    private = api.post("/api/v1/bindings/resolve", {**event, "is_private": True}).json
    assert (private["agent"], private["steps"][0]["key"]) == ("parrot", "private")
    denied = api.post("/api/v1/bindings/resolve", {**event, "is_private": True, "actor": {"id": "eve"}}).json
    assert [step["key"] for step in denied["steps"]] == ["actor_denied"]


def test_rules_that_cannot_work_are_refused_by_their_field(api: Any) -> None:
    for rules, field in (
        ({"patterns": ["(?<=x)y"]}, "channel.rules.patterns.0"),
        ({"groups": "some"}, "channel.rules.groups"),
        ({"filter_in": {"words": ["!!"]}}, "channel.rules.filter_in.words.0"),
        ({"actor_rate": {"per_minute": 0}}, "channel.rules.actor_rate.per_minute"),
    ):
        answer = api.put("/api/v1/channels/wrong", {"rules": rules})
        assert (answer.status, answer.error["details"]["field"]) == (400, field), answer.body
    assert api.get("/api/v1/channels/wrong").status == 404
