"""Stores of every kind. PostgreSQL is a running server: the one in BOLLARD_TEST_POSTGRES, or one on loopback."""

import asyncio
import dataclasses
import hashlib
import os
import re
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec
import psycopg
import pytest
from tests.doubles.failing_store import FailurePlan, failing
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.doubles.memory_transport import MemoryTransport, memory_pair
from tests.new_events import new_event
from tests.notifier import Notifier

from bollard.host.agents.agent import Agent, AgentRegistry
from bollard.host.agents.policies import AccessPolicy, AgentPolicy, ConcurrencyPolicy, StatePolicy
from bollard.host.agents.routing import AgentDirectory, BindingRegistry
from bollard.host.core import CapabilityParts, HostIdentity, Storage, build_core
from bollard.host.engine import LocalEngine
from bollard.host.errors import WorkerUnavailable
from bollard.host.grants.access import compile_access
from bollard.host.grants.grant import issue_grant, limits_of
from bollard.host.grants.offer import Offer
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.journal_writers import WriterThread
from bollard.host.log.records import NewRecord, RunFacts
from bollard.host.log.writer import Writer
from bollard.host.runs.backlog import RunLimits
from bollard.host.runs.event import NewEvent
from bollard.host.runs.hub import StreamRecord
from bollard.host.runs.stream import RunReader, StreamPosition
from bollard.host.scope import Scope
from bollard.host.store.delta_spans import pack
from bollard.host.store.postgres import postgres_store as make_postgres_store
from bollard.host.store.rows import POLICY_KINDS, DeltaRow, RecordRow, RunRow
from bollard.host.store.sqlite import sqlite_store as make_sqlite_store
from bollard.host.store.store import Store
from bollard.protocol import JsonObject, LogRecord, PluginIdentity, WorkerIdentity
from bollard.trust.keys import SigningKey
from bollard.wire import HostEnd, HostRun, Strike, ToolRequest, WorkerEnd, WorkerRun

LOCAL_SERVERS = ("postgresql://postgres@127.0.0.1:5432/postgres", "postgresql://root@127.0.0.1:5432/postgres")
HINT = "start PostgreSQL on 127.0.0.1:5432 (user postgres, trust), or set BOLLARD_TEST_POSTGRES to a server's URL"
TABLES = ", ".join(
    (
        *(
            "records",
            "deltas",
            "heads",
            "events",
            "runs",
            "transcript",
            "conversations",
            "state",
            "artifacts",
            "storage",
            "meta",
            "kept",
            "outbox",
            "tool_calls",
            "approvals",
        ),
        *(f"{kind}s" for kind in POLICY_KINDS),
    )
)


def find_server() -> str:
    """A URL that answers. These tests are never left out: without a server they fail."""
    named = os.environ.get("BOLLARD_TEST_POSTGRES")
    problems: list[str] = []
    for url in (named,) if named else LOCAL_SERVERS:
        try:
            psycopg.connect(url, connect_timeout=120).close()
        except psycopg.Error as error:
            problems.append(str(error).strip())
        else:
            return url
    pytest.fail(f"no PostgreSQL server answers: {problems}\nhint: {HINT}", pytrace=False)


def _with_database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))


@pytest.fixture(scope="session")
def postgres_database() -> Iterator[str]:
    """The URL of a database of this test process alone."""
    server = find_server()
    name = f"bollard_test_{os.environ.get('PYTEST_XDIST_WORKER', 'main')}_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
        yield _with_database(server, name)
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def _migrated_postgres(postgres_database: str) -> str:
    store = make_postgres_store(postgres_database)
    store.open()
    store.close()
    return postgres_database


@pytest.fixture
def empty_postgres_tables(_migrated_postgres: str) -> Callable[[], None]:
    """Delete every row and count record ids from 1 again."""

    def empty() -> None:
        with psycopg.connect(_migrated_postgres, autocommit=True) as connection:
            # Not TRUNCATE: that makes new files for each table, a hundred times the work of deleting a few rows.
            connection.execute("; ".join(f"DELETE FROM {table}" for table in TABLES.split(", ")))  # type: ignore[arg-type]
            connection.execute("ALTER SEQUENCE record_ids RESTART")

    return empty


@pytest.fixture
def postgres_url(_migrated_postgres: str, empty_postgres_tables: Callable[[], None]) -> Iterator[str]:
    """A database with the newest schema and no rows."""
    yield _migrated_postgres
    empty_postgres_tables()


