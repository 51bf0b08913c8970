"""`scripts/bench messages`: uploads, events with an image, webhooks and schedules, against the disk of the host."""

import base64
import hashlib
import hmac
import json
import os
import secrets
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from figures import Figure, Measured, median
from host_process import HostProcess, Installation, host_running
from load import Connection
from message_schedules import measure_schedules

__all__ = ["measure"]

MIB = 1024 * 1024
UPLOAD_BYTES = 16 * MIB
IMAGE_BYTES = 100 * 1024
PAYLOAD = {"action": "opened", "issue": {"number": 7, "title": "It breaks", "body": "x" * 1500}}
"""The data of a plain event, and the body of a webhook."""
SECRET = secrets.token_hex(16)


async def measure(*, quick: bool) -> Measured:
    """Each figure in turn with its floor. No event has an agent, so that no run disturbs the measurement."""
    uploads, rounds = (6, 150) if quick else (20, 600)
    with tempfile.TemporaryDirectory(prefix="bollard-bench-") as name:
        async with host_running(Installation(data=Path(name))) as host:
            await host.wait_for_agents("benchecho")
            sender = _Sender(host, Path(name))
            figures = [await _uploads(sender, uploads), *await _events(sender, rounds)]
            sender.close()
            figures += await measure_schedules(host, quick=quick)
    return Measured(figures=figures)


class _Sender:
    """A client that measures its requests, and the same bytes on the disk of the host."""

    def __init__(self, host: HostProcess, disk: Path) -> None:
        self.host = host
        self._connection = Connection(host.port)
        self._file = disk / "floor"

    async def send(self, path: str, body: bytes, headers: Mapping[str, str]) -> float:
        """Seconds until the answer of a durable request."""
        started = time.perf_counter()
        status, chunks = await self._connection.request("POST", path, headers, body)
        text = b"".join([chunk async for chunk in chunks])
        took = time.perf_counter() - started
        if status not in (201, 202):
            raise RuntimeError(f"POST {path}: {status} {text.decode()}")
        return took

    def write(self, content: bytes) -> float:
        """Seconds to write the content to a new file, with fsync."""
        started = time.perf_counter()
        handle = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(handle, content)
            os.fsync(handle)
        finally:
            os.close(handle)
        took = time.perf_counter() - started
        self._file.unlink()
        return took

    def close(self) -> None:
        self._connection.close()


async def _uploads(sender: _Sender, count: int) -> Figure:
    """The rate of `POST /artifacts`: the file is received, hashed, stored and recorded."""
    headers = {**sender.host.headers, "content-type": "application/octet-stream"}
    sent, written = list[float](), list[float]()
    for number in range(count + 1):
        content = secrets.token_bytes(UPLOAD_BYTES)  # each its own: the host stores a content once
        written.append(sender.write(content))
        path = f"/api/v1/artifacts?conversation=bench&name={number}.bin"
        sent.append(await sender.send(path, content, headers))
    return Figure(
        figure="upload, 16 MiB",
        value=16 / median(sent[1:]),  # the first one warms up
        unit="MiB/s",
        floor=16 / median(written[1:]),
        better="higher",
        must=0.3,
        aim=0.6,
    )


async def _events(sender: _Sender, rounds: int) -> list[Figure]:
    """Plain events, events with an image, and webhooks, one after the other in each round."""
    plain, imaged, written = await _images(sender, rounds, "bench")
    await sender.host.ask(
        "PUT", "/api/v1/hooks/bench", {"verifier": {"kind": "github"}, "secret": SECRET, "requests_per_minute": 60_000}
    )
    beside, hooked = list[float](), list[float]()
    for number in range(rounds):
        beside.append(await sender.send("/api/v1/events", _event("beside", number), sender.host.headers))
        hooked.append(await sender.send("/hooks/bench", *_delivery(number)))
    _, searched, _ = await _images(sender, rounds, "searched")
    return [
        _latency("plain event, p50", plain),
        _latency("event with a 100 KiB image, more, p50", imaged - plain, written, 2, 1.2),
        _latency("the same, searched for a secret", searched - plain, written),
        _latency("webhook, p50", median(hooked), median(beside), 1.3, 1.1),
    ]


async def _images(sender: _Sender, rounds: int, source: str) -> tuple[float, float, float]:
    """p50 of plain events, of events with an image, and of writing the image."""
    plain, imaged, written = list[float](), list[float](), list[float]()
    for number in range(rounds):
        plain.append(await sender.send("/api/v1/events", _event(source, number), sender.host.headers))
        image = b"\x89PNG\r\n\x1a\n" + secrets.token_bytes(IMAGE_BYTES - 8)
        inline = {"type": "image_base64", "image_base64": base64.b64encode(image).decode()}
        body = _event(source, number + rounds, contents=[inline])
        imaged.append(await sender.send("/api/v1/events", body, sender.host.headers))
        written.append(sender.write(image))
    return median(plain), median(imaged), median(written)


def _event(source: str, number: int, **more: object) -> bytes:
    event = {"source": source, "id": str(number), "type": "message.received", "conversation": "bench", **more}
    return json.dumps({**event, "text": "look", "data": PAYLOAD}, separators=(",", ":")).encode()


def _delivery(number: int) -> tuple[bytes, Mapping[str, str]]:
    """The body and the headers of a webhook of GitHub."""
    body = json.dumps({**PAYLOAD, "number": number}).encode()
    return body, {
        "content-type": "application/json",
        "x-github-event": "issues",
        "x-github-delivery": f"bench-{number}",
        "x-hub-signature-256": f"sha256={hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()}",
    }


def _latency(
    figure: str, value_s: float, floor_s: float | None = None, must: float | None = None, aim: float | None = None
) -> Figure:
    floor = None if floor_s is None else floor_s * 1000
    return Figure(figure=figure, value=value_s * 1000, unit="ms", floor=floor, better="lower", must=must, aim=aim)
