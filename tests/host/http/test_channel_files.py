"""Files of messages to a channel: the message lists them, and the channel downloads them and nothing else."""

import base64
import json
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from tests.host.http.test_channels import Program

from bollard.host.channels.signing import secret_bytes, sign

AGENT = "workshop.courier"
TEXT = b"quarter,revenue\n1,12\n"
FILE = {"type": "file_base64", "file_base64": base64.b64encode(TEXT).decode(), "file_name": "notes.txt"}
_rooms = count()


@pytest.fixture
def room() -> str:
    return f"files-{next(_rooms)}"


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    yield program
    program.stop()


def signed(secret: str, text: bytes) -> dict[str, str]:
    headers = sign(secret_bytes(secret), "get", int(time.time()), text)
    return {name.replace("-", "_"): value for name, value in headers.items()}


def download(shop: Any, path: str, secret: str, text: str | None = None, **more: str) -> Any:
    headers = signed(secret, f"GET {path if text is None else text}".encode())
    return shop.get(path, token=None, **headers, **more)


def exchange(shop: Any, room: str, program: Program, *contents: Any, text: str = "send") -> tuple[str, Any]:
    """The secret of a new channel, and the message that it got."""
    made = shop.put(f"/api/v1/channels/{room}", {"url": program.url, "abilities": {"dedupe": "native"}})
    secret = made.json["secret"]
    shop.put(f"/api/v1/bindings/{room}", {"agent_id": AGENT, "scope": {"channel": room}})
    body = json.dumps({"id": "1", "conversation": room, "text": text, "contents": [*contents]}).encode()
    sent = shop.post(f"/api/v1/channels/{room}/events", body, token=None, **signed(secret, body))
    assert sent.status == 202, sent.body
    return secret, program.until(1)[-1]


def test_a_channel_downloads_the_files_of_its_messages(shop: Any, room: str, program: Program) -> None:
    secret, came = exchange(shop, room, program, FILE)
    report, echoed, address = came["contents"]
    assert (came["text"], report["name"], report["mime_type"], report["size_bytes"]) == (
        "here",
        "report.txt",
        "text/plain",
        6,
    )
    assert address == {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    assert came["artifacts"] == [report["artifact_id"], echoed["artifact_id"]]
    delivery = came["key"].rpartition(".")[0]
    path = f"/api/v1/channels/{room}/artifacts"
    got = download(shop, f"{path}/{report['artifact_id']}?delivery={delivery}", secret)
    assert (got.status, got.body, got.headers["content-type"].partition(";")[0]) == (200, b"report", "text/plain")
    part = download(shop, f"{path}/{echoed['artifact_id']}?delivery={delivery}", secret, range="bytes=0-6")
    assert (part.status, part.body) == (206, TEXT[:7])


def test_a_channel_downloads_nothing_else(shop: Any, room: str, program: Program) -> None:
    secret, came = exchange(shop, room, program, FILE)
    delivery, (report, echoed) = came["key"].rpartition(".")[0], came["artifacts"]
    other = shop.put(f"/api/v1/channels/{room}-other", {}).json["secret"]
    path = f"/api/v1/channels/{room}/artifacts/{report}?delivery={delivery}"
    absent = [
        f"/api/v1/channels/{room}/artifacts/art_absent?delivery={delivery}",
        f"/api/v1/channels/{room}/artifacts/{report}?delivery=dlv_absent",
    ]
    elsewhere = shop.post(f"/api/v1/artifacts?conversation={room}", TEXT, content_type="text/plain")
    absent.append(f"/api/v1/channels/{room}/artifacts/{elsewhere.json['artifact_id']}?delivery={delivery}")
    assert [download(shop, each, secret).status for each in absent] == [404] * 3
    foreign = download(shop, f"/api/v1/channels/{room}-other/artifacts/{report}?delivery={delivery}", other)
    assert foreign.status == 404, "the delivery is of another channel"
    stranger = shop.elsewhere(room)
    for refused in (
        download(stranger, path, other),
        download(stranger, path.replace(report, echoed), secret, path),
        stranger.get(path, token=None),
        stranger.get(path),
    ):
        assert refused.status == 401, "a token opens nothing here, and a signature only its own path"


def test_a_message_lists_no_artifact_of_another_conversation(shop: Any, room: str, program: Program) -> None:
    made = shop.post(f"/api/v1/artifacts?conversation={room}-other", TEXT, content_type="text/plain")
    _, came = exchange(shop, room, program, text=made.json["artifact_id"])
    assert [each.get("name") for each in came["contents"]] == ["report.txt", None], "only its own, and the address"
