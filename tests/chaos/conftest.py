"""Clients that keep a real host busy while it is killed, and the answers that they got."""

import asyncio
import os
import random
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from tests.chaos.host_process import HostProcess, UpProcess
from tests.chaos.http_client import BROKEN
from tests.chaos.receiver import Receiver
from tests.simulation.history import History
from tests.simulation.ledger import chain_problems, run_problems

from bollard.host.log.rebuild import rebuild
from bollard.host.store.store import Store
from bollard.trust.keys import load_or_make_signing_key

HERE = Path(__file__).parent
SERVERS = ("postgresql://postgres@127.0.0.1:5432/postgres", "postgresql://root@127.0.0.1:5432/postgres")


def scripted_plan(dice: random.Random, event_id: str) -> dict[str, Any]:
    """A run of some size."""
    del event_id
    return {
        "deltas": dice.choice([0, 3, 40, 200]),
        "pause_ms": dice.choice([0, 0, 5, 20]),
        "state": dice.random() < 0.3,
        "artifact": dice.random() < 0.3,
        "raises": dice.random() < 0.1,
    }


class Chaos:
    """Clients that keep a host busy, and the judge of the answers that they got."""

    def __init__(
        self,
        host: HostProcess,
        seed: int,
        *,
        agent: str = "scripted",
        plan: Callable[[random.Random, str], dict[str, Any]] = scripted_plan,
        again: float = 0.2,
        history: History | None = None,
    ) -> None:
        self.host = host
        self.random = random.Random(seed)
        self.history = history or History()
        self.events: dict[str, dict[str, Any]] = {}
        """Every event that was ever sent, acknowledged or not."""
        self._agent = agent
        self._plan = plan
        self._again = again
        """How often an event that was sent before is sent again."""

    def new_event(self) -> str:
        """An event planned by the seed, with a new id."""
        event_id = f"e{len(self.events)}"
        self.events[event_id] = self._plan(self.random, event_id)
        return event_id

    async def deliver(self, event_id: str) -> str:
        """Post an event, again or for the first time; the run it became."""
        plan = self.events[event_id]
        body = {"source": "chaos", "id": event_id, "type": "message.received", "agent": self._agent, "data": plan}
        body["text"] = plan.get("text", "go")
        found = await self.host.client.post("/api/v1/events", body)
        self.history.acknowledged("chaos", event_id, found["run_id"])
        return found["run_id"]

    async def busy(self) -> None:
        """One client until the host dies: new events, old events again, streams. Ends with one of `BROKEN`."""
        while True:
            known = list(self.events)
            again = bool(known) and self.random.random() < self._again
            run_id = await self.deliver(self.random.choice(known) if again else self.new_event())
            if self.random.random() < 0.8:
                await self.host.client.watch(self.history.view(run_id))

    async def storm(self, clients: int) -> None:
        """Several clients until the host dies."""
        tasks = [asyncio.create_task(self.busy()) for _ in range(clients)]
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(outcome, BROKEN), repr(outcome)

    async def settle(self) -> None:
        """Every reader gets to the end of its run, and every event delivered again gets its first run."""
        async with self.host.awaiting("the end of every run"):
            await asyncio.gather(*(self.host.client.watch(view) for view in self.history.views if not view.ended))
            for event_id in self.events:
                await self.host.client.watch(self.history.view(await self.deliver(event_id)))

    def problems(self) -> list[str]:
        """Problems of the data that the host left on disk."""
        return self.inspect(run_problems)

    def inspect(self, *judges: Callable[[Store], Iterable[str]]) -> list[str]:
        """Problems found by these judges, in the chain, and in the answers of all clients."""
        store = self.host.open_store()
        try:
            key = load_or_make_signing_key(self.host.data / "keys" / "heads.ed25519").verify_key
            found = [*chain_problems(store, key), *self.history.disagreements(store)]
            found += [problem for judge in judges for problem in judge(store)]
            before = store.dump_projections()
            rebuild(store)
            after = store.dump_projections()
            found += [f"a rebuild changes {table}" for table in before if before[table] != after[table]]
            return found
        finally:
            store.close()


@pytest.fixture(scope="session")
def seed() -> int:
    return int(os.environ.get("CHAOS_SEED", "1"))


@pytest.fixture
def rounds() -> int:
    """How often the host is killed; every commit runs the short form."""
    return int(os.environ.get("CHAOS_ROUNDS", "4"))


@pytest.fixture
def repeats(rounds: int) -> int:
    """How often a fault that takes seconds is repeated: once in the short form."""
    return max(1, rounds // 4)


@pytest.fixture(scope="session")
def scripted() -> Path:
    return HERE / "scripted.py"


@pytest.fixture(scope="session")
def host_class() -> type[HostProcess]:
    return HostProcess


@pytest.fixture(scope="session")
def up_class() -> type[UpProcess]:
    return UpProcess


@pytest.fixture
async def make_host(tmp_path: Path) -> AsyncIterator[Callable[..., HostProcess]]:
    """Makes hosts, and ends those that are left."""
    made: list[HostProcess] = []

    def make(*plugins: Path, data: Path | None = None, **options: Any) -> HostProcess:
        host = HostProcess(data or tmp_path / f"data{len(made)}", list(plugins), **options)
        made.append(host)
        return host

    yield make
    for host in made:
        await host.clear()


@pytest.fixture(scope="session")
def make_chaos(seed: int) -> Callable[..., Chaos]:
    return lambda host, **options: Chaos(host, seed, **options)


@pytest.fixture
def plugin_path() -> Callable[[str], Path]:
    """The plugins of this folder, by name."""
    return lambda name: HERE / f"{name}.py"


@pytest.fixture(scope="session")
def disk_shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library between a host and its disk; see its source."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is missing: it builds the library that watches and slows the host's disk")
    library = tmp_path_factory.mktemp("shim") / "disk_shim.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", library, HERE / "disk_shim.c", "-ldl"], check=True)
    return library


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    """A program behind a channel, at its `url`."""
    found = Receiver()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0)
    found.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    yield found
    server.close()


@pytest.fixture(scope="session")
def server() -> Iterator[tuple[str, psycopg.Connection[Any]]]:
    """PostgreSQL: its URL, and a connection that may make databases."""
    named = os.environ.get("BOLLARD_TEST_POSTGRES")
    for url in (named,) if named else SERVERS:
        try:
            connection = psycopg.connect(url, autocommit=True, connect_timeout=120)
        except psycopg.Error:
            continue
        with connection:
            yield url, connection
        return
    pytest.fail("no PostgreSQL server answers", pytrace=False)


@pytest.fixture
def database(server: tuple[str, psycopg.Connection[Any]]) -> Iterator[tuple[str, str]]:
    """A separate database; its name, and its URL."""
    url, connection = server
    name = f"bollard_chaos_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_{os.getpid()}"
    connection.execute(f"CREATE DATABASE {name}")
    yield name, urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
