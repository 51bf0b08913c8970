"""The library `standardwebhooks` as a stranger: it signs what the host receives, and verifies what the host sends."""

import http.server
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

_names = count()


@pytest.fixture
def name() -> str:
    return f"stranger-{next(_names)}"


class Receiver:
    """Keeps every request with its headers."""

    def __init__(self) -> None:
        self.came: list[tuple[dict[str, str], bytes]] = []
        self.arrival = threading.Condition()
        receiver = self

        class Hook(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                with receiver.arrival:
                    receiver.came.append((dict(self.headers.items()), body))
                    receiver.arrival.notify_all()
                self.send_response(204)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hook"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def first(self) -> tuple[dict[str, str], bytes]:
        with self.arrival:
            assert self.arrival.wait_for(lambda: bool(self.came), 30)
        return self.came[0]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.stop()


def signed(secret: str, body: str, message_id: str, *, age: timedelta = timedelta()) -> dict[str, str]:
    """The headers that the library makes for a body."""
    moment = datetime.now(UTC) - age
    signature = Webhook(secret).sign(message_id, moment, body)
    return {
        "webhook_id": message_id,
        "webhook_timestamp": str(int(moment.timestamp())),
        "webhook_signature": signature,
        "content_type": "application/json",
    }


def verified(secret: str, headers: dict[str, str], body: bytes) -> Any:
    """The body, as the library reads it. One changed byte is refused."""
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body.replace(b"{", b"{ ", 1), headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(body, {**headers, "webhook-id": "another"})
    return Webhook(secret).verify(body, headers)


def routes(api: Any, name: str) -> dict[str, str]:
    """The secrets of a webhook route and of a channel, by their paths."""
    hook = api.put(f"/api/v1/hooks/{name}", {"verifier": {"kind": "standard"}, "agent": "parrot"})
    channel = api.put(f"/api/v1/channels/{name}", {})
    api.put(f"/api/v1/bindings/{name}", {"agent_id": "parrot", "scope": {"channel": name}})
    return {f"/hooks/{name}": hook.json["secret"], f"/api/v1/channels/{name}/events": channel.json["secret"]}


def test_the_host_accepts_what_the_library_signs(api: Any, name: str) -> None:
    body = json.dumps({"type": "message.received", "text": "早上好"})
    for path, secret in routes(api, name).items():
        sent = api.post(path, body.encode(), token=None, **signed(secret, body, "msg_1"))
        assert (sent.status, sent.json["first"]) == (202, True), sent.body
        assert api.ended(sent.json["run_id"])
        again = api.post(path, body.encode(), token=None, **signed(secret, body, "msg_1"))
        assert (again.status, again.json["run_id"]) == (200, sent.json["run_id"]), "a replay gets the first outcome"


def test_the_host_refuses_what_the_library_signs_for_others(api: Any, name: str) -> None:
    body = json.dumps({"type": "message.received", "text": "hello"})
    for path, secret in routes(api, name).items():
        stranger = api.elsewhere(path)
        old, early = timedelta(minutes=6), timedelta(minutes=-6)
        other = Webhook(secret).sign("msg_2", datetime.now(UTC), body)
        for headers in (
            signed(secret, body, "msg_1", age=old),
            signed(secret, body, "msg_1", age=early),
            signed(secret, body + " ", "msg_1"),
            {**signed(secret, body, "msg_1"), "webhook_id": "msg_2"},
            {**signed(secret, body, "msg_1"), "webhook_signature": other},
            {**signed(secret, body, "msg_1"), "webhook_signature": other.replace("v1,", "v2,")},
        ):
            assert stranger.post(path, body.encode(), token=None, **headers).status == 401
        two = signed(secret, body, "msg_3")
        two["webhook_signature"] = f"{other} {two['webhook_signature']}"
        assert stranger.post(path, body.encode(), token=None, **two).status == 202, "one of several is enough"


def test_the_library_verifies_an_event_of_a_subscription(api: Any, name: str, receiver: Receiver) -> None:
    body = {"url": receiver.url, "types": ["run.completed"], "conversations": [name]}
    secret = api.put(f"/api/v1/subscriptions/{name}", body).json["secret"]
    try:
        run_id = api.say("good morning", conversation=name)
        assert verified(secret, *receiver.first())["data"]["run_id"] == run_id
    finally:
        api.delete(f"/api/v1/subscriptions/{name}")


def test_the_library_verifies_a_message_to_a_channel(api: Any, name: str, receiver: Receiver) -> None:
    secret = api.put(f"/api/v1/channels/{name}", {"url": receiver.url}).json["secret"]
    api.put(f"/api/v1/bindings/{name}", {"agent_id": "parrot", "scope": {"channel": name}})
    body = json.dumps({"text": "hello", "conversation": name})
    path = f"/api/v1/channels/{name}/events"
    assert api.post(path, body.encode(), token=None, **signed(secret, body, "msg_1")).status == 202
    assert verified(secret, *receiver.first())["text"].strip() == "hello"
