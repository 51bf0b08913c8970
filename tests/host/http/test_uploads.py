"""`POST /artifacts` and `/uploads` of a whole host: files for messages, whole and in pieces, and bad ones."""

import hashlib
import socket
from contextlib import closing
from itertools import count
from typing import Any

import pytest
from tests.tables import for_each

AGENT = "workshop.carrier"
TEXT = b"quarter,revenue\n1,12\n"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40
_rooms = count()


@pytest.fixture
def room() -> str:
    return f"uploads-{next(_rooms)}"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def upload(
    shop: Any, room: str, content: bytes = TEXT, query: str = "&name=notes.txt", kind: str = "text/plain"
) -> Any:
    return shop.post(f"/api/v1/artifacts?conversation={room}{query}", content, content_type=kind)


def key_of(shop: Any, name: str) -> str:
    return shop.post("/api/v1/keys", {"name": name, "rights": ["runs.create", "artifacts.read"]}).json["token"]


def begin(shop: Any, room: str, content: bytes, **more: Any) -> str:
    body = {"conversation": room, "name": "notes.txt", "mime_type": "text/plain", "size_bytes": len(content), **more}
    answer = shop.post("/api/v1/uploads", body)
    assert answer.status == 201, answer.body
    return answer.json["upload_id"]


def append(shop: Any, upload_id: str, offset: int | str, content: bytes) -> Any:
    return shop.send("PATCH", f"/api/v1/uploads/{upload_id}", content, upload_offset=str(offset))


def attach(shop: Any, artifact_id: str, room: str, **more: Any) -> Any:
    given = {"text": "read it", "attachments": [{"artifact_id": artifact_id, "artifact_type": "file"}]}
    return shop.post("/api/v1/runs", {"agent": AGENT, "input": given, "conversation": room, **more})


def said(shop: Any, run_id: str) -> list[str]:
    events = [event.data["data"] for event in shop.read(run_id) if event.type == "message.completed"]
    return [event["message"]["content"] for event in events if event["message"]["content"] != "carrying "]


def test_a_message_attaches_an_uploaded_file_and_its_run_reads_it(shop: Any, room: str) -> None:
    made = upload(shop, room, query=f"&name=notes.txt&sha256={digest(TEXT)}")
    assert made.status == 201, made.body
    assert (made.json["name"], made.json["size_bytes"], made.json["sha256"]) == ("notes.txt", len(TEXT), digest(TEXT))
    unused = shop.get(f"/api/v1/artifacts/{made.json['artifact_id']}").json
    answer = attach(shop, made.json["artifact_id"], room)
    assert answer.status == 202, answer.body
    assert said(shop, answer.json["run_id"]) == [f"notes.txt {len(TEXT)}: {TEXT.decode()}"]
    used = shop.get(f"/api/v1/artifacts/{made.json['artifact_id']}").json
    assert used["expires_at"] > unused["expires_at"] + 24 * 3600, "a file that a message uses lives longer"
    assert shop.get(f"/api/v1/artifacts/{made.json['artifact_id']}/content").body == TEXT


def test_the_same_file_is_the_same_artifact_and_keeps_its_life(shop: Any, room: str) -> None:
    first, other = upload(shop, room).json, upload(shop, f"{room}-other").json
    assert attach(shop, first["artifact_id"], room).status == 202
    again = upload(shop, room).json
    assert again["artifact_id"] == first["artifact_id"] != other["artifact_id"]
    assert again["expires_at"] > first["expires_at"] + 24 * 3600
    assert upload(shop, room, query="&name=other.txt").json["artifact_id"] != first["artifact_id"]


def test_a_file_belongs_to_its_conversation(shop: Any, room: str) -> None:
    made = upload(shop, room).json["artifact_id"]
    refused = attach(shop, made, f"{room}-other")
    assert (refused.status, refused.error["details"]["field"]) == (400, "input.attachments.0.artifact_id")
    assert attach(shop, made, room, thread="t").status == 400


