"""`/knowledge` of a whole host, with the real engine in its process: bases, documents, retrievals, and rights."""

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.tables import for_each

from bollard.host.identity.caller import rights_of
from bollard.host.knowledge.limits import DOCUMENT_BYTES
from bollard.host.settings import Settings
from bollard.wire.knowledge_frames import TABLES_FOLDER

READER = """
    from bollard.sdk import AgentAPIException, RunContext, runner

    @runner(name="default", label="Reader", permissions={"knowledge_bases": ["list", "retrieve"]})
    async def reader(ctx: RunContext):
        listed = await ctx.api.knowledge.list()
        names = " ".join(base.kb_id for base in listed)
        kb_id, _, query = (ctx.input.text or "").partition(" ")
        try:
            (chunk,) = await ctx.api.knowledge.retrieve(kb_id, query, top_k=1)
        except AgentAPIException as refusal:
            yield ctx.completed(f"{names}: {refusal.error.code}")
            return
        yield ctx.completed(f"{names}: {chunk.text} ({chunk.source['name']})")
"""
LEAVE = "# Leave\n\n## How much\n\nEverybody has thirty days of leave a year.\n\n## 请假\n\n请假需要提前两周申请。\n"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, plugin: Path) -> Settings:
    reader = tmp_path_factory.mktemp("plugins") / "reader.py"
    reader.write_text(textwrap.dedent(READER), encoding="utf-8")
    database = request.getfixturevalue("own_schema") if request.param == "postgres" else ""
    data = tmp_path_factory.mktemp("data")
    return Settings(data=data, database=database, plugins=(plugin, reader), builtin_plugins=False, port=0, grace_s=0.5)


def put_text(api: Any, kb_id: str, document_id: str, text: str, **more: Any) -> Any:
    body = {"name": document_id, "text": text, "mime_type": "text/markdown", **more}
    answer = api.put(f"/api/v1/knowledge/{kb_id}/documents/{document_id}", body)
    assert answer.status == 202, answer.body
    return indexed(api, kb_id, document_id)


def indexed(api: Any, kb_id: str, document_id: str) -> Any:
    path = f"/api/v1/knowledge/{kb_id}/documents/{document_id}"
    return api.until(path, lambda found: found["status"] in ("ready", "failed"))


def ask(api: Any, kb_id: str, query: str, **more: Any) -> list[Any]:
    answer = api.post(f"/api/v1/knowledge/{kb_id}/retrieve", {"query": query, **more})
    assert answer.status == 200, answer.body
    return answer.json["chunks"]


def test_a_host_without_a_retrieval_starts_no_knowledge_process(api: Any, settings: Settings) -> None:
    assert api.put("/api/v1/knowledge/idle", {}).status == 201
    assert [each["kb_id"] for each in api.get("/api/v1/knowledge").json["items"]] == ["idle"]
    assert not (settings.data / TABLES_FOLDER).exists()


