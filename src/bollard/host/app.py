"""The composition root: builds every part of the host from its settings, and starts and stops them in order."""

import asyncio
import secrets
from pathlib import Path

import structlog
from starlette.routing import Router
from starlette.types import ASGIApp

from bollard import __version__
from bollard.host.agents.agent import Agent, AgentBook, agent_of
from bollard.host.agents.binding_book import BindingBook
from bollard.host.agents.keeping import Keeper
from bollard.host.clock import Clock, SystemClock
from bollard.host.core import build_core
from bollard.host.engine.local import LocalEngine
from bollard.host.errors import HostError
from bollard.host.http.routes import Api
from bollard.host.http.token import AdminToken
from bollard.host.limits import HOUSEKEEPING_S, LEASE_RENEW_S, REPLAY_PAGE
from bollard.host.log.journal import Journal
from bollard.host.log.retention import purge, retention_of
from bollard.host.log.writer import Writer
from bollard.host.log.writer_process import WriterProcess
from bollard.host.log.writer_thread import WriterThread
from bollard.host.settings import Settings
from bollard.host.store.blobs import BlobStore
from bollard.host.store.boundary import Store
from bollard.host.store.opening import choose_store
from bollard.host.store.reserve import ReserveFile
from bollard.host.workers.plugin import PluginSource
from bollard.host.workers.pool import PluginPool
from bollard.protocol import AgentRunnerDiscovery, JsonObject
from bollard.trust import load_or_make_secret, load_or_make_signing_key
from bollard.wire import RunnerCatalogue

__all__ = ["Host"]

_log = structlog.get_logger("bollard.host")
_SWEEP_S = 1.0
_HEADS_KEY = "heads.ed25519"
_BUILTIN_PLUGINS = Path(__file__).resolve().parents[1] / "plugins"
_REPOSITORY_PLUGINS = Path(__file__).resolve().parents[3] / "plugins"