def test_a_file_is_its_uploaders_until_a_message_uses_it(shop: Any, room: str) -> None:
    keys = [key_of(shop, name) for name in "ab"]
    path = f"/api/v1/artifacts?conversation={room}&name=n.txt"
    made = shop.post(path, TEXT, content_type="text/plain", token=keys[0]).json["artifact_id"]
    given = {"text": "read", "attachments": [{"artifact_id": made, "artifact_type": "file"}]}
    body = {"agent": AGENT, "input": given, "conversation": room}
    assert shop.get(f"/api/v1/artifacts/{made}", token=keys[1]).status == 404
    assert shop.post("/api/v1/runs", body, token=keys[1]).status == 400
    assert shop.get(f"/api/v1/artifacts/{made}", token=keys[0]).status == 200
    assert shop.post("/api/v1/runs", body, token=keys[0]).status == 202


BAD = {
    "a type that the content is not": ("&name=a.png", TEXT, "image/png", "message_file_content"),
    "text with a NUL byte": ("&name=a.txt", PNG, "text/plain", "message_file_content"),
    "a type that is none": ("&name=a.txt", TEXT, "text", "message_file_type"),
    "a name with a folder": ("&name=..%2Fa.txt", TEXT, "text/plain", "message_file_name"),
    "no content": ("&name=a.txt", b"", "text/plain", "message_file_empty"),
}


@for_each("case", BAD)
def test_a_bad_file_is_refused(shop: Any, case: str) -> None:
    query, content, kind, reason = BAD[case]
    refused = upload(shop, "bad", content, query, kind)
    assert (refused.status, refused.error["details"]["reason"]) == (400, reason), refused.body


def test_a_file_with_another_digest_is_refused(shop: Any, room: str) -> None:
    refused = upload(shop, room, query=f"&sha256={digest(b'another')}")
    assert (refused.status, refused.error["details"]["reason"]) == (409, "digest_differs")
    assert upload(shop, room, query="").status == 201, "nothing is left of it"
    assert shop.post("/api/v1/artifacts", TEXT, content_type="text/plain").status == 400, "it names no conversation"


def cut_off(shop: Any, request: str, content: bytes, length: int, **headers: str) -> bytes:
    """Send a request that declares another length than it has; returns the beginning of the answer, if there is one."""
    fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"{request} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {shop.token}\r\n{fields}"
    with closing(socket.create_connection(("127.0.0.1", shop.port), timeout=30)) as line:
        line.sendall(f"{head}content-length: {length}\r\n\r\n".encode() + content)
        line.shutdown(socket.SHUT_WR)
        return line.recv(4096)


def test_a_file_that_is_cut_off_or_declared_too_large_becomes_no_artifact(shop: Any, room: str) -> None:
    head = f"POST /api/v1/artifacts?conversation={room}&name=cut.txt"
    large = b"y" * (3 << 20)
    made = [upload(shop, room, content, query="&name=cut.txt").json["artifact_id"] for content in (TEXT, large)]
    for artifact_id in made:
        assert shop.delete(f"/api/v1/artifacts/{artifact_id}").status == 200
    for content in (TEXT, large):
        assert b" 201 " not in cut_off(shop, head, content, len(content) + 1, content_type="text/plain")
    oversized = cut_off(shop, head, b"", 1 << 40, content_type="text/plain")
    assert b" 413 " in oversized
    assert b"message_file_too_large" in oversized
    assert [shop.get(f"/api/v1/artifacts/{artifact_id}").status for artifact_id in made] == [404, 404]
    assert upload(shop, room, large, query="&name=cut.txt").json["artifact_id"] == made[1], "the next attempt is whole"


# --- in pieces ---


def test_a_piece_that_is_cut_off_is_continued_where_it_ended(shop: Any, room: str) -> None:
    upload_id = begin(shop, room, TEXT)
    cut_off(shop, f"PATCH /api/v1/uploads/{upload_id}", TEXT[:8], len(TEXT), upload_offset="0")
    shop.until(f"/api/v1/uploads/{upload_id}", lambda found: found["offset"] == 8)
    longer = append(shop, upload_id, 8, TEXT)
    assert (longer.status, longer.error["details"]["reason"]) == (413, "upload_longer")
    assert append(shop, upload_id, 8, TEXT[8:]).json["offset"] == len(TEXT)
    assert shop.post(f"/api/v1/uploads/{upload_id}/finish", {"sha256": digest(TEXT)}).status == 201


