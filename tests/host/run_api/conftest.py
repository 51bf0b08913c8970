"""Live runs over every store, each with a grant for everything, and the one gate in front of the real handlers."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from tests.doubles.manual_clock import ManualClock
from tests.new_events import new_event
from tests.replacement import replace

from bollard.host.actions.executor import Executor
from bollard.host.actions.wrappers import BlobArtifacts
from bollard.host.agents.agent import Agent
from bollard.host.agents.policies import OPERATIONS, AccessPolicy, AgentPolicy, ResourceRule, StatePolicy
from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.sources import Adapter, Sources
from bollard.host.errors import HostError
from bollard.host.grants.offer import Offer, OfferedFile
from bollard.host.log.entries import Committed, Entry
from bollard.host.log.journal import Journal
from bollard.host.log.journal_writers import WriterThread
from bollard.host.log.records import NewRecord
from bollard.host.log.writer import Writer
from bollard.host.run_api.gate import RunApi
from bollard.host.run_api.handlers import HostFacts, data_handlers
from bollard.host.run_api.storage import Files
from bollard.host.run_api.tools import PlatformCalls, ToolCalls
from bollard.host.runs.creation import QueuedRun, RunMaker
from bollard.host.runs.event import NewEvent, RawPayload
from bollard.host.runs.hub import Hub
from bollard.host.runs.ids import IdMaker
from bollard.host.runs.live_run import LiveRun, RunEnvironment
from bollard.host.runs.runner_output import RunnerOutput
from bollard.host.secrets.redactor import Redactor
from bollard.host.store.artifact_terms import ANY_TERMS, ArtifactTerms
from bollard.host.store.blobs import BlobStore
from bollard.host.store.rows import ArtifactRow, PutArtifact
from bollard.host.store.store import Store
from bollard.protocol import AgentAPIError, HostInfo, JsonObject
from bollard.trust.keys import SigningKey
from bollard.wire import WorkerResult, encode

EVERYTHING = frozenset(f"{family}.{name}" for family, names in OPERATIONS.items() for name in names)
FILES = (OfferedFile(file_id="manual", source="config"), OfferedFile(file_id="lost", source="config"))


class Refused(Exception):
    """The error that a runner gets instead of an answer."""

    def __init__(self, error: AgentAPIError) -> None:
        super().__init__(error.message)
        self.code = error.code
        self.message = error.message
        self.details = error.details
        self.bytes = encode(error.to_wire())


class Call:
    """One call of a runner, without a wire."""

    streamed = False
    given_up = False
    on_given_up: Any = None
    on_unread: Any = None
    holds: int | None = None
    """Bytes that its answer may have."""

    def __init__(self, action: str, params: JsonObject) -> None:
        self.action = action
        self.params = params
        self.outcome: asyncio.Future[JsonObject] = asyncio.get_running_loop().create_future()

    def unfit(self, result: JsonObject) -> AgentAPIError | None:
        if self.holds is None or len(encode(result)) <= self.holds:
            return None
        return AgentAPIError(code="payload_too_large", message="the answer is too large")

    def answer(self, result: JsonObject) -> None:
        self.outcome.set_result(result)

    def refuse(self, error: AgentAPIError) -> None:
        self.outcome.set_exception(Refused(error))

    def give_up(self) -> None:
        """The worker does not want it, or the rest of it."""
        self.given_up = True
        self.on_given_up()


class StreamedCall(Call):
    """One that is answered in pieces."""

    streamed = True

    def __init__(self, action: str, params: JsonObject) -> None:
        super().__init__(action, params)
        self.chunks: list[Any] = []

    async def chunk(self, data: Any) -> None:
        self.chunks.append(data)


def agent(agent_id: str = "parrot", workspace: str = "default", plugin: str = "acme/parrot", **more: Any) -> Agent:
    """One that may do everything there is."""
    access = AccessPolicy(
        permissions=dict(OPERATIONS),
        resources={"files": ResourceRule(add=("manual", "lost"))},
        conversations=more.get("conversations", ()),
    )
    return Agent(
        agent_id=agent_id,
        workspace=workspace,
        runner_id=f"plugin:{plugin}/default",
        runner_name="default",
        plugin=plugin,
        label={"en_US": agent_id},
        permissions=EVERYTHING,
        policy=AgentPolicy(access=access, state=StatePolicy(scopes=("conversation", "actor", "subject", "runner"))),
    )


class Unowned:
    """A dispatcher that does nothing with its runs."""

    def released(self, run: LiveRun) -> None: ...

    def stopping(self, run: LiveRun) -> None: ...

    def misbehaved(self, run: LiveRun) -> None: ...

    def overstays(self, run: LiveRun) -> None: ...

    def unwritable(self, run: LiveRun, error: HostError) -> None: ...


class House:
    """A host without workers: runs begin, ask, speak and end."""

    def __init__(self, store: Store, blobs: BlobStore, clock: ManualClock, journal: Journal) -> None:
        self.store = store
        self.blobs = blobs
        self.clock = clock
        self.journal = journal
        self._sources = Sources()
        self._maker = RunMaker(clock, IdMaker(), self._offer_of)
        self._numbers = itertools.count(1)

        self.executor = Executor(adapters=self, store=store, artifacts=BlobArtifacts(blobs), clock=clock)

        async def unasked(run: LiveRun, params: Any) -> HostInfo:
            raise AssertionError((run, params))

        tool_calls = ToolCalls(self.executor)
        self._api = RunApi(clock)
        self.handlers, self.streams = self._api.handlers, self._api.streams
        self.handlers |= data_handlers(store, blobs, clock, ANY_TERMS, b"s" * 32)
        self.handlers |= {
            "files.get": Files(store, blobs, None).get,
            "host.info": HostFacts("1.2.3").info,
            "steering.pull": unasked,
            "agents.call": unasked,
            "tools.call": tool_calls.call,
            "platform.request": PlatformCalls(tool_calls).request,
        }
        self.redactor = Redactor()
        self._environment = RunEnvironment(
            redactor=self.redactor, journal=journal, hub=Hub(), clock=clock, api=self._api
        )
        self.runs: list[LiveRun] = []

    def take_artifacts(self, terms: ArtifactTerms) -> None:
        """How runs that begin from now on may make artifacts."""
        self._environment = replace(self._environment, terms=terms)

    def offer(self, sources: Sources) -> None:
        """The offer of the workspace to later runs, beside its files."""
        self._sources = sources

    def adapter(self, workspace: str, capability_id: str) -> Adapter | None:
        return self._sources.adapter(workspace, capability_id)

    def stands(self, workspace: str, granted: Capability) -> bool:
        return self._sources.stands(workspace, granted)

    def _offer_of(self, workspace: str) -> Offer:
        return Offer.of(*FILES, capabilities=self._sources.capabilities(workspace))

    def queued(self, of: Agent | None = None, **event: Any) -> QueuedRun:
        """A run of an event in the room, before it is written."""
        fields: dict[str, Any] = {
            "source": "web",
            "source_id": f"e{next(self._numbers)}",
            "event_type": "message.received",
            "text": "hello",
            "conversation": "room",
            "bot": "bot",
            "actor_type": "user",
            "actor_id": "ann",
            **event,
        }
        of = of or agent()
        return self._maker.make(new_event(workspace=of.workspace, **fields), of, "direct", epoch=1)

    async def begin(self, of: Agent | None = None, **event: Any) -> LiveRun:
        """A run of an event in the room."""
        queued = self.queued(of, **event)
        assert isinstance(await self.journal.commit(Entry(records=self._maker.first_records(queued))), Committed)
        run = LiveRun(
            queued.facts,
            queued.grant,
            epoch=1,
            seq=2,
            environment=self._environment,
            owner=Unowned(),
            session=queued.session,
        )
        self.runs.append(run)
        return run

    async def ask(self, run: LiveRun, action: str, /, **params: Any) -> Any:
        """The answer of the run API; raises `Refused`."""
        return await self.begin_call(run, action, **params).outcome

    def begin_call(self, run: LiveRun, action: str, /, **params: Any) -> "Call":
        call = Call(action, params)
        self._api.called(run, call)  # type: ignore[arg-type]
        return call

    def begin_stream(self, run: LiveRun, action: str, /, **params: Any) -> "StreamedCall":
        call = StreamedCall(action, params)
        self._api.called(run, call)  # type: ignore[arg-type]
        return call

    async def refusal(self, run: LiveRun, action: str, /, **params: Any) -> Refused:
        with pytest.raises(Refused) as caught:
            await self.ask(run, action, **params)
        return caught.value

    async def say(self, run: LiveRun, *texts: str, **message: Any) -> None:
        """The runner's messages, on disk."""
        for text in texts:
            self.result(run, "message.completed", {"message": {"role": "assistant", "content": text, **message}})
        assert await run.written()

    def result(self, run: LiveRun, kind: str, data: JsonObject) -> None:
        RunnerOutput(run).result(
            WorkerResult(
                run_id=run.facts.run_id,
                type=kind,
                data=data,
                sequence=next(self._numbers),
                timestamp=None,
                size_bytes=len(msgspec.json.encode(data)),
            )
        )
        run.flush()

    async def end(self, run: LiveRun) -> None:
        run.cancel("cancelled")
        await run.done

    def raw(self, content: bytes, **more: Any) -> RawPayload:
        """The raw payload of a sender."""
        number = next(self._numbers)
        sha256 = self.blobs.put(content)
        known = {"artifact_id": f"art_raw{number}", "sha256": sha256, "size_bytes": len(content)}
        return RawPayload(**{**known, "mime_type": "image/png", **more})

    def event_of(self, run: LiveRun) -> NewEvent:
        """The event that a run began with, as the log has it."""
        row = self.store.event(run.facts.workspace, run.facts.event_id)
        assert row is not None
        [record] = self.store.records(row.record_id - 1, 1)
        return NewEvent.from_record(record.data or b"", "default")[1]

    async def steer(self, run: LiveRun, of: Agent | None = None, **event: Any) -> tuple[str, NewEvent]:
        """A message that the run claims, as the intake writes it: the id of its event, and the event."""
        queued = self.queued(of, **event)
        event_id = queued.facts.event_id
        data = queued.event.record(event_id, None, waits_for=run.facts.agent_id)
        record = NewRecord(
            workspace=run.facts.workspace, type="event.received", data=data, created_ms=self.clock.now_ms()
        )
        assert isinstance(await self.journal.commit(Entry(records=[record])), Committed)
        assert run.note("steering.queued", {"event_id": event_id})
        assert await run.written()
        return event_id, queued.event

    def put_artifact(
        self, artifact_id: str, content: bytes | None = None, *, of: LiveRun | None = None, **more: Any
    ) -> None:
        """An artifact that no run made, unless it is `of` one."""
        fields: dict[str, Any] = {
            "workspace": "default",
            "run_id": None if of is None else of.facts.run_id,
            "runner_id": None,
            "conversation": None if of is None else of.facts.conversation,
            "type": "file",
            "mime_type": "text/plain",
            "name": "note.txt",
            "size_bytes": None if content is None else len(content),
            "sha256": None if content is None else self.blobs.put(content),
            "source": "upload",
            "created_ms": self.clock.now_ms(),
            "expires_ms": None,
            "metadata": b"{}",
            **more,
        }
        with self.store.write() as transaction:
            transaction.apply([PutArtifact(ArtifactRow(artifact_id=artifact_id, **fields))])

    def records(self, run: LiveRun, kind: str) -> list[dict[str, Any]]:
        """The records of one type of a run."""
        rows = self.store.records_of_run(run.facts.run_id, 0, 1000)
        return [msgspec.json.decode(row.data or b"null") for row in rows if row.type == kind]


@pytest.fixture
def postgres_url(postgres_url: str) -> Iterator[str]:
    """Also without stored values."""
    yield postgres_url
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DELETE FROM storage")


@pytest.fixture
def blob_store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


async def _open(store: Store, blobs: BlobStore, clock: ManualClock, key: SigningKey) -> AsyncIterator[House]:
    journal = Journal(WriterThread(Writer(store, blobs, clock, incarnation="i1", key=key)))
    await journal.start()
    house = House(store, blobs, clock, journal)
    yield house
    for run in house.runs:
        if not run.done.done():
            await house.end(run)
    await journal.close()


@pytest.fixture
async def house(
    store: Store, blob_store: BlobStore, clock: ManualClock, signing_key: SigningKey
) -> AsyncIterator[House]:
    """Over each kind of store in turn."""
    async for opened in _open(store, blob_store, clock, signing_key):
        yield opened


@pytest.fixture
async def memory_house(
    memory_store: Store, blob_store: BlobStore, clock: ManualClock, signing_key: SigningKey
) -> AsyncIterator[House]:
    """Over memory only, for tests that do not depend on the store."""
    async for opened in _open(memory_store, blob_store, clock, signing_key):
        yield opened


@pytest.fixture
def make_agent() -> Any:
    return agent
