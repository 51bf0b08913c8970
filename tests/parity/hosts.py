"""The two hosts of the scenarios: a real one behind HTTP, and the in-memory one of the SDK."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.host.http.chat_program import Program, post
from tests.host.http.conftest import Client, HostThread
from tests.parity.mirror import NEEDS, WIDE, mirror

from bollard import protocol
from bollard.host.settings import Settings
from bollard.sdk.testing import MemoryHost, RunOutcome

CALCULATE = "tool:builtin/calculate"
ASK_USER = "tool:builtin/ask_user"
WEIGH = "tool:local/mirror/weigh"
CHANNEL = "hall"
ACTIONS = ("message.react", "message.pin")
EVERYTHING = {"enabled": True, "scopes": ["conversation", "actor", "subject", "runner"]}
RULES = "Doors close at nine."
LEAVE = "Everybody has thirty days of leave a year."


class RealHost:
    """A real host with the agents of the scenarios, and a program behind a channel."""

    def __init__(self, client: Client, program: Program) -> None:
        self.client = client
        self.program = program
        self.number = 0
        self.file_id = self._file()
        access: dict[str, Any] = {"permissions": NEEDS}
        client.save_agent("looking-glass", "mirror/default", access=access, state={"enabled": True})
        with_tool = {**access, "resources": {"tools": {"add": [CALCULATE]}}}
        client.save_agent("calculator", "mirror/default", access=with_tool)
        self.secret = self._channel()
        self._base()
        client.save_agent("echo", "mirror/echo")
        asks = {"permissions": WIDE, "resources": {"tools": {"add": [ASK_USER]}}}
        client.save_agent("asker", "mirror/wide", access=asks)
        resources = {
            "tools": {"add": [WEIGH]},
            "agents": {"add": ["echo"]},
            "files": {"add": [self.file_id]},
            "knowledge_bases": {"add": ["handbook"]},
            "platform": {"only": [*ACTIONS, "message.send"]},
        }
        client.save_agent(
            "polymath", "mirror/wide", access={"permissions": WIDE, "resources": resources}, state=EVERYTHING
        )

    def _file(self) -> str:
        answer = self.client.post("/api/v1/files?name=rules.txt", RULES.encode(), content_type="text/plain")
        assert answer.status == 201, answer.body
        return answer.json["file_id"]

    def _base(self) -> None:
        made = self.client.put("/api/v1/knowledge/handbook", {"name": "handbook"})
        path = "/api/v1/knowledge/handbook/documents/handbook"
        text = {"name": "handbook", "text": LEAVE, "mime_type": "text/plain"}
        assert (made.status, self.client.put(path, text).status) == (201, 202)
        self.client.until(path, lambda found: found["status"] == "ready")

    def upload(self, conversation: str, content: bytes, name: str) -> dict[str, Any]:
        """Upload a file for a message, and return its reference."""
        path = f"/api/v1/artifacts?conversation={conversation}&name={name}"
        answer = self.client.post(path, content, content_type="text/plain")
        assert answer.status == 201, answer.body
        return answer.json

    def _channel(self) -> str:
        abilities = {"supports_streaming": True, "supports_edit": True, "supports_reaction": True}
        abilities |= {"supports_buttons": True, "max_message_size": 4000}
        body = {"url": self.program.url, "bot": "porter", "abilities": abilities, "actions": [*ACTIONS]}
        saved = self.client.put(f"/api/v1/channels/{CHANNEL}", body)
        bound = self.client.put("/api/v1/bindings/hall", {"agent_id": "looking-glass", "scope": {"channel": CHANNEL}})
        assert (saved.status, bound.status) == (201, 201), (saved.body, bound.body)
        return saved.json["secret"]

    def send(self, text: str | None, data: dict[str, Any], **event: Any) -> dict[str, Any]:
        """Send an event, and return what its run said."""
        return self.said(self.sent(text, data, **event), data)

    def sent(self, text: str | None, data: dict[str, Any], **event: Any) -> str:
        """Send an event; the id of its run."""
        self.number += 1
        body = {"source": "desk", "id": f"event-{self.number}", "type": "message.received", "agent": "looking-glass"}
        body |= {"actor": {"id": "user-1"}, "text": text, "data": data, **event}
        answer = self.client.post("/api/v1/events", body)
        assert answer.status == 202, answer.body
        return answer.json["run_id"]

    def chat(self, text: str, data: dict[str, Any], **event: Any) -> dict[str, Any]:
        """Send a message through the channel, and return what its run said."""
        self.number += 1
        body = {"actor": {"id": "user-1"}, "text": text, "data": data, **event}
        answer = post(self.client, CHANNEL, self.secret, body, number=f"chat-{self.number}")
        assert answer.status == 202, answer.body
        return self.said(answer.json["run_id"], data)

    def said(self, run_id: str, data: dict[str, Any]) -> dict[str, Any]:
        records = self.client.read(run_id)
        if data.get("fails"):
            return {}
        messages = [each.data["data"]["message"]["content"] for each in records if each.type == "message.completed"]
        assert messages, [each.data for each in records]
        return {} if messages[-1] == "noted" else json.loads(messages[-1])


@contextmanager
def started(data: Path, database: str) -> Iterator[RealHost]:
    """A real host with the mirrors as its plugin."""
    program = Program()
    program.results = {"message.react": {"result": {"reacted": True}}, "message.pin": {"error": "no pins here"}}
    plugin = Path(__file__).with_name("mirror.py")
    allowed = (urlsplit(program.url).netloc,)
    settings = Settings(
        data=data,
        database=database,
        plugins=(plugin,),
        builtin_plugins=False,
        port=0,
        grace_s=0.5,
        egress_allow=allowed,
    )
    host = HostThread(settings)
    assert host.token is not None
    client = Client(host.port, host.token)
    client.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    yield RealHost(client, program)
    host.stop()
    program.stop()


def remembered(
    host: MemoryHost, text: str | None, data: dict[str, Any], runner: Any = mirror, **occasion: Any
) -> dict[str, Any]:
    """What a run of the in-memory host said."""
    return heard(asyncio.run(host.run(runner, text, **occasion_of(data, **occasion))), data)


def occasion_of(data: dict[str, Any], **occasion: Any) -> dict[str, Any]:
    """An event as `POST /api/v1/events` brings it."""
    delivery = protocol.DeliveryContext(surface="api", supports_streaming=True)
    brought = {"source": "webhook", "event_source": "desk", "delivery": delivery, **occasion}
    return {"config": {"prompt": "Be brief."}, "event_data": data, **brought}


def heard(outcome: RunOutcome, data: dict[str, Any]) -> dict[str, Any]:
    if data.get("fails"):
        return {}
    assert outcome.status == "completed", outcome.error
    said = outcome.messages[-1].content
    assert isinstance(said, str)
    return {} if said == "noted" else json.loads(said)


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """A document as one level: the path of each leaf, and its value."""
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        value = {str(number): each for number, each in enumerate(value)}
    if not isinstance(value, dict) or not value:
        return {path: value}
    return {k: v for name, inner in value.items() for k, v in flat(inner, f"{path}.{name}".lstrip(".")).items()}
