"""Every list has pages: a limit, a signed cursor, and no item twice or missing."""

from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.api import operations
from bollard.host.clock import SystemClock
from bollard.host.settings import Settings
from bollard.host.store.blobs import BlobStore
from bollard.host.store.rows import ArtifactRow, PutArtifact
from bollard.host.store.selection import choose_store

COUNT = 5


@pytest.fixture(scope="module")
def full(api: Any) -> Any:
    """A host that has some of everything."""
    for number in range(COUNT):
        api.save_agent(f"agent-{number}")
        body = {"agent_id": "parrot", "scope": {"conversation": f"bound-{number}"}}
        assert api.put(f"/api/v1/bindings/binding-{number}", body).status == 201
        assert api.post(f"/api/v1/files?name=file-{number}", b"x" * number).status == 201
        api.ended(api.say(f"hello {number}", conversation=f"talk-{number}", actor={"id": "ada"}))
    for number in range(COUNT):
        api.ended(api.say(f"more {number}", conversation="long talk"))
    return api


def paged(api: Any, path: str, limit: int = 2) -> list[Any]:
    """All items, page by page."""
    items: list[Any] = []
    cursor = ""
    while True:
        mark = "&" if "?" in path else "?"
        answer = api.get(f"{path}{mark}limit={limit}{cursor}")
        assert answer.status == 200, answer.body
        page = answer.json
        assert len(page["items"]) <= limit
        items += page["items"]
        assert ("next_cursor" in page) == page["has_more"]
        if not page["has_more"]:
            return items
        cursor = f"&cursor={page['next_cursor']}"


LISTS = [
    ("/api/v1/runs", "run_id"),
    ("/api/v1/runs?agent=parrot", "run_id"),
    ("/api/v1/runs?status=completed", "run_id"),
    ("/api/v1/runs?conversation=long%20talk", "run_id"),
    ("/api/v1/agents", "agent_id"),
    ("/api/v1/bindings", "binding_id"),
    ("/api/v1/files", "file_id"),
    ("/api/v1/runners", "runner_id"),
    ("/api/v1/events", "event_id"),
    ("/api/v1/conversations", "last_seq"),
    ("/api/v1/conversations/long%20talk/messages", "transcript_id"),
    ("/api/v1/conversations/search?q=hello", "transcript_id"),
    ("/api/v1/conversations/search?q=more", "transcript_id"),
]


@for_each(("path", "key"), LISTS)
def test_pages_return_every_item_once_in_order(full: Any, path: str, key: str) -> None:
    mark = "&" if "?" in path else "?"
    whole = full.get(f"{path}{mark}limit=100").json
    assert (whole["has_more"], len(whole["items"]) >= 1) == (False, True)
    keys = [item[key] for item in whole["items"]]
    assert len(set(keys)) == len(keys)
    for limit in (1, 2, 3, len(keys), 100):
        assert [item[key] for item in paged(full, path, limit)] == keys


def test_records_of_a_run_are_paged_by_number_or_by_cursor(full: Any) -> None:
    run_id = full.get("/api/v1/runs?limit=1").json["items"][0]["run_id"]
    path = f"/api/v1/runs/{run_id}/records"
    whole = full.get(f"{path}?limit=100").json["items"]
    assert paged(full, path, 1) == whole
    assert full.get(f"{path}?after={whole[0]['seq']}").json["items"] == whole[1:]
    cursor = full.get(f"{path}?limit=1").json["next_cursor"]
    both = full.get(f"{path}?after=1&cursor={cursor}")
    assert (both.status, both.error["details"]["field"]) == (400, "after")


@for_each(("path", "key"), LISTS)
def test_a_cursor_is_valid_for_its_own_list_only(full: Any, path: str, key: str) -> None:
    del key
    mark = "&" if "?" in path else "?"
    foreign = full.get("/api/v1/agents?limit=1").json["next_cursor"]
    wrong = [foreign] if not path.startswith("/api/v1/agents") else []
    for cursor in (*wrong, "x", "", foreign[:-2], foreign[:-4] + "AAAA", "é"):
        answer = full.get(f"{path}{mark}cursor={cursor.encode().hex() if cursor == 'é' else cursor}")
        assert (answer.status, answer.error["code"]) == (400, "invalid_argument"), cursor
        assert answer.error["details"]["field"] == "cursor"


@for_each(("path", "key"), LISTS)
@for_each("query", ["limit=0", "limit=101", "limit=x", "limit=", "limt=3", "limit=1&limit=1"])
def test_an_invalid_page_request_is_refused_with_a_hint(full: Any, path: str, key: str, query: str) -> None:
    del key
    answer = full.get(f"{path}{'&' if '?' in path else '?'}{query}")
    assert (answer.status, answer.error["code"]) == (400, "invalid_argument")
    assert answer.error["details"]["field"] in ("limit", "limt")
    assert answer.error["hint"]


