"""The content of interactions: the host's own text everywhere, and buttons or forms only where the channel has them."""

import json
import string
from typing import Any

import pytest
from tests.doubles.memory_channel import MemoryChannel
from tests.tables import for_each

from bollard.host.channels.channel import Abilities
from bollard.host.channels.content_filter import ContentFilter
from bollard.host.delivery.interaction_content import WORDS, Surface, closed_content, opened_content
from bollard.host.log.entries import Entry
from bollard.host.log.rebuild import rebuild
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.store.rows import RecordRow
from bollard.host.texts import LOCALES

ROUTE = {"id": "qst_1.secret", "channel": "chat", "target": "room-1", "event_id": "evt_1"}
QUESTION = {"question_id": "qst_1", "call_id": "c", "question": "Which one?", "choices": ["left", "right"]}
APPROVAL = {
    "approval_id": "apr_1",
    "workspace": "default",
    "run_id": "run_1",
    "call_id": "c",
    "agent_id": "clerk",
    "digest": "0" * 64,
    "capability": "mcp:post/send",
    "name": "send",
    "kind": "mcp",
    "source": "mcp:post",
    "version": "",
    "definition_sha256": "0" * 64,
    "arguments": {"to": "ann\u202e"},
    "grant_sha256": "0" * 64,
    "risk": "high",
    "effects": "at_most_once",
    "why": ["risk"],
    "flow": 0,
    "expires_ms": 1000,
    "created_ms": 0,
    "interaction": {**ROUTE, "id": "apr_1.secret"},
}


def record(kind: str, data: Any) -> RecordRow:
    return RecordRow(
        id=1,
        workspace="default",
        chain="c",
        position=1,
        run_id="run_1",
        seq=1,
        epoch=1,
        type=kind,
        data=json.dumps(data).encode(),
        observed=True,
        created_ms=0,
        source_seq=None,
        data_sha256="",
        hash="",
    )


def surface(
    *can: str, address: str | None = None, locale: Any = "en_US", filter_out: ContentFilter | None = None
) -> Surface:
    abilities = Abilities(**{f"supports_{each}": True for each in can})
    return Surface(abilities=abilities, locale=locale, filter_out=filter_out, address=address)


def test_an_approval_without_buttons_is_text_with_a_command_and_a_link() -> None:
    shown = opened_content(record("approval.requested", APPROVAL), surface(address="https://host.example.org"))
    assert shown.card is None
    *lines, command, link = shown.text.split("\n")
    assert lines[0] == "send waits for approval."
    assert 'arguments.to | "ann⟪U+202E⟫"' in lines, "hidden characters are named"
    assert command == "Decide with: bollard approvals show apr_1"
    assert link == "Address: https://host.example.org/approvals?approval=apr_1"


def test_an_approval_with_buttons_has_lines_buttons_and_a_fallback() -> None:
    card = opened_content(record("approval.requested", APPROVAL), surface("buttons", locale="zh_Hans")).card
    assert card is not None
    assert (card["id"], card["kind"], card["expires_at"]) == ("apr_1.secret", "approval", 1.0)
    assert card["buttons"][0] == {"id": "allow_once", "label": "允许一次", "style": "primary"}
    assert card["fallback"] == {"command": "bollard approvals show apr_1"}


@for_each(
    ("can", "choices", "buttons", "form"),
    [
        ((), True, None, False),
        (("buttons",), True, 2, False),
        (("forms",), True, None, False),
        (("buttons",), False, None, False),
        (("forms",), False, 0, True),
        (("buttons", "forms"), False, 0, True),
        (("buttons", "forms"), True, 2, False),
    ],
)
def test_a_question_has_what_its_channel_can_show(can: Any, choices: bool, buttons: int | None, form: bool) -> None:
    question = {**QUESTION, "interaction": ROUTE}
    asked = question if choices else {name: value for name, value in question.items() if name != "choices"}
    shown = opened_content(record("question.asked", asked), surface(*can))
    assert shown.text.startswith("Which one?")
    assert (None if shown.card is None else len(shown.card["buttons"])) == buttons
    assert (shown.card is not None and "form" in shown.card) is form


