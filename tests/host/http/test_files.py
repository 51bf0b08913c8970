"""`/files` of a whole host with a real worker: uploads, rights, agents with a file, and runs that read it."""

import hashlib
import os
import socket
import textwrap
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.replacement import replace
from tests.tables import for_each

from bollard.host.clock import SystemClock
from bollard.host.identity.caller import rights_of
from bollard.host.limits import FILE_BYTES
from bollard.host.log.rebuild import rebuild
from bollard.host.settings import Settings
from bollard.host.store.blobs import BlobStore
from bollard.host.store.selection import choose_store

READER = """
    from typing import Annotated

    from pydantic import BaseModel
    from bollard.sdk import AgentAPIException, Form, RunContext, content_of, runner

    class Given(BaseModel):
        manual: Annotated[str | None, Form(type="file")] = None
        others: Annotated[list[str], Form(type="array[file]")] = []

    @runner(
        name="default",
        label="Reader",
        permissions={"files": ["config", "knowledge"], "knowledge_bases": ["list", "retrieve"]},
    )
    async def reader(ctx: RunContext[Given]):
        file_id, _, step = (ctx.input.text or "").partition(" ")
        content, size = b"", None
        try:
            while size is None or len(content) < size:
                wanted, length = file_id or ctx.config.manual, int(step or 64)
                piece = await ctx.api.files.get(wanted, offset=len(content), length=length)
                content, size = content + content_of(piece), piece.size_bytes
        except AgentAPIException as refusal:
            yield ctx.completed(f"{refusal.error.code}: {refusal.error.message}")
            return
        listed = " ".join(sorted(f"{each.file_id}={each.file_name}" for each in ctx.resources.files))
        yield ctx.completed(f"{size} {content[-9:].decode()} [{listed}]")
"""
GRANTED = {"permissions": {"files": ["config"]}, "resources": {}}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, plugin: Path) -> Settings:
    reader = tmp_path_factory.mktemp("plugins") / "reader.py"
    reader.write_text(textwrap.dedent(READER), encoding="utf-8")
    database = request.getfixturevalue("own_schema") if request.param == "postgres" else ""
    data = tmp_path_factory.mktemp("data")
    return Settings(data=data, database=database, plugins=(plugin, reader), builtin_plugins=False, port=0, grace_s=0.5)


@pytest.fixture(scope="module")
def api(settings: Settings, start_module_host: Any, client_of: Any) -> Any:
    host = start_module_host(settings)
    client = client_of(host.port, host.token)
    client.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    return client


def added(api: Any, content: bytes, name: str = "notes.txt", **more: Any) -> Any:
    answer = api.post(f"/api/v1/files?name={name}", content, content_type="text/plain", **more)
    assert answer.status == 201, answer.body
    return answer.json


def said(api: Any, agent: str, text: str) -> str:
    answer = api.tell(agent, text)
    assert answer.status == 202, answer.body
    events = api.read(answer.json["run_id"])
    (message,) = [each.data["data"]["message"] for each in events if each.type == "message.completed"]
    return message["content"]


def uploads_in(data: Path) -> list[str]:
    folder = data / "blobs" / "uploads"
    return os.listdir(folder) if folder.is_dir() else []


def test_a_file_is_added_listed_shown_read_and_removed(api: Any) -> None:
    made = added(api, b"rope,12\n", "prices.csv")
    assert made == {
        "file_id": made["file_id"],
        "name": "prices.csv",
        "mime_type": "text/plain",
        "size_bytes": 8,
        "sha256": hashlib.sha256(b"rope,12\n").hexdigest(),
        "created_at": made["created_at"],
        "created_by": "admin-token",
    }
    path = f"/api/v1/files/{made['file_id']}"
    assert made in api.get("/api/v1/files").json["items"]
    assert api.get(path).json == made
    whole = api.get(f"{path}/content")
    assert (whole.status, whole.body, whole.headers["content-type"]) == (200, b"rope,12\n", "text/plain; charset=utf-8")
    assert whole.headers["content-disposition"] == "attachment; filename*=UTF-8''prices.csv"
    part = api.get(f"{path}/content", range="bytes=5-6")
    assert (part.status, part.body, part.headers["content-range"]) == (206, b"12", "bytes 5-6/8")
    assert api.get(f"{path}/content", if_none_match=whole.headers["etag"]).status == 304
    assert api.get(f"{path}/content", range="bytes=8-").error["code"] == "range_not_satisfiable"
    assert api.delete(path).json == {"file_id": made["file_id"], "deleted": True}
    for gone in (api.get(path), api.get(f"{path}/content"), api.delete(path)):
        assert (gone.status, gone.error["code"]) == (404, "not_found")
    assert made not in api.get("/api/v1/files").json["items"]