def test_an_unknown_run_status_is_refused(full: Any) -> None:
    answer = full.get("/api/v1/runs?status=foo")
    assert (answer.status, answer.error["details"]["field"]) == (400, "status")
    assert "completed" in answer.error["hint"]


def test_every_list_is_covered_by_the_paging_tests() -> None:
    """A list takes a cursor; other lists are tested with their resources."""
    here = {path.partition("?")[0].replace("long%20talk", "{conversation_id}") for path, _ in LISTS}
    people = ("identity", "users", "keys", "workspaces", "actors", "sessions")
    things = (
        *("plugins", "channels", "subscriptions", "runtimes", "deliveries", "secrets", "skills", "mcp"),
        *("models", "knowledge", "hooks", "bots", "catalogue"),
    )
    elsewhere = (*people, *things, "schedules", "calls", "questions", "capabilities", "approvals", "audit")
    lists = {each.path for each in operations() if any(field.name == "cursor" for field in each.query)}
    assert {path for path in lists if not any(f"/{name}" in path for name in elsewhere)} == {
        *here,
        "/api/v1/runs/{run_id}/records",
    }


# --- conversations ---


def test_conversations_are_listed_newest_first(full: Any) -> None:
    items = full.get("/api/v1/conversations").json["items"]
    assert [item["conversation_id"] for item in items] == [
        "long talk",
        *(f"talk-{number}" for number in reversed(range(COUNT))),
    ]
    full.ended(full.say("again", conversation="talk-0", thread="side"))
    newest = full.get("/api/v1/conversations?limit=1").json["items"][0]
    assert (newest["conversation_id"], newest["thread_id"], newest["bot_id"]) == ("talk-0", "side", None)


def test_the_title_of_a_conversation_is_the_first_line_of_its_oldest_message(full: Any) -> None:
    full.ended(full.say(f"\n  a  title {'很' * 100}\nsecond line", conversation="titled"))
    full.ended(full.say("later", conversation="titled"))
    listed = full.get("/api/v1/conversations?limit=1").json["items"][0]
    assert (listed["conversation_id"], listed["title"]) == ("titled", f"a title {'很' * 71}…")


def test_messages_are_those_of_the_requested_thread(full: Any) -> None:
    full.ended(full.say("in a thread", conversation="threads", thread="t/1"))
    full.ended(full.say("outside", conversation="threads"))
    outside = full.get("/api/v1/conversations/threads/messages").json["items"]
    inside = full.get("/api/v1/conversations/threads/messages?thread=t%2F1").json["items"]
    assert [item["content"] for item in reversed(outside)] == ["outside", "outside "]
    assert [(item["role"], item["content"]) for item in reversed(inside)] == [
        ("user", "in a thread"),
        ("assistant", "in a thread "),
    ]
    assert {item["thread_id"] for item in inside} == {"t/1"}


def test_a_conversation_may_have_any_name(full: Any) -> None:
    full.ended(full.say("x", conversation="a/b c?d#é"))
    items = full.get("/api/v1/conversations/a%2Fb%20c%3Fd%23%C3%A9/messages").json["items"]
    assert [item["conversation_id"] for item in items] == ["a/b c?d#é"] * 2


def test_absent_conversations_all_look_the_same(full: Any) -> None:
    answers = [
        full.get("/api/v1/conversations/nowhere/messages"),
        full.get("/api/v1/conversations/threads/messages?bot=other"),
        full.get("/api/v1/conversations/" + "x" * 900 + "/messages"),
    ]
    assert {answer.status for answer in answers} == {404}
    assert len({answer.body for answer in answers}) == 1


def test_the_cursor_of_a_message_continues_after_it(full: Any) -> None:
    path = "/api/v1/conversations/long%20talk/messages"
    items = full.get(path).json["items"]
    behind = full.get(f"{path}?cursor={items[2]['cursor']}").json["items"]
    assert behind == items[3:]


# --- events ---


def test_an_event_reads_back_with_its_content(full: Any) -> None:
    body = {
        "source": "forge",
        "id": "delivery-1",
        "type": "webhook.received",
        "agent": "parrot",
        "text": "hi",
        "data": {"n": [1, None]},
        "subject_id": "issue-7",
    }
    told = full.post("/api/v1/events", body).json
    event = full.get(f"/api/v1/events/{told['event_id']}").json
    assert (event["source"], event["id"], event["type"]) == ("forge", "delivery-1", "webhook.received")
    assert (event["run_id"], event["dispatch"], event["subject_id"]) == (told["run_id"], "run", "issue-7")
    assert (event["content"]["text"], event["content"]["data"]) == ("hi", {"n": [1, None]})
    assert event["event_id"] in [item["event_id"] for item in full.get("/api/v1/events?limit=3").json["items"]]


