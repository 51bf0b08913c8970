"""F01 for files of messages: a host that is killed around an upload, an inline image or the first fetch of a file has
every acknowledged file after a restart, and the sender repeats what was not acknowledged."""

import base64
import contextlib
import hashlib
import json

import pytest
from tests.chaos.http_client import BROKEN

ROOM = "pictures"
IMAGE = b"\x89PNG\r\n\x1a\n" + bytes(100 * 1024)


async def _upload(host, text):
    """Upload a text file; its artifact."""
    path = f"/api/v1/artifacts?conversation={ROOM}&name=kept.json"
    async with host.client.request("POST", path, {"text": text}, {"content-type": "application/json"}) as answer:
        found = await answer.json()
        assert answer.status == 201, found
        return found


async def _send(host, number, image=IMAGE):
    """Send an event with an inline image; the artifact of the image."""
    contents = [{"type": "image_base64", "image_base64": base64.b64encode(image).decode()}]
    body = {
        "source": "desk",
        "id": f"image-{number}",
        "type": "message.received",
        "agent": "scripted",
        "actor": {"id": "ann"},
        "conversation": ROOM,
        "text": "look",
        "contents": contents,
    }
    async with host.client.request("POST", "/api/v1/events", body) as answer:
        found = await answer.json()
        assert answer.status in (200, 202), found
    event = await host.client.get(f"/api/v1/events/{found['event_id']}")
    (artifact_id,) = [each["artifact_id"] for each in event["content"]["contents"]]
    return artifact_id


async def _content(host, artifact_id):
    async with host.client.request("GET", f"/api/v1/artifacts/{artifact_id}/content") as answer:
        assert answer.status == 200, await answer.json()
        return b"".join([piece async for piece in answer.body()])


def _json(text):
    return json.dumps({"text": text}).encode()


@pytest.mark.parametrize("point", ["uploads.after_blob", "journal.before_commit", "journal.after_commit"])
async def test_an_acknowledged_upload_is_readable_after_a_kill(make_host, make_chaos, scripted, point):
    chaos = make_chaos(make_host(scripted))
    host = chaos.host
    await host.start()
    await host.ready("scripted")
    kept = await _upload(host, "kept")
    await host.kill()
    await host.start(point)
    with contextlib.suppress(*BROKEN):
        await _upload(host, "lost")
    assert await host.died() == -9
    await host.start()
    again = await _upload(host, "lost")
    assert again["sha256"] == hashlib.sha256(_json("lost")).hexdigest()
    assert await _content(host, kept["artifact_id"]) == _json("kept")
    assert await _content(host, again["artifact_id"]) == _json("lost")
    assert (await _upload(host, "kept"))["artifact_id"] == kept["artifact_id"]
    await host.kill()
    assert not (found := chaos.problems()), "\n".join(found[:10])


@pytest.mark.parametrize("point", ["journal.before_commit", "journal.after_commit", "dispatcher.after_accept"])
async def test_an_acknowledged_inline_image_is_readable_after_a_kill(make_host, make_chaos, scripted, point):
    chaos = make_chaos(make_host(scripted))
    host = chaos.host
    await host.start()
    await host.ready("scripted")
    kept = await _send(host, 1)
    await host.kill()
    other = IMAGE + b"other"
    await host.start(point)
    with contextlib.suppress(*BROKEN):
        await _send(host, 2, other)
    assert await host.died() == -9
    await host.start()
    again = await _send(host, 2, other)
    assert await _send(host, 1) == kept, "a repeated event has the same file"
    assert await _content(host, kept) == IMAGE
    assert await _content(host, again) == other
    await host.kill()
    assert not (found := chaos.problems()), "\n".join(found[:10])
