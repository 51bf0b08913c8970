"""Outgoing webhooks over HTTP: saved by people, signed for a stranger to verify, repeated until they arrive."""

import base64
import hashlib
import hmac
import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.replacement import replace

from bollard.host.clock import SystemClock
from bollard.host.settings import Settings
from bollard.host.store.selection import choose_store


class Receiver:
    """A receiver of webhooks that knows Standard Webhooks from its specification, and shares no code with the host."""

    def __init__(self) -> None:
        self.came: list[Any] = []
        self.statuses: list[int] = []
        self.secret = ""
        self.arrival = threading.Condition()
        receiver = self

        class Hook(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                with receiver.arrival:
                    status = receiver.statuses.pop(0) if receiver.statuses else 204
                    came = {"id": self.headers["webhook-id"], "status": status, "body": json.loads(body)}
                    receiver.came.append({**came, "verified": receiver.verifies(self.headers, body)})
                    receiver.arrival.notify_all()
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def verifies(self, headers: Any, body: bytes) -> bool:
        key = base64.b64decode(self.secret.removeprefix("whsec_"))
        signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body])
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        fresh = abs(time.time() - int(headers["webhook-timestamp"])) < 300
        return fresh and "." not in headers["webhook-id"] and f"v1,{expected}" in headers["webhook-signature"].split()

    def until(self, count: int) -> list[Any]:
        with self.arrival:
            assert self.arrival.wait_for(lambda: len(self.came) >= count, 30), self.came
        return self.came

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.stop()


def subscribe(api: Any, receiver: Receiver, name: str = "alerts", **body: Any) -> Any:
    answer = api.put(f"/api/v1/subscriptions/{name}", {"url": receiver.url, "types": ["run.completed"], **body})
    assert answer.status == 201, answer.body
    receiver.secret = answer.json["secret"]
    return answer.json


@pytest.fixture
def hooked(api: Any) -> Any:
    """A host without subscriptions, afterwards too."""
    yield api
    for item in api.get("/api/v1/subscriptions").json["items"]:
        api.delete(f"/api/v1/subscriptions/{item['subscription_id']}")


def ended(api: Any, name: str, count: int = 1) -> list[Any]:
    """The deliveries of a subscription when none waits."""
    path = f"/api/v1/subscriptions/{name}/deliveries"
    found = api.until(path, lambda page: len([x for x in page["items"] if x["status"] != "waiting"]) >= count)
    return found["items"]


def test_a_selected_event_arrives_signed_and_a_stranger_verifies_it(hooked: Any, receiver: Receiver) -> None:
    subscribe(hooked, receiver)
    run_id = hooked.say("good morning", conversation="desk")
    came = receiver.until(1)[0]
    assert (came["id"], came["verified"]) == (f"{run_id}-completed", True)
    body = came["body"]
    assert (body["type"], body["data"]["data"]["answer"]) == ("run.completed", "good morning ")
    assert body["timestamp"].endswith("Z")
    assert (body["data"]["agent_id"], body["data"]["conversation_id"]) == ("parrot", "desk")
    delivery = ended(hooked, "alerts")[0]
    assert (delivery["status"], delivery["attempts"], delivery["webhook_id"]) == ("sent", 1, f"{run_id}-completed")


def test_a_subscription_is_saved_shown_and_deleted_and_its_secret_shown_once(
    hooked: Any, receiver: Receiver, settings: Settings
) -> None:
    made = subscribe(hooked, receiver)
    shown = hooked.get("/api/v1/subscriptions/alerts").json
    assert (shown["secret"], shown["enabled"], shown["types"]) == ("__kept__", True, ["run.completed"])
    saved = hooked.put("/api/v1/subscriptions/alerts", {**shown, "types": ["*"]})
    assert (saved.status, saved.json["secret"], saved.json["revision"]) == (200, "__kept__", 2)
    assert hooked.get("/api/v1/subscriptions").json["items"] == [saved.json]
    records = hooked.get("/api/v1/audit/records?limit=100").body
    assert made["secret"].encode() not in records
    assert hooked.delete("/api/v1/subscriptions/alerts").status == 200
    assert hooked.get("/api/v1/subscriptions/alerts").status == 404
    assert hooked.get("/api/v1/subscriptions/alerts/deliveries").error["details"]["reason"] == "no_subscription"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"types": ["a"]}, "invalid_field"),
        ({"url": "http://127.0.0.1:9/", "types": []}, "invalid_field"),
        ({"url": "ftp://127.0.0.1/", "types": ["a"]}, "subscription_url"),
        ({"url": "http://example.org/", "types": ["a"]}, "subscription_url_plain"),
        ({"url": "https://10.0.0.1/", "types": ["a"]}, "subscription_url_denied"),
        ({"url": "http://127.0.0.1:9/", "types": ["a"], "secret": "short"}, "subscription_secret"),
    ],
)
def test_a_subscription_that_cannot_work_is_refused(hooked: Any, body: Any, reason: str) -> None:
    answer = hooked.put("/api/v1/subscriptions/wrong", body)
    assert (answer.status, answer.error["details"]["reason"]) == (400, reason), answer.body
    assert hooked.get("/api/v1/subscriptions").json["items"] == []