def test_a_dropped_event_has_a_reason(full: Any) -> None:
    told = full.post("/api/v1/events", {"source": "forge", "id": "nobody", "type": "nothing.binds"}).json
    assert told["run_id"] is None
    event = full.get(f"/api/v1/events/{told['event_id']}").json
    assert (event["dispatch"], event["reason"]) == ("dropped", told["reason"])


def test_absent_events_all_look_the_same(full: Any) -> None:
    answers = [full.get(f"/api/v1/events/{name}") for name in ("evt_x", "y" * 300, "%00")]
    assert {answer.status for answer in answers} == {404}
    assert len({answer.body for answer in answers}) == 1


# --- artifacts ---

CONTENT = bytes(range(256)) * 20_000
"""Larger than one read."""


@pytest.fixture(scope="module")
def artifact(full: Any, settings: Settings) -> Any:
    digest = BlobStore(settings.data / "blobs").put(CONTENT)
    row = ArtifactRow(
        artifact_id="art_1",
        workspace="default",
        run_id=None,
        runner_id=None,
        conversation=None,
        type="file",
        mime_type="text/html",
        name='a "b"/é.html',
        size_bytes=len(CONTENT),
        sha256=digest,
        source="runner",
        created_ms=1_700_000_000_000,
        expires_ms=None,
        metadata=b"{}",
    )
    store = choose_store(settings.database, settings.data, SystemClock())
    store.open()
    with store.write() as transaction:
        transaction.apply([PutArtifact(row)])
    store.close()
    return full


PATH = "/api/v1/artifacts/art_1"


def test_an_artifact_has_metadata_and_complete_content(artifact: Any) -> None:
    known = artifact.get(PATH).json
    assert (known["artifact_id"], known["size_bytes"], known["mime_type"]) == ("art_1", len(CONTENT), "text/html")
    answer = artifact.get(f"{PATH}/content")
    assert (answer.status, answer.body == CONTENT) == (200, True)
    assert answer.headers["content-length"] == str(len(CONTENT))
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20%22b%22%2F%C3%A9.html"
    assert answer.headers["etag"] == f'"{known["sha256"]}"'
    assert artifact.get(f"{PATH}/content", if_none_match=answer.headers["etag"]).status == 304
    head = artifact.send("HEAD", f"{PATH}/content")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(CONTENT)))


@pytest.mark.parametrize(
    ("header", "first", "end"),
    [("bytes=0-9", 0, 10), ("bytes=1048570-1048590", 1048570, 1048591), ("bytes=-5", -5, None), ("bytes=9-", 9, None)],
)
def test_a_range_request_returns_exactly_its_bytes(artifact: Any, header: str, first: int, end: int | None) -> None:
    answer = artifact.get(f"{PATH}/content", range=header)
    assert (answer.status, answer.body == CONTENT[first:end]) == (206, True)
    start = first % len(CONTENT)
    assert answer.headers["content-range"] == f"bytes {start}-{start + len(answer.body) - 1}/{len(CONTENT)}"


def test_a_range_beyond_the_content_is_refused(artifact: Any) -> None:
    answer = artifact.get(f"{PATH}/content", range=f"bytes={len(CONTENT)}-")
    assert (answer.status, answer.error["code"]) == (416, "range_not_satisfiable")
    assert answer.error["details"]["size"] == len(CONTENT)
    other = artifact.get(f"{PATH}/content", range="bytes=0-1", if_range='"other"')
    assert (other.status, other.body == CONTENT) == (200, True)


def test_absent_artifacts_all_look_the_same(artifact: Any) -> None:
    for rest in ("", "/content"):
        answers = [artifact.get(f"/api/v1/artifacts/{name}{rest}") for name in ("art_x", "y" * 300, "%00")]
        assert {answer.status for answer in answers} == {404}
        assert len({answer.body for answer in answers}) == 1


@for_each("said", ["text/\u6f22", "text/x\r\nx-evil: 1", "no type", "text/x; a=\u00e9", "a" * 300])
def test_a_content_type_that_is_invalid_as_a_header_is_sent_as_bytes(api: Any, said: str) -> None:
    event = {"specversion": "1.0", "id": said[:9], "source": "types", "type": "x.y", "datacontenttype": said}
    sent = {**event, "data_base64": "aGVsbG8="}
    taken = api.post("/api/v1/events", sent, content_type="application/cloudevents+json")
    assert taken.status == 202, taken.body
    raw = api.get(f"/api/v1/events/{taken.json['event_id']}").json["content"]["raw"]
    answer = api.get(f"/api/v1/artifacts/{raw['artifact_id']}/content")
    assert (answer.status, answer.body) == (200, b"hello")
    assert answer.headers["content-type"] in ("application/octet-stream", "text/x; charset=utf-8")
    assert "x-evil" not in answer.headers
