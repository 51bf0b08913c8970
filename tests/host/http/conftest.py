"""A whole host behind a real uvicorn on a free port, and a plain client for it."""

import asyncio
import contextlib
import http.client
import json
import secrets
import socket
import textwrap
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.replacement import replace

from bollard.host.app import Host
from bollard.host.http.server.server import HttpServer
from bollard.host.settings import Settings
from bollard.wire import encode

PATIENCE_S = 120.0
LOOK_S = 0.01
PARROT = """
    import asyncio
    from bollard.sdk import RunContext, runner

    @runner(name="default", label="Parrot")
    async def parrot(ctx: RunContext):
        text = ctx.input.text or ""
        if text == "wait":
            yield ctx.delta("waiting")
            await asyncio.Event().wait()
        elif text == "flood":
            for number in range(150):
                yield ctx.delta(f"{number} " + "x" * 100_000)
            yield ctx.completed("that was much")
        elif text == "die":
            import os
            os._exit(1)
        else:
            for word in text.split():
                yield ctx.delta(word + " ")
"""
WORKSHOP = """
    import asyncio
    from typing import Annotated

    from pydantic import BaseModel
    from bollard.sdk import AgentAPIException, Display, Form, RunContext, content_of, runner

    TURN_S = 0.01

    class Keys(BaseModel):
        greeting: str = "hello"
        key: Annotated[str, Form(type="secret")] = ""

    @runner(name="steady", label="Steady", capabilities=["steering"], permissions={"history": ["page"]})
    async def steady(ctx: RunContext):
        yield ctx.delta(f"begun: {ctx.input.text} ")
        while ctx.input.text != "enough":
            for item in (await ctx.api.steering.pull()).items:
                yield ctx.delta(f"told: {item.input.text} ")
                if item.input.text == "enough":
                    return
            await asyncio.sleep(TURN_S)

    @runner(name="hasty", label="Hasty", capabilities=["steering"])
    async def hasty(ctx: RunContext):
        yield ctx.delta("begun ")
        told, patience_ms = [], 0
        while "enough" not in told:
            patience_ms = patience_ms % 12 + 0.5
            try:
                pulled = await asyncio.wait_for(ctx.api.steering.pull(), patience_ms / 1000)
                told += [item.input.text for item in pulled.items]
            except TimeoutError:
                pass
            await asyncio.sleep(TURN_S)
        yield ctx.completed(" ".join(told))

    @runner(name="reader", label="Reader", permissions={"history": ["page"], "events": ["get"]})
    async def reader(ctx: RunContext):
        yield ctx.delta("reading ")
        while True:
            try:
                await ctx.api.history.page()
            except AgentAPIException as refusal:
                yield ctx.completed(refusal.error.code)
                return
            await asyncio.sleep(TURN_S)

    @runner(name="storer", label="Storer", permissions={"storage": ["workspace"], "agents": ["call"]})
    async def storer(ctx: RunContext):
        yield ctx.delta("storing ")
        if (below := ctx.input.text or "") != "write":
            child = await ctx.api.agents.call(below.split()[0], " ".join(below.split()[1:]) or "write")
            yield ctx.completed(f"{child.status} < {child.messages[-1].content}")
            return
        while True:
            try:
                await ctx.api.storage.workspace.set("k", b"v")
            except AgentAPIException as refusal:
                yield ctx.completed(refusal.error.code)
                return
            await asyncio.sleep(TURN_S)

    @runner(name="carrier", label="Carrier", capabilities=["steering"], permissions={"artifacts": ["read", "write"]})
    async def carrier(ctx: RunContext):
        yield ctx.delta("carrying ")
        if ctx.input.text == "make":
            yield ctx.artifact("note", content=b"what was made", name="note.txt", mime_type="text/plain")
            return
        given = [ctx.input]
        while ctx.input.text == "wait" and len(given) == 1:
            given += [item.input for item in (await ctx.api.steering.pull()).items]
            await asyncio.sleep(TURN_S)
        for attached in given[-1].attachments:
            read = await ctx.api.artifacts.read(attached.artifact_id)
            yield ctx.completed(f"{attached.name} {attached.size_bytes}: {content_of(read).decode()}")

    @runner(name="courier", label="Courier", permissions={"artifacts": ["read", "write"]})
    async def courier(ctx: RunContext):
        uploaded = await ctx.api.artifacts.write("report.txt", "text/plain", b"report")
        others = [each.artifact_id for each in ctx.input.attachments] or [ctx.input.text]
        files = [{"type": "artifact", "artifact_id": each} for each in (uploaded.artifact_id, *others)]
        image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
        yield ctx.completed({"role": "assistant", "content": [{"type": "text", "text": "here"}, *files, image]})

    @runner(name="bard", label="Bard")
    async def bard(ctx: RunContext):
        length, _, times = ctx.input.text.partition(" ")
        for _ in range(int(times or 1)):
            yield ctx.completed("x" * int(length))

    @runner(name="caller", label="Caller", permissions={"agents": ["call"]})
    async def caller(ctx: RunContext):
        agent, _, text = (ctx.input.text or "").partition(" ")
        yield ctx.delta("calling ")
        try:
            child = await ctx.api.agents.call(agent, text or ctx.input.text)
        except AgentAPIException as refusal:
            yield ctx.completed(f"refused {refusal.error.code}")
            return
        said = " ".join(message.content for message in child.messages)
        yield ctx.completed(f"{child.status} < {said}")

    @runner(
        name="twofold",
        label="Twofold",
        capabilities=["steering", "tool_calling"],
        permissions={"agents": ["call"], "tools": ["call"]},
    )
    async def twofold(ctx: RunContext):
        yield ctx.delta("ready ")
        if ctx.input.text != "wait":
            try:
                below = await ctx.api.tools.call(f"agent:{ctx.input.text}", {"text": ctx.input.text})
                yield ctx.completed(f"called < {below.content[0].text}")
            except AgentAPIException as refusal:
                yield ctx.completed(refusal.error.code)
            return
        while not (told := (await ctx.api.steering.pull()).items):
            await asyncio.sleep(TURN_S)
        name, came = told[0].input.text, []
        for call in (ctx.api.agents.call(name, "hi"), ctx.api.tools.call(f"agent:{name}", {"text": "hi"})):
            try:
                await call
                came.append("called")
            except AgentAPIException as refusal:
                came.append(refusal.error.code)
        yield ctx.completed(" ".join(came))

    @runner(name="locked", label="Locked")
    async def locked(ctx: RunContext[Keys]):
        yield ctx.completed(f"{ctx.config.greeting} {len(ctx.config.key)}")

    class Place(BaseModel):
        region: Annotated[str, Form(locked={"en_US": "Agreed."})] = "eu"
        callback: Display = "{host_url}/hooks/{workspace}/{unknown}"

    @runner(name="placed", label="Placed")
    async def placed(ctx: RunContext[Place]):
        yield ctx.completed(ctx.config.region)
"""


