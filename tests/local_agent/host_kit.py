"""A whole host with the local agent in its own worker, and a provider that speaks a vendor's format.

There is one with each kind of store, started when the first test needs it and shared by all tests of this process.
"""

import os
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.host.conftest import _with_database, find_server
from tests.host.http.conftest import Client, HostThread
from tests.local_agent.provider_kit import RunningProvider

from bollard.host.settings import Settings

PLUGIN = Path(__file__).resolve().parents[2] / "plugins" / "local-agent"
SEEDING = Path(__file__).parent / "seeding.py"
RUNNER = "plugin:bollard/local-agent/default"
TOOLS = """
    import asyncio

    from bollard.sdk import tool

    PLAIN = {"reads_private": False, "brings_untrusted": False, "sends_out": False}

    @tool(risk="low", flow=PLAIN)
    def weather(city: str) -> str:
        \"\"\"The weather of a city.\"\"\"
        return f"sunny in {city}"

    @tool(risk="low", flow=PLAIN)
    async def wait() -> str:
        \"\"\"Waits for ever.\"\"\"
        await asyncio.Event().wait()
        return "never"

    @tool(risk="high", flow=PLAIN)
    def pay(amount: int) -> str:
        \"\"\"Pays somebody.\"\"\"
        return f"paid {amount}"
"""
WEATHER, WAIT, PAY = (f"tool:local/errands/{name}" for name in ("weather", "wait", "pay"))


class AgentHost:
    """The operations of tests on such a host."""

    def __init__(self, client: Client, provider: RunningProvider) -> None:
        self.client = client
        self.provider = provider

    def save_model(self, model_id: str, **more: Any) -> None:
        """A model of the provider; it is asked once, so that a fault is a failure and not a second try."""
        spec = {"style": "openai-chat", "base_url": self.provider.url, "model": model_id, "tries": 1, **more}
        answer = self.client.put(f"/api/v1/models/{model_id}", spec)
        assert answer.status in (200, 201), answer.body

    def save_agent(self, agent_id: str, **config: Any) -> None:
        """An agent; `policy` is its policy, everything else its configuration."""
        policy = config.pop("policy", {})
        config.setdefault("model", {"primary": "main", "fallbacks": []})
        body = {"runner_id": RUNNER, "config": config, "policy": {"access": ACCESS, **policy}}
        answer = self.client.put(f"/api/v1/agents/{agent_id}", body)
        assert answer.status in (200, 201), answer.body

    def tell(self, agent: str, text: str, **more: Any) -> str:
        """Start a run; its id."""
        answer = self.client.tell(agent, text, **more)
        assert answer.status == 202, answer.body
        return answer.json["run_id"]

    def run(self, agent: str, text: str, **more: Any) -> "Told":
        """A run, to its end."""
        return self.told(self.tell(agent, text, **more))

    def told(self, run_id: str) -> "Told":
        """The results of a run, after its end."""
        events = self.client.read(run_id)
        return Told(run_id, [(event.type, event.data["data"]) for event in events])

    def asked(self) -> list[dict[str, Any]]:
        """The requests to the provider, oldest first."""
        return self.provider.bodies("/chat/completions")


class Told:
    """The records of one run."""

    def __init__(self, run_id: str, records: list[tuple[str, dict[str, Any]]]) -> None:
        self.run_id = run_id
        self.records = records

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [data for type_, data in self.records if type_ == kind]

    @property
    def messages(self) -> list[dict[str, Any]]:
        return [data["message"] for data in self.of("message.completed")]

    @property
    def text(self) -> str:
        """The last message of the agent."""
        return [message["content"] for message in self.messages if message["role"] == "assistant"][-1]

    @property
    def deltas(self) -> list[str]:
        return [data["chunk"]["content"] for data in self.of("message.delta")]

    @property
    def end(self) -> dict[str, Any]:
        (ended,) = self.of("run.ended")
        return ended

    @property
    def status(self) -> str:
        return self.end["status"]


ACCESS: dict[str, Any] = {
    "permissions": {
        "models": ["invoke", "stream", "rerank"],
        "tools": ["detail", "call"],
        "knowledge_bases": ["list", "retrieve"],
        "history": ["page"],
        "events": ["page"],
        "artifacts": ["metadata", "read"],
        "agents": ["call"],
    }
}
"""All permissions that the runner may get; a configuration or a policy names the granted ones."""


@contextmanager
def own_database() -> Iterator[str]:
    """The URL of a database of this test process alone."""
    server, name = find_server(), f"bollard_agent_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield _with_database(server, name)
        finally:
            connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@contextmanager
def _running(folder: Path, provider: RunningProvider, database: str = "") -> Iterator[AgentHost]:
    errands = folder / "errands.py"
    errands.write_text(textwrap.dedent(TOOLS), encoding="utf-8")
    settings = Settings(
        data=folder / "data",
        database=database,
        plugins=(PLUGIN, errands, SEEDING),
        builtin_plugins=False,
        port=0,
        grace_s=0.5,
        egress_allow=("127.0.0.1",),
    )
    host = HostThread(settings)
    assert host.token is not None
    client = Client(host.port, host.token)
    client.until_health(lambda health: {plugin["status"] for plugin in health["plugins"].values()} == {"ready"})
    running = AgentHost(client, provider)
    for model in ("main", "second", "third"):
        running.save_model(model)
    yield running
    host.stop()


@pytest.fixture(scope="session")
def sqlite_host(tmp_path_factory: pytest.TempPathFactory, provider_process: RunningProvider) -> Iterator[AgentHost]:
    with _running(tmp_path_factory.mktemp("sqlite"), provider_process) as host:
        yield host


@pytest.fixture(scope="session")
def postgres_host(tmp_path_factory: pytest.TempPathFactory, provider_process: RunningProvider) -> Iterator[AgentHost]:
    with own_database() as database, _running(tmp_path_factory.mktemp("postgres"), provider_process, database) as host:
        yield host


@pytest.fixture(params=["sqlite", "postgres"])
def agent_host(request: pytest.FixtureRequest, provider: RunningProvider) -> AgentHost:
    """The host with each kind of store, and a provider that has no scripts and remembers nothing."""
    del provider
    return request.getfixturevalue(f"{request.param}_host")


@pytest.fixture
def any_host(sqlite_host: AgentHost, provider: RunningProvider) -> AgentHost:
    """The same for tests that do not depend on the store: one store is enough."""
    del provider
    return sqlite_host