def test_only_selected_events_arrive(hooked: Any, receiver: Receiver) -> None:
    subscribe(hooked, receiver, types=["*"], sources=["forge"])
    hooked.read(hooked.say("not this"))
    hooked.post("/api/v1/events", {"source": "forge", "id": "7", "type": "build.failed", "data": {"branch": "main"}})
    came = receiver.until(1)[0]["body"]
    assert (came["type"], came["data"]["data"]["data"]) == ("build.failed", {"branch": "main"})
    assert len(ended(hooked, "alerts")) == 1


def test_a_failed_attempt_is_repeated_with_the_same_id(hooked: Any, receiver: Receiver) -> None:
    subscribe(hooked, receiver)
    receiver.statuses += [503]
    run_id = hooked.say("again")
    first, second = receiver.until(2)
    assert first["id"] == second["id"] == f"{run_id}-completed"
    assert first["verified"]
    assert second["verified"]
    delivery = ended(hooked, "alerts")[0]
    assert (delivery["status"], delivery["attempts"]) == ("sent", 2)


def test_a_receiver_that_is_gone_is_switched_off_with_a_visible_reason(hooked: Any, receiver: Receiver) -> None:
    subscribe(hooked, receiver)
    receiver.statuses += [410]
    hooked.say("nobody")
    off = hooked.until("/api/v1/subscriptions/alerts", lambda shown: not shown["enabled"])
    assert off["problem"] == "the receiver responded with status 410"
    delivery = ended(hooked, "alerts")[0]
    assert (delivery["status"], delivery["reason"]) == ("failed", "the receiver responded with status 410")
    on = hooked.put("/api/v1/subscriptions/alerts", {**off, "enabled": True}).json
    assert "problem" not in on
    run_id = hooked.say("back")
    assert receiver.until(2)[1]["id"] == f"{run_id}-completed"


def test_a_test_event_is_sent_at_once_and_its_outcome_is_the_answer(hooked: Any, receiver: Receiver) -> None:
    subscribe(hooked, receiver)
    assert hooked.post("/api/v1/subscriptions/alerts/test").json == {"delivered": True, "reason": None}
    came = receiver.until(1)[0]
    assert (came["verified"], came["body"]["type"]) == (True, "subscription.test")
    receiver.statuses += [500]
    failed = hooked.post("/api/v1/subscriptions/alerts/test").json
    assert failed == {"delivered": False, "reason": "the receiver responded with status 500"}
    assert hooked.post("/api/v1/subscriptions/none/test").status == 404


def test_an_undelivered_event_is_sent_after_a_restart(
    tmp_path: Any, settings: Settings, start_host: Any, client_of: Any, receiver: Receiver
) -> None:
    own = replace(settings, data=tmp_path / "data", database="")
    first = start_host(own)
    api = client_of(first.port, first.token)
    subscribe(api, receiver)
    receiver.statuses += [503]
    run_id = api.say("keep it")
    receiver.until(1)
    api.until(
        "/api/v1/subscriptions/alerts/deliveries", lambda page: page["items"] and page["items"][0]["attempts"] == 1
    )
    first.stop()
    stopped_with = len(receiver.came)
    store = choose_store("", own.data, SystemClock())
    store.open()
    waiting = len(store.all_kept("webhook_open"))
    store.close()
    second = start_host(own)
    if waiting:  # the second attempt may have come before the stop
        assert [each["id"] for each in receiver.until(stopped_with + 1)][-1] == f"{run_id}-completed"
    again = client_of(second.port, api.token)
    assert ended(again, "alerts")[0]["status"] == "sent"