@dataclass
class Answer:
    """One response, whole."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> Any:
        return self.json["error"]


@dataclass
class Event:
    """One server-sent event."""

    id: str | None
    type: str
    data: Any


@dataclass
class Stream:
    """An open stream of a run."""

    connection: http.client.HTTPConnection
    response: http.client.HTTPResponse
    seen: list[Event] = field(default_factory=list[Event])

    def __iter__(self) -> Iterator[Event]:
        fields: dict[str, str] = {}
        for line in self.response:
            text = line.decode().rstrip("\n")
            if text:
                name, _, value = text.partition(": ")
                fields[name] = value
            elif "data" in fields:
                event = Event(fields.get("id"), fields["event"], json.loads(fields["data"]))
                if event.type == "message.delta":
                    event.data["created_at"] = 0  # deltas that were stored as one row share one time
                self.seen.append(event)
                fields = {}
                yield event
            else:
                fields = {}
        self.close()

    def until(self, kind: str) -> Event:
        for event in self:
            if event.type == kind:
                return event
        raise AssertionError(f"the stream ended without {kind}: {[event.type for event in self.seen]}")

    def close(self) -> None:
        # The response holds the socket open; closing only the connection would not hang up.
        self.response.close()
        self.connection.close()


class Client:
    """Speaks HTTP to one host."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self.token = token
        self._address = ""

    def elsewhere(self, seed: str) -> "Client":
        """The same from another address: strangers have a rate for each."""
        other = type(self)(self.port, self.token)
        number = zlib.crc32(seed.encode())
        other._address = f"127.{1 + number % 250}.{1 + number // 250 % 250}.{1 + number // 62500 % 250}"
        return other

    def _open(
        self, method: str, path: str, body: Any, headers: dict[str, str], token: str | None
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=PATIENCE_S, source_address=(self._address, 0) if self._address else None
        )
        raw = encode(body) if isinstance(body, dict) else body
        sent = dict(headers)
        if token is not None:
            sent.setdefault("authorization", f"Bearer {token}")
        connection.request(method, path, body=raw, headers=sent, encode_chunked="transfer-encoding" in sent)
        return connection, connection.getresponse()

    def send(self, method: str, path: str, body: Any = None, *, token: str | None = "", **headers: str) -> Answer:
        given = self.token if token == "" else token
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection, response = self._open(method, path, body, named, given)
        with contextlib.closing(connection):
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())

    def get(self, path: str, **more: Any) -> Answer:
        return self.send("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Answer:
        return self.send("POST", path, body, **more)

    def put(self, path: str, body: Any = None, **more: Any) -> Answer:
        return self.send("PUT", path, body, **more)

    def delete(self, path: str, **more: Any) -> Answer:
        return self.send("DELETE", path, **more)

    def save_agent(self, agent_id: str, runner: str = "parrot/default", config: Any = None, **policy: Any) -> Any:
        body = {"runner_id": f"plugin:local/{runner}", "config": config or {}, "policy": policy}
        answer = self.put(f"/api/v1/agents/{agent_id}", body)
        assert answer.status in (200, 201), answer.body
        return answer.json

    def tell(self, agent: str, text: str, **more: Any) -> Answer:
        return self.post("/api/v1/runs", {"agent": agent, "input": {"text": text}, **more})

    def stream(self, run_id: str, last: str | None = None) -> Stream:
        headers = {} if last is None else {"last-event-id": last}
        connection, response = self._open("GET", f"/api/v1/runs/{run_id}/stream", None, headers, self.token)
        assert response.status == 200, response.read()
        return Stream(connection, response)

    def events(self, query: str = "", last: str | None = None, path: str = "/api/v1/events/stream") -> Stream:
        """The stream of the workspace's events, or another stream."""
        headers = {} if last is None else {"last-event-id": last}
        connection, response = self._open("GET", f"{path}{query}", None, headers, self.token)
        assert response.status == 200, response.read()
        return Stream(connection, response)

    def create_and_stream(self, body: Any) -> Stream:
        headers = {"accept": "text/event-stream"}
        connection, response = self._open("POST", "/api/v1/runs", body, headers, self.token)
        assert response.status == 200, response.read()
        return Stream(connection, response)

    def say(self, text: str, **more: Any) -> str:
        answer = self.post("/api/v1/runs", {"agent": "parrot", "input": {"text": text}, **more})
        assert answer.status == 202, answer.body
        return answer.json["run_id"]

    def read(self, run_id: str, last: str | None = None) -> list[Event]:
        stream = self.stream(run_id, last)
        events = list(stream)
        stream.close()
        return events

    def until(self, path: str, condition: Any) -> Any:
        """Asks until the answer fits, for a bounded time."""
        give_up_at = time.monotonic() + PATIENCE_S
        while not condition(answer := self.get(path).json):
            assert time.monotonic() < give_up_at, f"{path} is {answer}"
            time.sleep(LOOK_S)
        return answer

    def ended(self, run_id: str) -> Any:
        """The run, when it has ended."""
        self.read(run_id)
        return self.get(f"/api/v1/runs/{run_id}").json

    def until_health(self, condition: Any) -> Any:
        """Asks until the host's health fits, for a bounded time."""
        give_up_at = time.monotonic() + PATIENCE_S
        while not condition(health := self.get("/readyz").json):
            assert time.monotonic() < give_up_at, f"the host's health is {health}"
            time.sleep(LOOK_S)
        return health


class HostThread:
    """A host on a separate loop, so that tests can be plain functions."""

    def __init__(self, settings: Settings, **more: Any) -> None:
        self.settings = settings
        self._more = more
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.token: str | None = None
        self._up = threading.Event()
        self._down: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        assert self._up.wait(PATIENCE_S)
        if self._problem is not None:
            self.listener.close()
            raise self._problem

    def _work(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._problem = error
            self._up.set()

    async def _serve(self) -> None:
        self._loop, self._down = asyncio.get_running_loop(), asyncio.Event()
        host = Host(self.settings, **self._more)
        self.token = host.new_token
        app = await host.start()
        server = HttpServer(app, self.settings, stop_s=1)
        serving = asyncio.create_task(server.serve(sockets=[self.listener]))
        self._up.set()
        await self._down.wait()
        await host.stop()
        server.should_exit = True
        await serving

    def stop(self) -> None:
        if self._loop is not None and self._down is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._down.set)
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        self.listener.close()
        if self._problem is not None:
            raise self._problem


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugins") / "parrot.py"
    path.write_text(textwrap.dedent(PARROT), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def own_schema(postgres_database: str) -> Iterator[str]:
    """A schema of this module alone, so that its host shares no table with other tests."""
    name = f"http_{secrets.token_hex(4)}"
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}")
        yield f"{postgres_database}?options=-csearch_path%3D{name}"
        connection.execute(f"DROP SCHEMA {name} CASCADE")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, plugin: Path) -> Settings:
    database = request.getfixturevalue("own_schema") if request.param == "postgres" else ""
    return Settings(
        data=tmp_path_factory.mktemp("data"),
        database=database,
        plugins=(plugin,),
        builtin_plugins=False,
        port=0,
        grace_s=0.5,
        egress_allow=("127.0.0.0/8",),
        sandbox_roots=(tmp_path_factory.mktemp("shared"),),
    )


