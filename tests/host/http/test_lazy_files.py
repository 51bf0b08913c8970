"""Files that a channel keeps: the host fetches them on the first read, with a signed request, and stores them."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.channels.signing import SignatureClaim, read_seal, secret_bytes, sign

AGENT = "workshop.carrier"
TEXT = b"quarter,revenue\n1,12\n"
_rooms = count()


class Keeper:
    """The program behind a channel: it has files, and counts the requests for them."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.answers: dict[str, tuple[int, bytes]] = {"/files/1?v=2": (200, TEXT)}
        keeper = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                keeper.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                status, body = keeper.answers.get(self.path, (404, b""))
                self._say(status, body)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                self._say(200, b"{}")

            def _say(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    keeper = Keeper()
    yield keeper
    keeper.stop()


def opened(shop: Any, keeper: Keeper) -> tuple[str, str]:
    """A new channel and its secret."""
    room = f"lazy-{next(_rooms)}"
    secret = shop.put(f"/api/v1/channels/{room}", {"url": f"{keeper.origin}/in"}).json["secret"]
    shop.put(f"/api/v1/bindings/{room}", {"agent_id": AGENT, "scope": {"channel": room}})
    return room, secret


def send(shop: Any, room: str, secret: str, *files: Any, text: str = "look", number: str = "1") -> Any:
    body = json.dumps({"id": number, "conversation": room, "text": text, "files": [*files]}).encode()
    headers = sign(secret_bytes(secret), "m", int(time.time()), body)
    named = {name.replace("-", "_"): value for name, value in headers.items()}
    return shop.post(f"/api/v1/channels/{room}/events", body, token=None, **named)


def file_at(keeper: Keeper, path: str = "/files/1?v=2", **more: Any) -> Any:
    return {"handle": f"{keeper.origin}{path}", "mime_type": "text/plain", "name": "notes.txt", **more}


def said(shop: Any, run_id: str) -> list[str]:
    events = [event.data["data"] for event in shop.read(run_id) if event.type == "message.completed"]
    return [event["message"]["content"] for event in events if event["message"]["content"] != "carrying "]


def artifact_of(shop: Any, sent: Any) -> str:
    content = shop.get(f"/api/v1/events/{sent.json['event_id']}").json["content"]
    return content["contents"][0]["artifact_id"]


def test_a_file_is_fetched_once_on_the_first_read(shop: Any, keeper: Keeper) -> None:
    room, secret = opened(shop, keeper)
    sent = send(shop, room, secret, file_at(keeper), text="make")
    assert sent.status == 202, sent.body
    shop.ended(sent.json["run_id"])
    assert keeper.asked == [], "nobody has read it"
    path = f"/api/v1/artifacts/{artifact_of(shop, sent)}"
    before = shop.get(path).json
    assert (before["name"], before.get("sha256"), before["metadata"].get("fetch")) == ("notes.txt", None, None)
    again = send(shop, room, secret, file_at(keeper), text="make")
    assert (again.status, again.json["first"]) == (200, False)
    assert [shop.get(f"{path}/content").body for _ in range(2)] == [TEXT, TEXT]
    ((asked, headers),) = keeper.asked
    seal = read_seal(headers, time.time())
    assert isinstance(seal, SignatureClaim)
    digest = seal.begin(secret_bytes(secret))
    digest.update(f"GET {asked}".encode())
    assert seal.fits(digest), "the request is the channel's own"
    assert shop.get(path).json["size_bytes"] == len(TEXT)


def test_a_run_reads_a_file_that_a_channel_keeps(shop: Any, keeper: Keeper) -> None:
    room, secret = opened(shop, keeper)
    sent = send(shop, room, secret, file_at(keeper, size_bytes=len(TEXT)))
    assert said(shop, sent.json["run_id"]) == [f"notes.txt {len(TEXT)}: {TEXT.decode()}"]


BAD = {
    "gone": ("/files/absent", "text/plain", 404, b""),
    "empty": ("/files/empty", "text/plain", 200, b""),
    "of another type": ("/files/lie", "image/png", 200, TEXT),
    "too large": ("/files/large", "text/plain", 200, b"x" * (16 * 1024 * 1024 + 1)),
}


@for_each("case", BAD)
def test_a_file_that_cannot_be_fetched_is_not_found_and_may_be_tried_again(shop: Any, case: str) -> None:
    path, kind, status, body = BAD[case]
    keeper = Keeper()
    try:
        room, secret = opened(shop, keeper)
        keeper.answers[path] = (status, body)
        sent = send(shop, room, secret, file_at(keeper, path, mime_type=kind), text="make")
        content = f"/api/v1/artifacts/{artifact_of(shop, sent)}/content"
        refused = shop.get(content)
        assert (refused.status, refused.error["details"]["reason"]) == (404, "file_not_fetched"), refused.body
        keeper.answers[path] = (200, b"\x89PNG\r\n\x1a\nx" if kind == "image/png" else TEXT)
        assert shop.get(content).status == 200
        shop.put(f"/api/v1/channels/{room}", {"url": f"{keeper.origin}/in", "enabled": False})
    finally:
        keeper.stop()


def test_a_handle_leads_to_the_program_of_the_channel_alone(shop: Any, keeper: Keeper) -> None:
    room, secret = opened(shop, keeper)
    others = ("http://127.0.0.1:1/x", "https://example.org/x", "file:///etc/passwd", "x", f"{keeper.origin}@evil/")
    for handle in others:
        refused = send(shop, room, secret, {"handle": handle, "mime_type": "text/plain"})
        assert (refused.status, refused.error["details"]["field"]) == (400, "files.0.handle"), handle
    assert send(shop, room, secret, *[file_at(keeper)] * 33).status == 400
    assert send(shop, room, secret, file_at(keeper, name="../x")).status == 400
    assert shop.get(f"/api/v1/runs?conversation={room}").json["items"] == []
    inward = shop.put(f"/api/v1/channels/{room}-in", {}).json["secret"]
    assert send(shop, f"{room}-in", inward, file_at(keeper)).status == 400, "it has no address"


def test_a_program_that_a_channel_had_before_gets_no_request(shop: Any, keeper: Keeper) -> None:
    room, secret = opened(shop, keeper)
    content = f"/api/v1/artifacts/{artifact_of(shop, send(shop, room, secret, file_at(keeper), text='make'))}/content"
    shop.put(f"/api/v1/channels/{room}", {"url": "http://127.0.0.1:1/in", "enabled": True})
    refused = shop.get(content)
    assert (refused.status, refused.error["details"]["reason"]) == (404, "file_not_fetched")
    assert keeper.asked == []
    shop.put(f"/api/v1/channels/{room}", {"url": f"{keeper.origin}/elsewhere", "enabled": True})
    assert shop.get(content).body == TEXT


def send_cloud(shop: Any, room: str, secret: str, data: Any, number: str = "c1") -> Any:
    event = {"specversion": "1.0", "id": number, "source": "x", "type": "message.received", "conversation": room}
    body = json.dumps({**event, "data": data}).encode()
    headers = sign(secret_bytes(secret), "m", int(time.time()), body)
    named = {name.replace("-", "_"): value for name, value in headers.items()}
    return shop.post(
        f"/api/v1/channels/{room}/events", body, token=None, content_type="application/cloudevents+json", **named
    )


def test_a_cloudevent_of_a_channel_names_files_that_it_keeps(shop: Any, keeper: Keeper) -> None:
    room, secret = opened(shop, keeper)
    data = {"text": "look", "files": [file_at(keeper, size_bytes=len(TEXT))], "mood": "calm"}
    sent = send_cloud(shop, room, secret, data)
    assert sent.status == 202, sent.body
    assert said(shop, sent.json["run_id"]) == [f"notes.txt {len(TEXT)}: {TEXT.decode()}"]
    content = shop.get(f"/api/v1/events/{sent.json['event_id']}").json["content"]
    assert content["data"] == {"text": "look", "mood": "calm"}
    again = send_cloud(shop, room, secret, data)
    assert (again.status, again.json["run_id"]) == (200, sent.json["run_id"])
    away = send_cloud(shop, room, secret, {"files": [{"handle": "http://127.0.0.1:1/x", "mime_type": "a/b"}]}, "c2")
    assert (away.status, away.error["details"]["field"]) == (400, "files.0.handle")
    wrong = send_cloud(shop, room, secret, {"text": "look", "files": ["x"]}, "c3")
    assert (wrong.status, wrong.error["details"]["reason"]) == (400, "field")


def test_files_of_other_senders_are_plain_data(shop: Any, keeper: Keeper) -> None:
    event = {"specversion": "1.0", "id": "1", "source": keeper.origin, "type": "message.received", "agent": AGENT}
    body = json.dumps({**event, "data": {"text": "look", "files": ["a.txt"]}}).encode()
    sent = shop.post("/api/v1/events", body, content_type="application/cloudevents+json")
    content = shop.get(f"/api/v1/events/{sent.json['event_id']}").json["content"]
    assert content["data"] == {"text": "look", "files": ["a.txt"]}
