"""The product as people start it, for clients that are slow or hostile."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.chaos.patience import PATIENCE_S

BOLLARD = str(Path(sys.executable).with_name("bollard"))
MIRROR = """
    from bollard.sdk import RunContext, runner

    @runner(name="default", label="Mirror")
    async def mirror(ctx: RunContext):
        text = ctx.input.text or ""
        if text.startswith("flood"):
            for number in range(150):
                yield ctx.delta(f"{number} " + "x" * 100_000)
        yield ctx.completed(text)
"""


@dataclass
class Answer:
    """One answer, whole or as far as its connection went."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    body: bytes = b""

    def one(self, name: str) -> str | None:
        found = [value for known, value in self.headers if known == name]
        assert len(found) <= 1, found
        return found[0] if found else None

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return self.json["error"]["code"]


class Product:
    """`bollard up` on a free port."""

    def __init__(self, folder: Path) -> None:
        plugin = folder / "mirror.py"
        plugin.write_text(textwrap.dedent(MIRROR), encoding="utf-8")
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        self._log = (folder / "log").open("wb")
        self.process = subprocess.Popen(
            [BOLLARD, "up", "--data", str(folder / "data"), "--port", "0", "--plugins", str(plugin)],
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=folder,
            env={**kept, "LANG": "C.UTF-8", "XDG_CONFIG_HOME": str(folder / "config"), "BOLLARD_BUILTIN_PLUGINS": "no"},
        )
        self.token, self.port, told = "", 0, ""
        assert self.process.stdout is not None
        while told != "agent.ready":
            said = self.process.stdout.readline()
            if not said:
                self.stop()
                raise AssertionError((folder / "log").read_text(encoding="utf-8"))
            line = json.loads(said)
            told = line["event"]
            self.token = line.get("token", self.token)
            self.port = int(line["address"].rpartition(":")[2]) if told == "listening" else self.port

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=PATIENCE_S)
        self._log.close()

    def head(self, method: str, path: str, *lines: str, token: bool = True, host: str | None = None) -> bytes:
        """The head of a request, without its last empty line."""
        own = [f"Host: {host or f'127.0.0.1:{self.port}'}"]
        own += [f"Authorization: Bearer {self.token}"] if token else []
        return "\r\n".join([f"{method} {path} HTTP/1.1", *own, *lines, ""]).encode()

    async def ask(
        self, method: str, path: str, *lines: str, body: Any = None, token: bool = True, host: str | None = None
    ) -> Answer:
        """One request on a new connection."""
        content = b"" if body is None else json.dumps(body).encode()
        given = [*lines, "Connection: close", f"Content-Length: {len(content)}"]
        async with self.connected() as (reader, writer):
            writer.write(self.head(method, path, *given, token=token, host=host) + b"\r\n" + content)
            return read_answer(await reader.read())

    async def shake(self, path: str, *lines: str, token: bool = True, host: str | None = None) -> Answer:
        """The answer to the handshake of a WebSocket."""
        given = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", *lines]
        async with self.connected() as (reader, writer):
            key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
            writer.write(self.head("GET", path, *given, key, token=token, host=host) + b"\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            answer = read_answer(head)
            if answer.status != 101:
                answer.body = await reader.read()
            return answer

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=2**24)
            try:
                yield reader, writer
            finally:
                writer.close()

    async def say(self, text: str) -> Answer:
        """A run from its message to its end, as a stream."""
        body = {"agent": "mirror", "input": {"text": text}}
        return await self.ask("POST", "/api/v1/runs", "Accept: text/event-stream", body=body)

    async def timed(self, text: str) -> float:
        """Seconds that a good client needs for a whole run on a new connection."""
        begun = time.monotonic()
        answer = await self.say(text)
        assert (answer.status, b"event: run.ended" in answer.body) == (200, True)
        return time.monotonic() - begun


def read_answer(data: bytes) -> Answer:
    """Read the response of a connection."""
    if not data:
        return Answer()
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
    return Answer(int(first.split()[1]), headers, body)


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    running = Product(tmp_path_factory.mktemp("product"))
    yield running
    running.stop()