@pytest.fixture(scope="module")
def kit_settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, plugin: Path) -> Settings:
    """Of a host that also has the plugin `kit`, whose source the module has as `KIT`."""
    kit = tmp_path_factory.mktemp("kit") / "kit.py"
    kit.write_text(textwrap.dedent(request.module.KIT), encoding="utf-8")
    return Settings(
        data=tmp_path_factory.mktemp("data"),
        plugins=(plugin, kit),
        builtin_plugins=False,
        port=0,
        grace_s=0.5,
        egress_allow=("127.0.0.1",),
    )


@pytest.fixture(scope="module")
def api(settings: Settings) -> Iterator[Client]:
    host = HostThread(settings)
    assert host.token is not None
    client = Client(host.port, host.token)
    client.until_health(lambda health: health["plugins"]["parrot"]["status"] == "ready")
    yield client
    host.stop()


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plugin with runners that steer, read, call others and hold a secret."""
    path = tmp_path_factory.mktemp("plugins") / "workshop.py"
    path.write_text(textwrap.dedent(WORKSHOP), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def shop(settings: Settings, workshop: Path) -> Iterator[Client]:
    """A host with both plugins."""
    host = HostThread(replace(settings, plugins=(*settings.plugins, workshop)))
    assert host.token is not None
    client = Client(host.port, host.token)
    client.until_health(lambda health: {plugin["status"] for plugin in health["plugins"].values()} == {"ready"})
    yield client
    host.stop()


@pytest.fixture
def start_host() -> Iterator[Any]:
    """Hosts that a test starts and stops itself."""
    started: list[HostThread] = []

    def start(settings: Settings, **more: Any) -> HostThread:
        host = HostThread(settings, **more)
        started.append(host)
        return host

    yield start
    for host in started:
        host.stop()


@pytest.fixture(scope="module")
def start_module_host() -> Iterator[Any]:
    """Hosts for all tests of a module."""
    started: list[HostThread] = []

    def start(settings: Settings, **more: Any) -> HostThread:
        started.append(HostThread(settings, **more))
        return started[-1]

    yield start
    for host in started:
        host.stop()


@pytest.fixture(scope="session")
def client_of() -> type[Client]:
    return Client
