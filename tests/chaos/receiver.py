"""A program behind a channel, which is sent the answers of a host."""

import contextlib
import json
from collections import Counter

from tests.chaos.http_client import BROKEN

from bollard.host.texts import read_texts

__all__ = ["Receiver", "failure_sentence"]


class Receiver:
    """Counts the arrivals under each key."""

    def __init__(self):
        self.url = ""
        self.arrived = Counter()
        self.texts = {}

    async def serve(self, reader, writer):
        with contextlib.closing(writer), contextlib.suppress(*BROKEN):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in head[1:] if line}
            body = json.loads(await reader.readexactly(int(headers["content-length"])))
            self.arrived[headers["webhook-id"]] += 1
            self.texts[headers["webhook-id"]] = body.get("text")
            writer.write(b'HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n{"message":"m"}')
            await writer.drain()


def failure_sentence(run_id: str, code: str | None) -> str:
    """The message to the person whose run failed."""
    sentences = read_texts("chat")["en_US"]
    return sentences.get(f"failed.{code}", sentences["failed"]).format(run=run_id)