def test_the_outcome_of_a_plain_question_is_not_sent() -> None:
    asked = record("question.asked", {**QUESTION, "interaction": ROUTE})
    answered = record("question.answered", {"question_id": "qst_1", "answer": "left", "interaction": ROUTE})
    assert closed_content(answered, asked, surface()).text == ""
    card = closed_content(answered, asked, surface("buttons")).card
    assert card == {
        "id": ROUTE["id"],
        "kind": "question",
        "outcome": "answered",
        "text": "Answered: left",
        "answer": "left",
    }
    over = record("question.expired", {"question_id": "qst_1", "reason": "run_ended", "interaction": ROUTE})
    assert closed_content(over, asked, surface("buttons")).text == "The question is over without an answer."


def test_the_filter_of_a_channel_masks_questions_choices_and_answers() -> None:
    asked = record("question.asked", {**QUESTION, "question": "Strawberry?", "interaction": ROUTE})
    answered = record("question.answered", {"question_id": "qst_1", "answer": "left", "interaction": ROUTE})
    masking = surface("buttons", filter_out=ContentFilter(words=("strawberry", "left"), outcome="mask"))
    shown = opened_content(asked, masking)
    assert shown.card is not None
    assert shown.text.startswith("**********?\n1. ****\n2. right")
    assert shown.card["lines"][0]["text"] == "**********?"
    assert [each["label"] for each in shown.card["buttons"]] == ["****", "right"]
    closed = closed_content(answered, asked, masking)
    assert closed.card is not None
    assert (closed.text, closed.card["answer"]) == ("Answered: ****", "****")


@for_each("word", ["which", "left"])
def test_a_question_that_the_filter_blocks_is_a_sentence_without_buttons(word: str) -> None:
    asked = record("question.asked", {**QUESTION, "interaction": ROUTE})
    answered = record("question.answered", {"question_id": "qst_1", "answer": "left", "interaction": ROUTE})
    blocking = surface("buttons", filter_out=ContentFilter(words=(word,)))
    shown = opened_content(asked, blocking)
    assert (shown.text, shown.card) == ("The answer was withheld by the content filter of this channel.", None)
    assert closed_content(answered, asked, blocking).text == ""


def test_an_approval_shows_the_call_as_it_is_whatever_the_filter_says() -> None:
    asked = record("approval.requested", APPROVAL)
    assert opened_content(asked, surface("buttons", filter_out=ContentFilter(words=("send", "ann")))) == opened_content(
        asked, surface("buttons")
    )


@pytest.mark.parametrize("key", WORDS["en_US"])
def test_each_text_has_the_same_fields_in_each_language(key: str) -> None:
    fields = [{name for _, name, _, _ in string.Formatter().parse(WORDS[locale][key]) if name} for locale in LOCALES]
    assert fields[0] == fields[1]
    assert WORDS["en_US"].keys() == WORDS["zh_Hans"].keys()


async def test_interactions_keep_their_place_between_messages_and_survive_a_rebuild(
    memory_store: Any, posts: Any
) -> None:
    channel = MemoryChannel(Abilities(dedupe="native", supports_buttons=True))
    post = await posts(memory_store, channel=channel)
    asked = {**QUESTION, "run_id": "run_1", "interaction": ROUTE}
    answered = {"question_id": "qst_1", "run_id": "run_1", "answer": "left", "by": "x", "interaction": ROUTE}
    for kind, data in (("question.asked", asked), ("question.answered", answered)):
        made = NewRecord(workspace="default", type=kind, data=encode_data(data), created_ms=post.stage.clock.now_ms())
        await post.stage.journal.commit(Entry(records=[made]))
    post.delivery.wake()
    await post.until(lambda: post.statuses == ["sent", "sent"])
    first, second = channel.tried
    assert (first.operation, second.operation) == ("interaction", "interaction_update")
    assert (first.key, second.key, second.edit_of) == ("qst_1.secret.opened.0", "qst_1.secret.closed.0", "m1")
    before = memory_store.dump_projections()
    rebuild(memory_store)
    assert memory_store.dump_projections() == before
