"""The transcript on every store: pages, scope and search."""

import pytest

from bollard.host.store.rows import PutTranscript
from bollard.host.store.search_text import segment, terms

HOSTILE = [
    "%",
    "_",
    "\\",
    '"',
    "*",
    "NEAR",
    "AND",
    "OR NOT",
    ":",
    "(",
    ")",
    "a OR canary",
    'x" OR "canary',
    "place:canary",
    "canary*",
    "-canary",
    "^canary",
    "search : canary",
    "{place search} : canary",
    "NEAR(canary canary, 9)",
    "'",
    "x' | 'canary",
    "!canary",
    "<->",
    ":*",
    "canary:*",
    "\0",
    "ﬀ",
    "😀",
    "%canary%",
    "'; DROP TABLE transcript; --",
]


def texts(rows):
    return [row.content for row in rows]


def test_a_message_comes_back_as_it_was_said(store, make, apply):
    row = make.said(7, "héllo 你好", bot="b", thread="t", run_id="r", content_json=b'{"x":1}')
    apply(store, PutTranscript(row))
    assert store.transcript(make.room(bot="b", thread="t")) == [row]


def test_a_message_that_is_put_again_replaces_itself_in_search_too(store, make, apply):
    apply(store, PutTranscript(make.said(1, "apples")))
    apply(store, PutTranscript(make.said(1, "pears")))
    assert texts(store.transcript(make.room())) == ["pears"]
    assert store.search(make.room(), ["apples"]) == []
    assert texts(store.search(make.room(), ["pears"])) == ["pears"]


def test_pages_go_backward_and_forward_between_exclusive_ends(store, make, say):
    say(store, *"abcdefgh")
    assert texts(store.transcript(make.room(3))) == ["h", "g", "f"]
    assert texts(store.transcript(make.room(3, before=6))) == ["e", "d", "c"]
    assert texts(store.transcript(make.room(3, forward=True))) == ["a", "b", "c"]
    assert texts(store.transcript(make.room(3, after=3, forward=True))) == ["d", "e", "f"]
    assert texts(store.transcript(make.room(9, after=3, before=7))) == ["f", "e", "d"]


def test_only_the_exact_place_is_seen(store, make, apply):
    places = [
        {},
        {"workspace": "other"},
        {"bot": "b"},
        {"bot": ""},
        {"conversation": "room2"},
        {"thread": "t"},
        {"conversation": None},
        {"conversation": "room", "thread": "", "bot": None},
    ]
    for seq, place in enumerate(places, start=1):
        apply(store, PutTranscript(make.said(seq, f"canary {seq}", **place)))
    for seq, place in enumerate(places, start=1):
        assert [row.seq for row in store.transcript(make.room(**place))] == [seq]
        assert [row.seq for row in store.search(make.room(**place), ["canary"])] == [seq]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("report", {1}),
        ("REPORT weekly", {1}),
        ("report missing", set()),
        ("会议", {2, 3}),
        ("会议记录", {2}),
        ("记录", {2}),
        ("议", {2, 3}),
        ("录", {2}),
        ("会", {2, 3}),
        ("议会", set()),
        ("meeting 会议", {3}),
        ("rep", set()),
        ("４２", {4}),
        ("größe", {4}),
    ],
)
def test_search_finds_english_words_and_chinese_of_any_length(store, make, say, query, found):
    say(store, "The weekly report.", "昨天的会议记录", "meeting 开会议", "GRÖSSE 42")
    assert {row.seq for row in store.search(make.room(), terms(query))} == found


def test_search_without_a_term_finds_nothing(store, make, say):
    say(store, "anything")
    assert store.search(make.room(), []) == []


def test_search_shows_the_best_first_and_of_equals_the_newest(store, make, say):
    filler = " ".join(f"word{index}" for index in range(60))
    say(store, f"{filler} tea", "tea tea tea", f"{filler} tea", "nothing")
    assert [row.seq for row in store.search(make.room(), ["tea"])] == [2, 3, 1]
    assert [row.seq for row in store.search(make.room(1), ["tea"])] == [2]


def test_search_keeps_to_its_window(store, make, say):
    say(store, "tea", "tea", "tea", "tea")
    assert {row.seq for row in store.search(make.room(after=1, before=4), ["tea"])} == {2, 3}


@pytest.mark.parametrize("query", HOSTILE)
def test_hostile_searches_find_no_more_than_their_words_in_their_place(store, make, apply, query):
    apply(store, PutTranscript(make.said(1, "canary", conversation="foreign")))
    apply(store, PutTranscript(make.said(2, "innocent words: a near miss, and more")))
    rows = store.search(make.room(), terms(query))
    wanted = set(terms(query))
    expected = [2] if wanted and wanted <= set(segment("innocent words: a near miss, and more").split()) else []
    assert [row.seq for row in rows] == expected


@pytest.mark.parametrize("term", HOSTILE)
def test_terms_that_nobody_cut_are_still_only_text(store, make, apply, term):
    apply(store, PutTranscript(make.said(1, "canary", conversation="foreign")))
    apply(store, PutTranscript(make.said(2, "innocent")))
    assert all(row.seq != 1 for row in store.search(make.room(), [term, "innocent"]))
    assert store.search(make.room(), [term, "missing"]) == []


def test_text_with_a_nul_is_kept_as_well_as_the_database_can(store, make, apply):
    apply(store, PutTranscript(make.said(1, "a\0b tea")))
    (row,) = store.transcript(make.room())
    assert row.content in ("a\0b tea", "a\ufffdb tea")
    assert store.search(make.room(), ["tea"]) == [row]


def test_a_huge_message_is_kept_whole_and_found_by_its_beginning(store, make, apply):
    huge = "start " + "".join(map(chr, range(0x4E00, 0x9FFF))) * 10 + " " + " ".join(f"w{i}" for i in range(50_000))
    apply(store, PutTranscript(make.said(1, huge)))
    assert texts(store.search(make.room(), ["start"])) == [huge]