def test_an_empty_file_without_a_name_and_a_type_is_accepted(api: Any) -> None:
    answer = api.post("/api/v1/files", b"")
    assert (answer.status, answer.json["size_bytes"], answer.json["name"]) == (201, 0, "file")
    assert answer.json["mime_type"] == "application/octet-stream"
    assert api.get(f"/api/v1/files/{answer.json['file_id']}/content").body == b""


def test_the_audit_names_the_actor_of_each_file_change(api: Any) -> None:
    made = added(api, b"seen")
    api.delete(f"/api/v1/files/{made['file_id']}")
    records = api.get("/api/v1/audit?type=artifact.created,artifact.deleted&limit=2").json["items"]
    deleted, created = records
    assert (deleted["type"], deleted["actor"], deleted["subject"]) == (
        "artifact.deleted",
        "admin-token",
        made["file_id"],
    )
    assert (created["actor"], created["subject"]) == ("admin-token", "notes.txt")
    assert created["digests"] == {"sha256": made["sha256"]}


def test_the_same_key_adds_a_file_once(api: Any) -> None:
    first = added(api, b"once only", idempotency_key="file-1")
    again = api.post("/api/v1/files?name=notes.txt", b"once only", content_type="text/plain", idempotency_key="file-1")
    assert (again.json, again.headers["idempotency-replayed"]) == (first, "true")


@for_each(
    ("query", "media", "field"),
    [
        ("?name=", "text/plain", "name"),
        ("?name=..", "text/plain", "name"),
        ("?name=a/b", "text/plain", "name"),
        ("?name=a%5Cb", "text/plain", "name"),
        ("?name=a%0Ab", "text/plain", "name"),
        (f"?name={'n' * 256}", "text/plain", "name"),
        ("?name=a", "text", "content-type"),
        ("?name=a", f"text/{'p' * 256}", "content-type"),
    ],
)
def test_an_invalid_file_is_refused_by_its_field(api: Any, query: str, media: str, field: str) -> None:
    answer = api.post(f"/api/v1/files{query}", b"x", content_type=media)
    assert (answer.status, answer.error["code"], answer.error["details"]["field"]) == (400, "invalid_argument", field)


def test_viewers_read_and_operators_write(api: Any) -> None:
    made = added(api, b"for some")
    path = f"/api/v1/files/{made['file_id']}"
    asked: list[tuple[str, str, Any]] = [
        ("GET", "/api/v1/files", None),
        ("GET", path, None),
        ("GET", f"{path}/content", None),
        ("POST", "/api/v1/files?name=n", b"x"),
        ("DELETE", path, None),
    ]
    wanted = {"viewer": [200, 200, 200, 403, 403], "operator": [200, 200, 200, 201, 200]}
    for role, statuses in wanted.items():
        rights = sorted(right for right in rights_of(role) if right.startswith("files."))  # type: ignore[arg-type]
        token = api.post("/api/v1/keys", {"name": role, "rights": rights}).json["token"]
        assert [api.send(*each, token=token).status for each in asked] == statuses, role


def test_the_right_to_read_artifacts_reads_no_files(api: Any) -> None:
    made = added(api, b"not with that right")
    for rest in ("", "/content"):
        answer = api.get(f"/api/v1/artifacts/{made['file_id']}{rest}")
        absent = api.get(f"/api/v1/artifacts/art_absent{rest}")
        assert (answer.status, answer.error["message"]) == (404, absent.error["message"])