def test_an_upload_in_pieces_goes_on_where_it_was_interrupted(shop: Any, room: str) -> None:
    upload_id = begin(shop, room, TEXT)
    first = append(shop, upload_id, 0, TEXT[:8])
    assert (first.status, first.json["offset"], first.headers["upload-offset"]) == (200, 8, "8")
    assert shop.send("HEAD", f"/api/v1/uploads/{upload_id}").headers["upload-offset"] == "8"
    assert append(shop, upload_id, 8, TEXT[8:]).json["offset"] == len(TEXT)
    assert append(shop, upload_id, 4, TEXT[4:12]).json["offset"] == len(TEXT), "bytes that are there change nothing"
    made = shop.post(f"/api/v1/uploads/{upload_id}/finish", {"sha256": digest(TEXT)})
    assert (made.status, made.json["sha256"]) == (201, digest(TEXT)), made.body
    assert made.json["artifact_id"] == upload(shop, room).json["artifact_id"], "it is the file that is sent at once"
    assert said(shop, attach(shop, made.json["artifact_id"], room).json["run_id"])
    again = shop.post(f"/api/v1/uploads/{upload_id}/finish", {"sha256": digest(TEXT)})
    assert (again.status, again.json["artifact_id"]) == (201, made.json["artifact_id"]), "the answer may be lost"
    assert shop.get(f"/api/v1/uploads/{upload_id}").json["offset"] == len(TEXT)
    assert append(shop, upload_id, 0, TEXT).status == 404, "it is over"


def test_pieces_out_of_order_and_other_bytes_are_refused_with_the_offset(shop: Any, room: str) -> None:
    upload_id = begin(shop, room, TEXT)
    append(shop, upload_id, 0, TEXT[:8])
    for offset, content in ((12, TEXT[12:]), (4, b"other bytes")):
        refused = append(shop, upload_id, offset, content)
        assert (refused.status, refused.error["details"]["expected"]) == (409, 8), refused.body
    assert append(shop, upload_id, 8, TEXT[8:] + b"more").status == 413
    for offset in ("", "-1", "x", "9" * 30):
        assert append(shop, upload_id, offset, b"a").status == 400
    assert shop.get(f"/api/v1/uploads/{upload_id}").json["offset"] == 8
    short = shop.post(f"/api/v1/uploads/{upload_id}/finish", {"sha256": digest(TEXT[:8])})
    assert (short.status, short.error["details"]["reason"]) == (409, "upload_incomplete")


def test_an_upload_with_a_wrong_digest_or_type_becomes_no_artifact(shop: Any, room: str) -> None:
    lied = begin(shop, room, TEXT)
    append(shop, lied, 0, TEXT)
    refused = shop.post(f"/api/v1/uploads/{lied}/finish", {"sha256": digest(b"another")})
    assert (refused.status, refused.error["details"]["reason"]) == (409, "digest_differs")
    typed = begin(shop, room, TEXT, mime_type="image/png", name="a.png")
    append(shop, typed, 0, TEXT)
    refused = shop.post(f"/api/v1/uploads/{typed}/finish", {"sha256": digest(TEXT)})
    assert (refused.status, refused.error["details"]["reason"]) == (400, "message_file_content")
    assert shop.delete(f"/api/v1/uploads/{typed}").json == {"upload_id": typed, "deleted": True}
    assert shop.get(f"/api/v1/uploads/{typed}").status == 404


def test_an_upload_belongs_to_its_caller_and_a_caller_has_a_few(shop: Any, room: str) -> None:
    key = key_of(shop, room)
    body = {"conversation": room, "size_bytes": 4}
    mine = [shop.post("/api/v1/uploads", body, token=key) for _ in range(17)]
    assert [each.status for each in mine] == [201] * 16 + [429]
    assert shop.get(f"/api/v1/uploads/{mine[0].json['upload_id']}").status == 404
    assert shop.post("/api/v1/uploads", {**body, "size_bytes": 1 << 40}, token=key).status == 413
