"""The transcript on every store: pages, scope and search."""

import pytest

from bollard.host.store.rows import PutRun, PutTranscript
from bollard.segments import clauses, segment, terms

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


def test_a_message_reads_back_the_same(store, make, apply):
    row = make.said(7, "héllo 你好", bot="b", thread="t", run_id="r", content_json=b'{"x":1}')
    apply(store, PutTranscript(row))
    assert store.transcript(make.room(bot="b", thread="t")) == [row]


def test_a_repeated_message_replaces_itself_also_in_search(store, make, apply):
    apply(store, PutTranscript(make.said(1, "apples")))
    apply(store, PutTranscript(make.said(1, "pears")))
    assert texts(store.transcript(make.room())) == ["pears"]
    assert store.search(make.room(), [("apples",)]) == []
    assert texts(store.search(make.room(), [("pears",)])) == ["pears"]


def test_pages_run_backward_and_forward_between_exclusive_ends(store, make, say):
    say(store, *"abcdefgh")
    assert texts(store.transcript(make.room(3))) == ["h", "g", "f"]
    assert texts(store.transcript(make.room(3, before=6))) == ["e", "d", "c"]
    assert texts(store.transcript(make.room(3, forward=True))) == ["a", "b", "c"]
    assert texts(store.transcript(make.room(3, after=3, forward=True))) == ["d", "e", "f"]
    assert texts(store.transcript(make.room(9, after=3, before=7))) == ["f", "e", "d"]


def test_a_query_sees_only_its_own_thread(store, make, apply):
    places = [
        {},
        {"workspace": "other"},
        {"bot": "b"},
        {"bot": ""},
        {"conversation": "room2"},
        {"thread": "t"},
        {"conversation": "room", "thread": "", "bot": None},
    ]
    for seq, place in enumerate(places, start=1):
        apply(store, PutTranscript(make.said(seq, f"canary {seq}", **place)))
    nowhere = make.said(99, "canary 99", conversation=None)  # no query asks for a place without a conversation
    apply(store, PutTranscript(nowhere))
    for seq, place in enumerate(places, start=1):
        assert [row.seq for row in store.transcript(make.room(**place))] == [seq]
        assert [row.seq for row in store.search(make.room(**place), [("canary",)])] == [seq]


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
    assert {row.seq for row in store.search(make.room(), clauses(query))} == found


def test_a_chinese_query_finds_its_words_apart_and_ranks_them_together_first(store, make, say):
    say(store, "杭州划船", "杭州西湖划船", "划船", "苏州划船")
    assert [row.seq for row in store.search(make.room(), clauses("杭州划船"))] == [1, 2]


def test_a_search_in_a_workspace_covers_its_conversations_newest_first(store, make, apply):
    for seq, place in enumerate(({}, {"conversation": "other"}, {"thread": "t"}, {"workspace": "far"}), start=1):
        apply(store, PutTranscript(make.said(seq, "杭州西湖划船 tea", **place)))
    apply(store, PutTranscript(make.said(5, "杭州西湖划船 tea", conversation=None)))
    workspace = make.room().workspace
    for query in ("tea", "杭州划船", "tea 划船"):
        assert [row.seq for row in store.search_workspace(workspace, clauses(query), None, 10)] == [3, 2, 1]
    assert [row.seq for row in store.search_workspace(workspace, clauses("tea"), 3, 1)] == [2]
    assert store.search_workspace(workspace, clauses("coffee"), None, 10) == []
    assert store.search_workspace(workspace, [], None, 10) == []


def test_a_search_without_a_term_finds_nothing(store, make, say):
    say(store, "anything")
    assert store.search(make.room(), []) == []


def test_hits_are_ordered_by_rank_and_then_newest_first(store, make, say):
    filler = " ".join(f"word{index}" for index in range(60))
    say(store, f"{filler} tea", "tea tea tea", f"{filler} tea", "nothing")
    assert [row.seq for row in store.search(make.room(), [("tea",)])] == [2, 3, 1]
    assert [row.seq for row in store.search(make.room(1), [("tea",)])] == [2]


