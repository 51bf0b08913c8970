"""The loopback provider as a process, and as a target: the floor of all model figures."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from load import Call, Connection

__all__ = ["LoopbackProvider", "provider_running"]

PROGRAM = Path(__file__).parent.parent / "examples" / "provider" / "loopback_provider.py"
STOP_S = 30
HEADERS = {"content-type": "application/json"}


class LoopbackProvider:
    """Called directly, with the same client as the host."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}/v1"
        self._connection = Connection(port)

    def call(self, client: int, deltas: int) -> Call:
        """As many tokens as possible."""
        del client
        return self.call_for(f"stream {deltas}")

    def call_for(self, text: str) -> Call:
        asked = {"model": "loopback", "stream": True, "messages": [{"role": "user", "content": text}]}
        return Call(
            path="/v1/chat/completions",
            headers=HEADERS,
            body=json.dumps(asked).encode(),
            delta_mark=b'"content":"tok-',
            final_mark=b"[DONE]",
        )

    async def turn_s(self, text: str) -> float:
        """One streamed answer, from the request to its last byte."""
        call = self.call_for(text)
        started = time.perf_counter()
        _, chunks = await self._connection.request("POST", call.path, call.headers, call.body)
        async for _ in chunks:
            pass
        return time.perf_counter() - started

    def close(self) -> None:
        self._connection.close()


@asynccontextmanager
async def provider_running() -> AsyncGenerator[LoopbackProvider]:
    """The example provider, started like a user would."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(PROGRAM), "--port", "0", stdout=asyncio.subprocess.PIPE
    )
    provider: LoopbackProvider | None = None
    try:
        if process.stdout is None:
            raise RuntimeError("no pipe")
        address = (await process.stdout.readline()).decode().strip()
        provider = LoopbackProvider(int(address.rpartition(":")[2]))
        yield provider
    finally:
        if provider is not None:
            provider.close()
        process.terminate()
        await asyncio.wait_for(process.communicate(), STOP_S)