def test_a_host_without_a_retrieval_imports_no_knowledge_modules() -> None:
    seen = "import sys, bollard.host.app; print([n for n in sys.modules if n in %r])"
    heavy = ("bollard.host.knowledge.engine", "bollard.knowledge", "numpy", "wordllama", "pypdf")
    found = subprocess.run([sys.executable, "-c", seen % (heavy,)], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_base_is_saved_changed_and_deleted_with_revisions(api: Any) -> None:
    path = "/api/v1/knowledge/edited"
    made = api.put(path, {"name": "Edited", "description": "To be changed.", "flow": ["private", "untrusted"]})
    assert (made.status, made.headers["etag"]) == (201, '"1"')
    assert made.json == {
        "kb_id": "edited",
        "name": "Edited",
        "description": "To be changed.",
        "embedding": "bundled",
        "chunk_tokens": 320,
        "overlap_tokens": 40,
        "flow": ["private", "untrusted"],
        "rerank_model": None,
        "revision": 1,
    }
    assert api.get(path, if_none_match='"1"').status == 304
    assert api.put(path, {"name": "Again"}, if_match='"1"').json["revision"] == 2
    assert api.put(path, {"name": "Late"}, if_match='"1"').status == 412
    assert api.put(path, {"name": "Late", "revision": 1}).status == 409
    assert api.put(path, {}, if_none_match="*").status == 412
    assert api.put(path, {"chunk_tokens": 3}).error["details"]["field"] == "knowledge.chunk_tokens"
    assert api.put("/api/v1/knowledge/Not%20a%20name", {}).status == 400
    assert api.send("DELETE", path, if_match='"1"').status == 412
    assert api.send("DELETE", path).json == {"kb_id": "edited", "deleted": True, "erased": True}
    assert api.get(path).status == 404


def test_a_document_is_found_by_meaning_and_by_words_in_two_languages(api: Any) -> None:
    assert api.put("/api/v1/knowledge/handbook", {"name": "Handbook"}).status == 201
    document = put_text(api, "handbook", "leave.md", LEAVE, source="https://wiki.example.org/leave")
    assert document["status"] == "ready", document
    assert document["done_chunks"] == document["chunks"] > 0
    first = ask(api, "handbook", "how many days off do I get")[0]
    assert "thirty days" in first["text"]
    assert first["source"]["document_id"] == "leave.md"
    assert first["source"]["source"] == "https://wiki.example.org/leave"
    assert first["kb_id"] == "handbook"
    assert any("提前两周" in chunk["text"] for chunk in ask(api, "handbook", "请假要提前多久"))
    assert ask(api, "handbook", "leave", filters={"language": "en"}) == []


def test_a_file_is_uploaded_unchanged_and_can_be_read_replaced_and_deleted(api: Any) -> None:
    assert api.put("/api/v1/knowledge/files", {}).status == 201
    base, name = "/api/v1/knowledge/files/documents", quote("报告.md")
    meta = quote('{"year":2026,"tags":["a","b"]}')
    sent = api.post(
        f"{base}?name={name}&metadata={meta}", "# 报告\n\n利润增长。".encode(), content_type="text/markdown"
    )
    assert sent.status == 202, sent.body
    document_id = sent.json["document_id"]
    assert (sent.json["name"], sent.json["metadata"]) == ("报告.md", {"year": 2026, "tags": ["a", "b"]})
    assert indexed(api, "files", document_id)["status"] == "ready"
    content = api.get(f"{base}/{document_id}/content")
    assert content.body.decode() == "# 报告\n\n利润增长。"
    assert content.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
    assert content.headers["content-type"] == "application/octet-stream"
    assert api.get(f"{base}/{document_id}/content", if_none_match=content.headers["etag"]).status == 304
    assert len(ask(api, "files", "利润", filters={"year": [2025, 2026], "tags": "b"})) == 1
    put_text(api, "files", document_id, "Profits fell.")
    assert ask(api, "files", "profits")[0]["text"] == "Profits fell."
    assert all("利润" not in chunk["text"] for chunk in ask(api, "files", "利润"))
    gone = api.send("DELETE", f"{base}/{document_id}")
    assert gone.json == {"kb_id": "files", "document_id": document_id, "deleted": True}
    assert ask(api, "files", "profits") == []
    for path in (f"{base}/{document_id}", f"{base}/{document_id}/content"):
        assert api.get(path).status == 404
    assert api.send("DELETE", f"{base}/{document_id}").status == 404


def test_documents_are_paged(api: Any) -> None:
    assert api.put("/api/v1/knowledge/many", {"embedding": "none"}).status == 201
    for number in range(5):
        put_text(api, "many", f"d{number}", f"Number {number}.")
    base, seen, cursor = "/api/v1/knowledge/many/documents", [], ""
    while True:
        page = api.get(f"{base}?limit=2{cursor}").json
        seen += [item["document_id"] for item in page["items"]]
        if not page["has_more"]:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == [f"d{number}" for number in range(5)]
    assert api.get(f"/api/v1/knowledge/handbook/documents?{cursor[1:]}").status in (400, 404)


def test_an_unreadable_document_fails_and_the_others_are_indexed(api: Any) -> None:
    assert api.put("/api/v1/knowledge/mixed", {}).status == 201
    base = "/api/v1/knowledge/mixed/documents"
    assert api.put(f"{base}/broken.pdf", b"%PDF-1.7 and nothing more", content_type="application/pdf").status == 202
    broken = indexed(api, "mixed", "broken.pdf")
    assert broken["status"] == "failed"
    assert broken["error"]
    assert put_text(api, "mixed", "fine", "All is well.")["status"] == "ready"
    assert ask(api, "mixed", "well")[0]["text"] == "All is well."
    assert api.post("/api/v1/knowledge/mixed/reindex").status == 202
    # A document is not found while it is indexed again, and nothing shows when that begins.
    api.until(f"{base}/fine", lambda _: [chunk["text"] for chunk in ask(api, "mixed", "well")] == ["All is well."])


@for_each(
    ("body", "media", "query", "status", "code"),
    [
        (b"x", "application/zip", "?name=a.zip", 415, "unsupported_media_type"),
        (b"x", "application/octet-stream", "?name=a.exe", 415, "unsupported_media_type"),
        (b"x", "text/plain", "", 400, "invalid_argument"),
        (b"x", "text/plain", "?name=a&metadata=%5B1%5D", 400, "invalid_argument"),
        (b"x", "text/plain", "?name=a&metadata=%7B%22a%22%3A%7B%7D%7D", 400, "invalid_argument"),
        (b"x", "text/plain", "?name=a&colour=red", 400, "invalid_argument"),
        (b"{}", "application/json", "", 400, "invalid_argument"),
        (b'{"name":"a","text":"b","mime_type":"application/pdf"}', "application/json", "", 400, "invalid_argument"),
        (b'{"name":"a","text":"b"}', "application/json", "?name=c", 400, "invalid_argument"),
        (b'{"name":"a","text":"b","document_id":"../up"}', "application/json", "", 400, "invalid_argument"),
    ],
)
def test_an_invalid_document_is_refused_with_its_reason(
    api: Any, body: bytes, media: str, query: str, status: int, code: str
) -> None:
    api.put("/api/v1/knowledge/refusing", {})
    answer = api.post(f"/api/v1/knowledge/refusing/documents{query}", body, content_type=media)
    assert (answer.status, answer.error["code"]) == (status, code)


def test_a_document_beyond_its_limit_is_refused_and_a_large_one_is_accepted(api: Any) -> None:
    api.put("/api/v1/knowledge/large", {"embedding": "none"})
    base = "/api/v1/knowledge/large/documents"
    over = api.put(
        f"{base}/over?name=over.txt", b"x", content_type="text/plain", content_length=str(DOCUMENT_BYTES + 1)
    )
    assert (over.status, over.error["code"]) == (413, "payload_too_large")
    text = ("All work and no play.\n\n" * 50_000).encode()
    kept = api.put(f"{base}/some?name=some.txt", text, content_type="text/plain")
    assert (kept.status, kept.json["size_bytes"]) == (202, len(text))
    assert api.send("DELETE", f"{base}/some").status == 200


@for_each(
    ("body", "field"),
    [
        ({}, "query"),
        ({"query": ""}, "query"),
        ({"query": "x", "top_k": 51}, "top_k"),
        ({"query": "x", "filters": {"a": {}}}, "filters.a"),
        ({"query": "x", "colour": 1}, "colour"),
    ],
)
def test_an_invalid_retrieval_is_refused_by_its_field(api: Any, body: Any, field: str) -> None:
    api.put("/api/v1/knowledge/refusing", {})
    answer = api.post("/api/v1/knowledge/refusing/retrieve", body)
    assert (answer.status, answer.error["details"]["field"]) == (400, field)


def test_viewers_read_members_retrieve_and_operators_edit(api: Any) -> None:
    api.put("/api/v1/knowledge/rights", {})
    put_text(api, "rights", "d", "A word.")
    base = "/api/v1/knowledge/rights"
    asked: list[tuple[str, str, Any]] = [
        ("GET", base, None),
        ("GET", f"{base}/documents/d", None),
        ("POST", f"{base}/retrieve", {"query": "word"}),
        ("GET", f"{base}/documents/d/content", None),
        ("PUT", f"{base}/documents/d", {"name": "d", "text": "A word."}),
        ("POST", f"{base}/reindex", {}),
    ]
    wanted = {
        "viewer": [200, 200, 403, 403, 403, 403],
        "member": [200, 200, 200, 200, 403, 403],
        "operator": [200, 200, 200, 200, 202, 202],
    }
    for role, statuses in wanted.items():
        rights = sorted(right for right in rights_of(role) if right.startswith("knowledge."))  # type: ignore[arg-type]
        token = api.post("/api/v1/keys", {"name": role, "rights": rights}).json["token"]
        assert [api.send(*each, token=token).status for each in asked] == statuses, role


def test_a_run_queries_the_knowledge_bases_of_its_agent_only(api: Any) -> None:
    api.until_health(lambda health: health["plugins"]["reader"]["status"] == "ready")
    for kb_id, text in (("open", "The office opens at nine."), ("closed", "The safe is behind the picture.")):
        assert api.put(f"/api/v1/knowledge/{kb_id}", {}).status == 201
        put_text(api, kb_id, "note.md", text)
    bases = {"knowledge_bases": {"add": ["open"]}}
    access = {"permissions": {"knowledge_bases": ["list", "retrieve"]}, "resources": bases}
    api.save_agent("clerk", "reader/default", access=access)
    for text, said in (
        ("open when does it open", "open: The office opens at nine. (note.md)"),
        ("closed where is the safe", "open: not_found"),
        ("absent where is the safe", "open: not_found"),
    ):
        run_id = api.tell("clerk", text).json["run_id"]
        events = api.read(run_id)
        (message,) = [each.data["data"]["message"] for each in events if each.type == "message.completed"]
        assert message["content"] == said
    metrics = api.get("/metrics").body.decode()
    assert 'bollard_retrievals_total{outcome="ok"} 1' in metrics
    assert "bollard_retrieval_seconds_count 1" in metrics, "refused queries reach no base"


def test_a_base_and_its_documents_survive_a_restart_and_a_deleted_one_does_not(
    start_host: Any, client_of: Any, tmp_path: Path
) -> None:
    own = Settings(data=tmp_path / "own", plugins=(), builtin_plugins=False, port=0, grace_s=0.5)
    host = start_host(own)
    api = client_of(host.port, host.token)
    token = host.token
    for kb_id in ("kept", "lost"):
        api.put(f"/api/v1/knowledge/{kb_id}", {})
        put_text(api, kb_id, "d", f"The {kb_id} canary sings.")
    assert api.send("DELETE", "/api/v1/knowledge/lost").json["erased"]
    host.stop()
    again = start_host(own)
    api = client_of(again.port, token)
    assert ask(api, "kept", "canary")[0]["text"] == "The kept canary sings."
    assert api.post("/api/v1/knowledge/lost/retrieve", {"query": "canary"}).status == 404
    assert api.put("/api/v1/knowledge/lost", {}).status == 201
    assert ask(api, "lost", "canary") == []