@pytest.fixture
def empty_postgres_url(postgres_database: str) -> Iterator[str]:
    """A separate schema, without any table."""
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA fresh")
        yield f"{postgres_database}?options=-csearch_path%3Dfresh"
        connection.execute("DROP SCHEMA fresh CASCADE")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def memory_store(clock: ManualClock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture
def sqlite_path(tmp_path: Path) -> Path:
    return tmp_path / "bollard.db"


@pytest.fixture
def sqlite_store(sqlite_path: Path, clock: ManualClock) -> Iterator[Store]:
    store = make_sqlite_store(sqlite_path, clock=clock)
    store.open()
    yield store
    store.close()


@pytest.fixture
def postgres_store(postgres_url: str) -> Iterator[Store]:
    store = make_postgres_store(postgres_url)
    store.open()
    yield store
    store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Any:
    """Each kind of store in turn: all must behave the same."""
    return request.getfixturevalue(f"{request.param}_store")


@pytest.fixture
def reopen() -> Callable[[Store], None]:
    """Close a store and open it again: only the data on disk is left."""

    def close_and_open(store: Store) -> None:
        store.close()
        store.open()

    return close_and_open


# --- an in-memory host: journal, dispatcher and workers without processes ---

PATIENCE_S = 120.0
PLUGIN = PluginIdentity(author="acme", name="parrot", version="1")
WORKER = WorkerIdentity(name="test", version="1", language="python")

Behave = Callable[["MemoryWorker", WorkerRun], Coroutine[Any, Any, None]]


class MemoryBlobs:
    """Blobs in a dictionary."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}

    def put(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        self.contents[digest] = content
        return digest


class Scribe:
    """Makes facts, records, deltas and entries as the host would."""

    def facts(self, run_id: str = "run_1", **more: Any) -> RunFacts:
        fields: dict[str, Any] = {
            "workspace": "default",
            "event_id": f"evt_{run_id}",
            "agent_id": "parrot",
            "binding_id": "direct:parrot",
            "runner_id": "plugin:acme/parrot/default",
            "grant_sha256": "0" * 64,
            "conversation": "room",
            "on_message": True,
        }
        return RunFacts(run_id=run_id, **{**fields, **more})

    def record(
        self, facts: RunFacts, kind: str, data: dict[str, Any], seq: int, *, epoch: int = 1, **more: Any
    ) -> NewRecord:
        fields: dict[str, Any] = {"created_ms": 1_700_000_000_000 + seq, **more}
        return NewRecord(
            workspace=facts.workspace,
            type=kind,
            data=msgspec.json.encode(data),
            run_id=facts.run_id,
            seq=seq,
            epoch=epoch,
            **fields,
        )

    def note(self, kind: str = "note", *, workspace: str = "default", **data: Any) -> NewRecord:
        """A record outside any run."""
        return NewRecord(workspace=workspace, type=kind, data=msgspec.json.encode(data), created_ms=1_700_000_000_000)

    def first(self, facts: RunFacts, *, epoch: int = 1, text: str = "hello", **event: Any) -> Entry:
        """Event, run and grant."""
        heard = new_event(
            **{
                "source": "web",
                "source_id": facts.run_id,
                "event_type": "message.received",
                "text": text,
                "conversation": facts.conversation,
                "thread": facts.thread,
                "bot": facts.bot,
                "workspace": facts.workspace,
                **event,
            }
        )
        received = NewRecord(
            workspace=facts.workspace,
            type="event.received",
            data=heard.record(facts.event_id, facts.run_id),
            created_ms=1_700_000_000_000,
        )
        records = [
            received,
            NewRecord(
                workspace=facts.workspace,
                type="run.created",
                data=msgspec.json.encode(facts),
                created_ms=1_700_000_000_000,
                run_id=facts.run_id,
                seq=1,
                epoch=epoch,
            ),
            self.record(facts, "grant.issued", _grant_of(facts), 2, epoch=epoch),
        ]
        return Entry(records=records, dedupe=(facts.workspace, heard.source, heard.source_id))

    def deltas(self, facts: RunFacts, first_seq: int, texts: Sequence[str], *, epoch: int = 1) -> DeltaRow:
        bodies = [msgspec.json.encode({"chunk": {"role": "assistant", "content": text}}) for text in texts]
        return DeltaRow(
            run_id=facts.run_id,
            epoch=epoch,
            first_seq=first_seq,
            last_seq=first_seq + len(texts) - 1,
            created_ms=1_700_000_000_000,
            spans=pack([(first_seq + index, len(body)) for index, body in enumerate(bodies)]),
            body=b"".join(bodies),
        )


@pytest.fixture
def scribe() -> Scribe:
    return Scribe()


@pytest.fixture
def blobs() -> MemoryBlobs:
    return MemoryBlobs()


@pytest.fixture(scope="session")
def signing_key() -> SigningKey:
    return SigningKey(SigningKey.new_secret())


@pytest.fixture
async def open_journal(
    clock: ManualClock, blobs: MemoryBlobs, signing_key: SigningKey
) -> AsyncIterator[Callable[..., Journal]]:
    """Journals over any store, closed at the end."""
    opened: list[Journal] = []
    starting: list[asyncio.Future[None]] = []

    def start(store: Store, incarnation: str = "i1") -> Journal:
        journal = Journal(WriterThread(Writer(store, blobs, clock, incarnation=incarnation, key=signing_key)))
        starting.append(asyncio.ensure_future(journal.start()))  # earlier entries wait
        opened.append(journal)
        return journal

    yield start
    await asyncio.gather(*starting)
    for journal in opened:
        await journal.close()


class Gate:
    """A store whose commits wait while the gate is shut, and fail while it is broken."""

    def __init__(self, store: Store) -> None:
        self.plan = FailurePlan(on_call=self._on_call)
        self.store = failing(store, self.plan)
        self.commits = 0
        self.begun = 0
        self.broken: Exception | None = None
        self._open = threading.Event()
        self._open.set()
        self._arrived = threading.Semaphore(0)

    def _on_call(self, call: str) -> None:
        if call == "write.begin":
            self.begun += 1
            if not self._open.is_set():
                self._arrived.release()
                self._open.wait(PATIENCE_S)
            if self.broken is not None:
                raise self.broken
        self.commits += call == "write.commit"

    def shut(self) -> None:
        self._open.clear()

    def lift(self) -> None:
        self._open.set()

    async def arrival(self) -> None:
        """Until a commit waits at the gate."""
        assert await asyncio.to_thread(self._arrived.acquire, timeout=PATIENCE_S)


@pytest.fixture
def gate(memory_store: MemoryStore) -> Iterator[Gate]:
    gate = Gate(memory_store)
    yield gate
    gate.lift()


class LoopTime:
    """The loop's own clock, which tests may push forward: timers fire without real waiting."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ahead = 0.0
        real = loop.time
        loop.time = lambda: real() + self._ahead

    def advance(self, seconds: float) -> None:
        self._ahead += seconds

    async def until(self, condition: Callable[[], Any], step_s: float) -> None:
        """Advance time in steps until the condition holds: a late waiter waits for the next step."""
        give_up_at = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < give_up_at, "what was waited for did not come"
            await asyncio.sleep(0.002)
            self.advance(step_s)


@pytest.fixture
async def loop_time() -> LoopTime:
    return LoopTime(asyncio.get_running_loop())


class MemoryWorker(Notifier):
    """The worker's end of a channel, with plain functions as runners."""

    def __init__(self, transport: MemoryTransport, behave: Behave | None) -> None:
        super().__init__()
        self.transport = transport
        self.behave = behave
        self.end = WorkerEnd(transport, self, worker=WORKER, plugin=PLUGIN)
        self.runs: list[WorkerRun] = []
        self.cancels: list[tuple[str, str]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.end.start()

    def runners(self) -> list[JsonObject]:
        return []

    def tools(self) -> list[JsonObject]:
        return []

    def run_started(self, run: WorkerRun) -> None:
        self.runs.append(run)
        if self.behave is not None:
            self.tasks.append(asyncio.create_task(self.behave(self, run)))
        self.notify()

    def run_cancelled(self, run: WorkerRun, reason: str) -> None:
        self.cancels.append((run.run_id, reason))
        self.notify()

    def tool_called(self, request: ToolRequest) -> None: ...

    def tool_cancelled(self, call_id: str) -> None: ...

    def shutdown(self, grace_s: float, done: Callable[[], None]) -> None:
        done()

    def closed(self, reason: str) -> None:
        self.notify()

    async def complete(self, run: WorkerRun, **more: Any) -> None:
        """The last result and the answer."""
        await run.emit("run.completed", {"finish_reason": "end", **more})
        self.end.finish_run(run)


class MemorySlot:
    """The host's end of the same channel."""

    def __init__(self, behave: Behave | None) -> None:
        ours, theirs = memory_pair()
        self.transport = ours
        self.worker = MemoryWorker(theirs, behave)
        self.end = HostEnd(ours, self)
        self.runs = 0
        self.draining = False
        self.credits: list[tuple[str, int]] = []
        self._touched: dict[Any, None] = {}

    def start_run(self, run_id: str, request: JsonObject, sink: Any) -> HostRun:
        run = self.end.start_run_raw(run_id, request, sink)
        self.runs += 1
        return run

    def touch(self, run: Any) -> None:
        self._touched[run] = None

    def explain_failure(self, error: str) -> str:
        return error

    def batch_ended(self) -> None:
        touched, self._touched = self._touched, {}
        for run in touched:
            run.flush()

    def logged(self, record: LogRecord) -> None: ...

    def struck(self, strike: Strike) -> None: ...

    def closed(self, reason: str) -> None:
        self.batch_ended()


class MemoryPool:
    """Workers without processes, behind the interface of a pool."""

    def __init__(self) -> None:
        self.slots: list[MemorySlot] = []
        self.drained: list[MemorySlot] = []
        self.ready = asyncio.Event()
        self.unavailable: WorkerUnavailable | None = None

    async def add(self, behave: Behave | None = None) -> MemorySlot:
        slot = MemorySlot(behave)
        await slot.end.initialize("test")
        self.slots.append(slot)
        self.ready.set()
        return slot

    def pick(self) -> MemorySlot | None:
        found = [slot for slot in self.slots if not slot.draining]
        return min(found, key=lambda slot: slot.runs) if found else None

    async def wait_ready(self, timeout_s: float) -> MemorySlot:
        while True:
            await self.ready.wait()
            if self.unavailable is not None:
                raise self.unavailable
            if (slot := self.pick()) is not None:
                return slot
            self.ready.clear()  # its last worker is draining: another one may come

    def drain(self, slot: MemorySlot, run_id: str = "") -> None:
        del run_id
        slot.draining = True
        self.drained.append(slot)


def _grant_of(facts: RunFacts) -> dict[str, Any]:
    """The smallest grant that a run with these facts can have, as its record holds it."""
    agent = Agent(
        agent_id=facts.agent_id,
        runner_id=facts.runner_id,
        runner_name="default",
        plugin="parrot",
        label={"en_US": "Parrot"},
    )
    scope = Scope(workspace=facts.workspace, conversation=facts.conversation, thread=facts.thread)
    access = compile_access(agent, Offer.of())
    return msgspec.json.decode(
        issue_grant(run_id=facts.run_id, access=access, scope=scope, limits=limits_of(agent)).json
    )


def given(kind: type[msgspec.Struct], more: dict[str, Any]) -> dict[str, Any]:
    """Take the fields of `kind` out of the arguments of a test."""
    return {name: more.pop(name) for name in kind.__struct_fields__ if name in more}


class Stage:
    """Journal, hub, engine, dispatcher and reader over one store, with memory workers. A host without its rim."""

    def __init__(
        self, journal: Journal, store: Store, blobs: Any, clock: ManualClock, incarnation: str, **more: Any
    ) -> None:
        self.store = store
        self.journal = journal
        self.clock = clock
        self.pool = MemoryPool()
        self.pools = {(workspace, "parrot"): self.pool for workspace in ("default", "other", "second", "w", "v")}
        self.agents = AgentRegistry()
        self.bindings = BindingRegistry()
        self.engine = LocalEngine(journal, store, clock, incarnation)
        core = build_core(
            Storage(journal=journal, store=store, blobs=blobs, clock=clock),
            AgentDirectory(agents=self.agents, bindings=self.bindings, **given(AgentDirectory, more)),
            pools=self.pools,
            engine=self.engine,
            identity=HostIdentity(version="test", cursor_secret=b"c" * 32),
            limits=RunLimits(**given(RunLimits, more)),
            capabilities=CapabilityParts(**given(CapabilityParts, more)),
            **more,
        )
        self.core = core
        self.hub, self.dispatcher, self.intake = core.hub, core.dispatcher, core.intake
        self.reader = RunReader(store, self.hub, self.dispatcher.live)
        self.recovery = core.recovery
        self._said = 0
        self.agent()

    def agent(self, **more: Any) -> Agent:
        fields: dict[str, Any] = {
            "agent_id": "parrot",
            "runner_id": "plugin:acme/parrot/default",
            "runner_name": "default",
            "plugin": "parrot",
            "label": {"en_US": "Parrot"},
            "permissions": frozenset({"artifacts.write"}),
            "policy": AgentPolicy(
                access=AccessPolicy(permissions={"artifacts": ("write",)}),
                state=StatePolicy(scopes=("actor", "conversation", "runner", "subject")),
                concurrency=ConcurrencyPolicy(mode="parallel"),
            ),
        }
        agent = Agent(**{**fields, **more})
        self.agents.put(agent)
        return agent

    def event(self, text: str | None = "hello", **more: Any) -> NewEvent:
        self._said += 1
        fields: dict[str, Any] = {
            "source": "web",
            "source_id": f"said-{self._said}",
            "event_type": "message.received",
            "text": text,
            "conversation": "room",
        }
        return new_event(**{**fields, **more})

    async def say(self, text: str | None = "hello", **more: Any) -> str:
        """One new event; the id of its run."""
        accepted = await self.intake.accept(self.event(text, **more), "parrot")
        assert accepted.first
        assert accepted.run_id is not None
        return accepted.run_id

    async def read(self, run_id: str, after: StreamPosition | None = None) -> list[StreamRecord]:
        """The stream of a run to its end."""
        async with asyncio.timeout(PATIENCE_S):
            return [record async for batch in self.reader.read(run_id, after) for record in batch]

    async def ended(self, run_id: str) -> None:
        """Until the run's last record is on disk."""
        if live := self.dispatcher.live.get(run_id):
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.shield(live.done)

    def records(self, run_id: str) -> list[RecordRow]:
        return self.store.records_of_run(run_id, 0, 10_000)

    def types(self, run_id: str) -> list[str]:
        return [row.type for row in self.records(run_id)]

    def data(self, run_id: str, kind: str) -> list[dict[str, Any]]:
        """The data of the run's records of one type."""
        return [msgspec.json.decode(row.data or b"{}") for row in self.records(run_id) if row.type == kind]

    def row(self, run_id: str) -> RunRow:
        row = self.store.run(run_id)
        assert row is not None
        return row

    async def close(self) -> None:
        self.dispatcher.closing = True
        for slot in [*self.pool.slots, *self.pool.drained]:
            slot.end.close("the test is over")
            for task in slot.worker.tasks:
                task.cancel()
            await asyncio.gather(*slot.worker.tasks, return_exceptions=True)
        await self.core.close(0)


@pytest.fixture
async def stages(
    open_journal: Callable[..., Journal], clock: ManualClock, blobs: Any
) -> AsyncIterator[Callable[..., Awaitable[Stage]]]:
    """Hosts in memory: `await stages(store, behave)`."""
    opened: list[Stage] = []

    async def open_stage(
        store: Store, behave: Behave | None = None, *, incarnation: str = "i1", workers: int = 1, **more: Any
    ) -> Stage:
        stage = Stage(open_journal(store, incarnation), store, blobs, clock, incarnation, **more)
        opened.append(stage)
        for _ in range(workers):
            await stage.pool.add(behave)
        return stage

    yield open_stage
    for stage in opened:
        await stage.close()


# --- metrics ---


@dataclasses.dataclass
class MetricFamily:
    """One metric as a scraper understands it."""

    kind: str
    help: str
    samples: dict[tuple[str, tuple[tuple[str, str], ...]], float] = dataclasses.field(default_factory=dict)


_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')
_LINE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)")
_SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


def _parsed_metrics(text: str) -> dict[str, MetricFamily]:
    """By the rules of the text format 0.0.4, independent of the renderer; anything else is refused."""
    assert text.endswith("\n")
    families: dict[str, MetricFamily] = {}
    name = said = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            _, _, name, said = line.split(" ", 3)
            assert name not in families, f"{name} is there twice"
        elif line.startswith("# TYPE "):
            _, _, typed, kind = line.split(" ")
            assert typed == name, line
            assert kind in _SUFFIXES, line
            assert kind != "counter" or name.endswith("_total"), f"{name} is a counter by another name"
            families[name] = MetricFamily(kind, said)
        else:
            found = _LINE.fullmatch(line)
            assert found is not None, f"this is no sample: {line}"
            assert name in families, f"{line} has no type"
            family = families[name]
            assert found[1] in [name + suffix for suffix in _SUFFIXES[family.kind]], line
            labels, place = list[tuple[str, str]](), 0
            while found[2] and place < len(found[2]):
                label = _LABEL.match(found[2], place)
                assert label is not None, f"these are no labels: {line}"
                labels.append((label[1], re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), label[2])))
                place = label.end()
            key = (found[1], tuple(labels))
            assert key not in family.samples, f"{line} is there twice"
            family.samples[key] = float(found[3])
    for named, family in families.items():
        if family.kind == "histogram":
            counts = [value for (each, _), value in family.samples.items() if each.endswith("_bucket")]
            assert counts == sorted(counts), f"{named} is not cumulative"
            assert family.samples[f"{named}_bucket", (("le", "+Inf"),)] == family.samples[f"{named}_count", ()]
    return families


@pytest.fixture
def parse_metrics() -> Callable[[str], dict[str, MetricFamily]]:
    return _parsed_metrics
