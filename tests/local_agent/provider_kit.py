"""The loopback provider of the examples, started as users start it: a separate process on a free port."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

PROGRAM = Path(__file__).parents[2] / "examples" / "provider" / "loopback_provider.py"
PATIENCE_S = 60


class RunningProvider:
    """A provider, its script, and its requests. `url` is the value for a model's `base_url`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.url = f"{address}/v1"
        self._place = urlsplit(address).netloc

    def script(self, *answers: dict[str, Any]) -> None:
        """Queue answers; see `Answer` in examples/provider/scripted_answers.py."""
        status, told = self.ask("POST", "/_script", list(answers))
        assert status == 200, told

    def requests(self, path: str = "") -> list[dict[str, Any]]:
        """The requests to models, oldest first; of one call only with a path."""
        seen = self.ask("GET", "/_requests")[1]["requests"]
        return [one for one in seen if path in ("", one["path"])]

    def bodies(self, path: str = "") -> list[dict[str, Any]]:
        return [one["body"] for one in self.requests(path)]

    async def wait_for(self, condition: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """The requests, as soon as they are as they should be."""
        async with asyncio.timeout(PATIENCE_S):
            while not condition(seen := self.requests()):  # noqa: ASYNC110 another process is looked at
                await asyncio.sleep(0.01)
        return seen

    def go_on(self) -> None:
        """Let an answer that is held (`hold`) go on."""
        assert self.ask("POST", "/_go")[0] == 200

    def reset(self) -> None:
        self.ask("POST", "/_reset")

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """One call; its answer as JSON where it is JSON."""
        status, text = self.raw(method, path, body, **headers)
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text

    def raw(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, bytes]:
        connection = HTTPConnection(self._place, timeout=PATIENCE_S)
        try:
            sent = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, sent, {name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


def start_provider(*arguments: str) -> tuple[subprocess.Popen[bytes], RunningProvider]:
    process = subprocess.Popen([sys.executable, str(PROGRAM), "--port", "0", *arguments], stdout=subprocess.PIPE)
    assert process.stdout is not None
    return process, RunningProvider(process.stdout.readline().decode().strip())


def stop_provider(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.communicate(timeout=PATIENCE_S)


@pytest.fixture(scope="session")
def provider_process() -> Iterator[RunningProvider]:
    process, running = start_provider()
    try:
        yield running
    finally:
        stop_provider(process)


@pytest.fixture
def provider(provider_process: RunningProvider) -> RunningProvider:
    """A provider with no scripts that remembers nothing."""
    provider_process.reset()
    return provider_process