class Host:
    """A whole host in one process."""

    def __init__(self, settings: Settings, *, clock: Clock | None = None) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._incarnation = f"{self._clock.now_ms():011x}{secrets.token_hex(4)}"
        keys = settings.data / "keys"
        self.token, self.new_token = AdminToken.open(keys / "admin-token.sha256")
        self._signing_key = load_or_make_signing_key(keys / _HEADS_KEY)
        self._cursor_secret = load_or_make_secret(keys / "cursors.secret")
        self._store: Store = choose_store(settings.database, settings.data, self._clock)
        self._blobs = BlobStore(settings.data / "blobs")
        self.broken = asyncio.Event()
        """Set when the host cannot write any more and must be stopped."""
        self._desk = self._choose_desk()
        self._agents = AgentBook()
        self._bindings = BindingBook()
        self._runners: dict[str, AgentRunnerDiscovery] = {}
        self._retention = retention_of(settings.retention)
        self._pools: list[PluginPool] = []
        self._pool_of: dict[str, PluginPool] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._ready = False

    async def start(self) -> ASGIApp:
        """Everything that must be there before a request is taken. Workers start in the background."""
        if isinstance(self._desk, WriterProcess):
            self._desk.spawn()  # it starts beside the rest
        await asyncio.to_thread(self._store.open)
        self._journal = Journal(self._desk)
        self._engine = LocalEngine(self._journal, self._store, self._clock, self._incarnation)
        for source in self._sources():
            self._pools.append(
                PluginPool(
                    source, self._clock, host_version=__version__, discovered=self._discovered, failed=self._agents.stir
                )
            )
        self._core = build_core(
            journal=self._journal,
            store=self._store,
            blobs=self._blobs,
            clock=self._clock,
            engine=self._engine,
            agents=self._agents,
            bindings=self._bindings,
            pools=self._pool_of,
            host_version=__version__,
            cursor_secret=self._cursor_secret,
            runs_at_once=self.settings.runs_at_once,
            starting=self._is_starting,
        )
        keeper = Keeper(
            journal=self._journal,
            store=self._store,
            agents=self._agents,
            bindings=self._bindings,
            clock=self._clock,
            gates=self._core.gates,
            runners=self._runners,
        )
        await keeper.load()  # before any runner brings an agent that a saved one stands over
        await self._journal.start()
        for pool in self._pools:
            pool.start()
        self._tasks = [asyncio.create_task(self._core.takeover.run()), asyncio.create_task(self._sweep())]
        self._tasks.append(asyncio.create_task(self._keep_house()))
        api = Api(
            core=self._core,
            store=self._store,
            clock=self._clock,
            agents=self._agents,
            bindings=self._bindings,
            keeper=keeper,
            runners=self._runners,
            token=self.token,
            cursor_secret=self._cursor_secret,
            health=self.health,
        )
        self._ready = True
        return Router(routes=api.routes())  # without the middleware stack: every route answers its own errors

    async def stop(self) -> None:
        """Take nothing new, let runs end, then close everything. What is cut off here recovers like a crash."""
        self._ready = False
        await self._core.close(self.settings.grace_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(pool.stop(0) for pool in self._pools))
        await self._journal.close()
        await asyncio.to_thread(self._store.close)

    async def abandon(self) -> None:
        """Stop without a word to the log, because nothing can be written: the next start recovers."""
        self._ready = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(pool.stop(0) for pool in self._pools))

    def _choose_desk(self) -> WriterThread | WriterProcess:
        if self.settings.journal == "process":
            return WriterProcess(
                database=self.settings.database,
                data=self.settings.data,
                incarnation=self._incarnation,
                key_file=self.settings.data / "keys" / _HEADS_KEY,
                lost=self._journal_lost,
            )
        writer = Writer(
            self._store,
            self._blobs,
            self._clock,
            incarnation=self._incarnation,
            key=self._signing_key,
            reserve=ReserveFile(self.settings.data / "reserve"),
        )
        return WriterThread(writer)

    def _journal_lost(self) -> None:
        _log.critical("the journal process is gone: nothing can be written, so the host stops")
        self._ready = False
        self.broken.set()

    def health(self) -> JsonObject:
        plugins: JsonObject = {
            pool.source.name: {"status": pool.status, "problem": pool.problem, "workers": len(pool.pids)}
            for pool in self._pools
        }
        return {
            "ready": self._ready,
            "version": __version__,
            "runs": {"live": len(self._core.dispatcher.live), "queued": self._core.dispatcher.queued},
            "journal": {
                "commits": self._journal.numbers.commits,
                "records": self._journal.numbers.records,
                "failures": self._journal.numbers.failures,
                "waiting": self._journal.waiting,
            },
            "readers": self._core.hub.readers,
            "plugins": plugins,
        }

    def agents(self) -> list[Agent]:
        """Every agent that can be run now."""
        return self._agents.all()

    def pools(self) -> list[PluginPool]:
        """The workers of each plugin, started or not."""
        return list(self._pools)

    @property
    def worker_pids(self) -> list[int]:
        return [pid for pool in self._pools for pid in pool.pids]

    def _sources(self) -> list[PluginSource]:
        paths = list(self.settings.plugins)
        if self.settings.builtin_plugins:
            folder = _BUILTIN_PLUGINS if _BUILTIN_PLUGINS.is_dir() else _REPOSITORY_PLUGINS
            if folder.is_dir():
                paths = [*sorted(path for path in folder.iterdir() if (path / "manifest.yaml").is_file()), *paths]
        return [PluginSource(name=path.stem.lower(), path=path, workers=self.settings.workers) for path in paths]

    def _is_starting(self) -> bool:
        """Whether some plugin has not said yet what it offers."""
        return any(pool.status == "starting" for pool in self._pools)

    def _discovered(self, pool: PluginPool, catalogue: RunnerCatalogue) -> None:
        for runner in catalogue.runners:
            agent = agent_of(runner)
            # A name is a worker's own claim. One that is the name of another plugin here is not believed, however
            # early it comes.
            name, known = runner.plugin_name, self._agents.own(agent.agent_id)
            taken = name != pool.source.name and any(other.source.name == name for other in self._pools)
            taken = taken or (known is not None and known.plugin != agent.plugin)
            if taken or self._pool_of.setdefault(agent.plugin, pool) is not pool:
                _log.error(
                    "a second plugin has this name and is not used", plugin=agent.plugin, path=str(pool.source.path)
                )
                continue
            self._runners[agent.runner_id] = runner
            self._agents.put(agent)
        for problem in catalogue.problems:
            _log.warning(
                "a runner cannot be used",
                plugin=pool.source.name,
                entry=problem.entry,
                field=problem.field,
                problem=problem.problem,
            )

    async def _sweep(self) -> None:
        """Once a second: idle runs; now and then: leases."""
        renewed_at = self._clock.monotonic()
        while True:
            await asyncio.sleep(_SWEEP_S)
            self._core.dispatcher.check_idle()
            if self._clock.monotonic() - renewed_at >= LEASE_RENEW_S:
                renewed_at = self._clock.monotonic()
                await self._renew()

    async def _renew(self) -> None:
        try:
            await self._core.dispatcher.renew()
        except HostError as error:
            _log.warning("leases could not be renewed", problem=error.message)

    async def _keep_house(self) -> None:
        """Now and then: what has expired goes, and blobs that nothing refers to."""
        while True:
            await asyncio.sleep(HOUSEKEEPING_S)
            try:
                await purge(self._journal, self._clock, self._retention, "default")
                await asyncio.to_thread(self._sweep_blobs)
            except HostError as error:
                _log.warning("housekeeping failed", problem=error.message)

    def _sweep_blobs(self) -> None:
        digests: list[str] = []
        while page := self._store.artifact_digests(digests[-1] if digests else "", REPLAY_PAGE):
            digests.extend(page)
        self._blobs.sweep(digests)