def test_a_search_stays_within_its_window(store, make, say):
    say(store, "tea", "tea", "tea", "tea")
    assert {row.seq for row in store.search(make.room(after=1, before=4), [("tea",)])} == {2, 3}


@pytest.mark.parametrize("query", HOSTILE)
def test_hostile_searches_find_only_their_words_in_their_conversation(store, make, apply, query):
    apply(store, PutTranscript(make.said(1, "canary", conversation="foreign")))
    apply(store, PutTranscript(make.said(2, "innocent words: a near miss, and more")))
    rows = store.search(make.room(), clauses(query))
    wanted = set(terms(query))
    expected = [2] if wanted and wanted <= set(segment("innocent words: a near miss, and more").split()) else []
    assert [row.seq for row in rows] == expected


@pytest.mark.parametrize("term", HOSTILE)
def test_raw_terms_are_searched_as_text(store, make, apply, term):
    apply(store, PutTranscript(make.said(1, "canary", conversation="foreign")))
    apply(store, PutTranscript(make.said(2, "innocent")))
    assert all(row.seq != 1 for row in store.search(make.room(), [(term,), ("innocent",)]))
    assert store.search(make.room(), [(term,), ("missing",)]) == []


def test_text_with_a_nul_is_stored_as_far_as_the_database_allows(store, make, apply):
    apply(store, PutTranscript(make.said(1, "a\0b tea")))
    (row,) = store.transcript(make.room())
    assert row.content in ("a\0b tea", "a\ufffdb tea")
    assert store.search(make.room(), [("tea",)]) == [row]


def test_a_huge_message_is_stored_completely_and_found_by_its_beginning(store, make, apply):
    huge = "start " + "".join(map(chr, range(0x4E00, 0x9FFF))) * 10 + " " + " ".join(f"w{i}" for i in range(50_000))
    apply(store, PutTranscript(make.said(1, huge)))
    assert texts(store.search(make.room(), [("start",)])) == [huge]


def test_a_read_is_filtered_by_role_and_time(store, make, apply):
    rows = [make.said(number, "parrot", role=("user", "assistant")[number % 2]) for number in range(1, 7)]
    apply(store, *(PutTranscript(row) for row in rows))

    def found(**narrowed):
        query = make.room(forward=True, **narrowed)
        hits = sorted(row.seq for row in store.search(query, [("parrot",)]))
        assert [row.seq for row in store.transcript(query)] == hits
        return hits

    assert found(role="user") == [2, 4, 6]
    assert found(role="nobody' OR '1' = '1") == []
    assert found(before_ms=rows[2].created_ms) == [1, 2]
    assert found(after_ms=rows[2].created_ms) == [4, 5, 6]
    assert found(role="user", before_ms=rows[4].created_ms, after_ms=rows[0].created_ms) == [2, 4]
    assert found(role="user", after=2, before=6) == [4]
    assert [row.seq for row in store.search(make.room(limit=1, role="user"), [("parrot",)])] == [6]


def test_the_threads_of_a_conversation_come_from_its_newest_runs(store, make, apply):
    def run(number, thread, **more):
        return PutRun(make.run(f"r{number}", thread=thread, created_ms=number, **more))

    apply(store, run(1, "old"), run(2, "a"), run(3, None), run(4, "b"), run(5, "a"))
    apply(store, run(6, "c", conversation="other"), run(7, "d", workspace="v"), run(8, "e", bot="b"))
    assert store.threads("w", None, "room", 10) == ["a", "b", None, "old"]
    assert store.threads("w", None, "room", 4) == ["a", "b", None], "the run of another bot is looked at too"
    assert store.threads("w", "b", "room", 10) == ["e"]
    assert store.threads("w", None, "nowhere", 10) == []