def test_a_file_larger_than_the_limit_is_refused_and_not_stored(api: Any, settings: Settings) -> None:
    before = api.get("/api/v1/files").json
    said_so = api.post("/api/v1/files?name=huge", None, content_length=str(FILE_BYTES + 1))
    assert (said_so.status, said_so.error["code"]) == (413, "payload_too_large")

    def pieces() -> Any:
        for _ in range(FILE_BYTES // (1 << 20) + 1):
            yield b"x" * (1 << 20)

    sent = api.post("/api/v1/files?name=huge", pieces(), transfer_encoding="chunked")
    assert (sent.status, sent.error["code"]) == (413, "payload_too_large")
    assert str(FILE_BYTES) in sent.error["message"]
    assert api.get("/api/v1/files").json == before
    assert uploads_in(settings.data) == []


def test_a_truncated_upload_leaves_no_file(api: Any, settings: Settings) -> None:
    before = api.get("/api/v1/files").json
    content = b"y" * (3 << 20)
    head = (
        f"POST /api/v1/files?name=cut HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {api.token}\r\n"
        f"content-length: {len(content) + 1}\r\n\r\n"
    )
    with closing(socket.create_connection(("127.0.0.1", api.port))) as line:
        line.sendall(head.encode() + content)
        line.shutdown(socket.SHUT_WR)
        assert b" 201 " not in line.recv(100)
    assert api.get("/api/v1/files").json == before
    api.until("/readyz", lambda _: uploads_in(settings.data) == [])


def test_bytes_after_the_content_length_are_ignored(api: Any) -> None:
    head = (
        f"POST /api/v1/files?name=long HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {api.token}\r\n"
        "content-length: 4\r\nconnection: close\r\n\r\n"
    )
    with closing(socket.create_connection(("127.0.0.1", api.port))) as line:
        line.sendall(head.encode() + b"fourmore")
        assert b" 201 " in line.recv(100)
    (kept,) = [each for each in api.get("/api/v1/files?limit=100").json["items"] if each["name"] == "long"]
    assert kept["size_bytes"] == 4


def test_a_file_with_a_secret_of_the_workspace_is_refused(api: Any, settings: Settings) -> None:
    secret = "correct-horse-battery-staple"
    assert api.put("/api/v1/secrets/horse", {"value": secret}).status in (200, 201)
    before = api.get("/api/v1/files").json
    small = f"the word is {secret}.".encode()
    cut_in_two = b"z" * ((1 << 20) - 9) + secret.encode() + b"z" * (2 << 20)
    for content in (small, cut_in_two):
        answer = api.post("/api/v1/files?name=told", content, content_type="text/plain")
        assert (answer.status, answer.error["code"]) == (400, "invalid_argument")
        assert answer.error["details"]["field"] == "body"
        digest = hashlib.sha256(content).hexdigest()
        assert not (settings.data / "blobs" / "sha256" / digest[:2] / digest).exists()
    named = api.post(f"/api/v1/files?name={secret}", b"x")
    assert (named.status, named.error["details"]["field"]) == (400, "name")
    assert api.get("/api/v1/files").json == before
    assert uploads_in(settings.data) == []


def test_a_run_reads_the_file_of_its_agents_configuration_in_ranges(api: Any) -> None:
    content = b"".join(b"line %06d\n" % number for number in range(30_000))
    made = added(api, content, "manual.txt")
    api.save_agent("given", "reader/default", {"manual": made["file_id"]}, access=GRANTED)
    assert said(api, "given", f" {100_000}") == f"{len(content)} e 029999\n [{made['file_id']}=manual.txt]"
    listed = added(api, b"the other", "other.txt")
    api.save_agent("given", "reader/default", {"others": [made["file_id"], listed["file_id"]]}, access=GRANTED)
    assert said(api, "given", listed["file_id"]).startswith("9 the other [")


def test_a_run_reads_the_file_that_its_agents_policy_adds(api: Any) -> None:
    made = added(api, b"by policy")
    access = {**GRANTED, "resources": {"files": {"add": [made["file_id"]]}}}
    api.save_agent("lent", "reader/default", access=access)
    assert said(api, "lent", made["file_id"]) == f"9 by policy [{made['file_id']}=notes.txt]"


def test_an_ungranted_file_looks_like_an_unknown_one(api: Any) -> None:
    granted, other = added(api, b"mine"), added(api, b"not mine")
    api.save_agent("narrow", "reader/default", {"manual": granted["file_id"]}, access=GRANTED)
    absent = said(api, "narrow", "file_that_never_was")
    assert absent.startswith("not_found: ")
    assert said(api, "narrow", other["file_id"]) == absent
    api.delete(f"/api/v1/files/{granted['file_id']}")
    assert said(api, "narrow", granted["file_id"]) == absent, "deleted, though the configuration still names it"
    nothing = {"permissions": {}, "resources": {}}
    api.save_agent("without", "reader/default", {"manual": other["file_id"]}, access=nothing)
    assert said(api, "without", other["file_id"]).startswith("unauthorized: ")


def test_a_file_is_in_one_workspace(api: Any) -> None:
    made = added(api, b"ours")
    assert api.put("/api/v1/workspaces/files-other", {}).status == 201
    assert api.get("/api/v1/files", bollard_workspace="files-other").json["items"] == []
    answer = api.get(f"/api/v1/files/{made['file_id']}", bollard_workspace="files-other")
    assert (answer.status, answer.error["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("config", "add", "field"),
    [
        ({"manual": "file_absent"}, [], "config.manual"),
        ({"others": ["file_absent"]}, [], "config.others"),
        ({}, ["file_absent"], "policy.access.resources.files"),
    ],
)
def test_an_agent_with_an_absent_file_is_not_saved(api: Any, config: Any, add: list[str], field: str) -> None:
    access = {**GRANTED, "resources": {"files": {"add": add}}}
    body = {"runner_id": "plugin:local/reader/default", "config": config, "policy": {"access": access}}
    answer = api.put("/api/v1/agents/wrong", body)
    assert (answer.status, answer.error["code"], answer.error["details"]["field"]) == (400, "invalid_argument", field)
    assert api.get("/api/v1/agents/wrong").status == 404


def test_a_run_reads_documents_of_its_granted_knowledge_bases(api: Any) -> None:
    for kb_id in ("read", "shut"):
        assert api.put(f"/api/v1/knowledge/{kb_id}", {"name": "Reading"}).status == 201
        document = {"name": "d.md", "text": "A document, whole and as it was given.", "mime_type": "text/markdown"}
        assert api.put(f"/api/v1/knowledge/{kb_id}/documents/d.md", document).status == 202
    both = {"files": ["knowledge"], "knowledge_bases": ["retrieve"]}
    bases = {"knowledge_bases": {"add": ["read"]}}
    api.save_agent("scholar", "reader/default", access={"permissions": both, "resources": bases})
    assert said(api, "scholar", "kb:read/d.md 10") == "38 as given. [kb:read/=Reading]"
    absent = said(api, "scholar", "kb:read/absent.md")
    assert absent.startswith("not_found: ")
    assert [said(api, "scholar", each) for each in ("kb:shut/d.md", "kb:read/", "kb:never/d.md")] == [absent] * 3
    narrowed = {**bases, "files": {"only": []}}
    api.save_agent("scholar", "reader/default", access={"permissions": both, "resources": narrowed})
    assert said(api, "scholar", "kb:read/d.md") == absent
    alone = {"files": ["config"], "knowledge_bases": ["retrieve"]}
    api.save_agent("scholar", "reader/default", access={"permissions": alone, "resources": bases})
    assert said(api, "scholar", "kb:read/d.md") == absent
    listing = {"files": ["knowledge"], "knowledge_bases": ["list"]}
    api.save_agent("scholar", "reader/default", access={"permissions": listing, "resources": bases})
    assert said(api, "scholar", "kb:read/d.md") == absent


def test_files_outlive_a_restart_a_rebuild_and_a_sweep(
    tmp_path: Path, settings: Settings, start_host: Any, client_of: Any
) -> None:
    own = replace(settings, data=tmp_path / "own", database="")
    host = start_host(own)
    api = client_of(host.port, host.token)
    kept, gone = added(api, b"kept " * 500_000, "kept.bin"), added(api, b"gone")
    api.delete(f"/api/v1/files/{gone['file_id']}")
    host.stop()
    store = choose_store("", own.data, SystemClock())
    store.open()
    before = store.dump_projections()
    rebuild(store)
    assert store.dump_projections() == before
    digests = store.artifact_digests("", 100)
    store.close()
    BlobStore(own.data / "blobs").sweep(digests, unreferenced_s=-60)
    again = start_host(own)
    api = client_of(again.port, api.token)
    assert api.get("/api/v1/files").json["items"] == [kept]
    assert api.get(f"/api/v1/files/{kept['file_id']}/content").body == b"kept " * 500_000
