"""Every plugin in use, in every workspace, and the pool of workers that each has. Two workspaces never share a worker.

What the host's settings name is there in every workspace; what people install is there where they did. A workspace
that nobody uses has no processes: the workers of a shared plugin start with its first run there, because what the
plugin offers is known from the workspace that asked first.

Which pool runs a plugin now is one mapping, `pools`. Another version takes the place of one in it at once; the pool
that had the place ends when its last run has.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

import structlog

from bollard.host.agents.agent import AgentRegistry, RunnerKey, agent_of
from bollard.host.clock import Clock
from bollard.host.errors import PluginUnusable
from bollard.host.plugins.description import RequestedAccess
from bollard.host.plugins.logs import PluginLog
from bollard.host.plugins.placement import Origin, PoolPlacement, usable_runners
from bollard.host.plugins.tool_definitions import usable_tools
from bollard.host.secrets.redactor import Redactor
from bollard.host.workers.boundary import PluginSource, SupervisedPool
from bollard.host.workers.pool import PluginPool
from bollard.protocol import AgentRunnerDiscovery, PluginIdentity
from bollard.wire import RunnerCatalogue, ToolCatalogue

_log = structlog.get_logger("bollard.plugins")

PoolKey = tuple[str, str]
"""Workspace and `author/name`."""
_NOTHING = RunnerCatalogue(runners=(), problems=())
_SECOND = "a second plugin has this name and is not used"


class PluginFleet:
    """One per host."""

    def __init__(
        self,
        *,
        clock: Clock,
        host_version: str,
        agents: AgentRegistry,
        runners: dict[RunnerKey, AgentRunnerDiscovery],
        first_workspace: str,
        redactor: Redactor | None = None,
    ) -> None:
        self._redactor = redactor or Redactor()
        self._clock = clock
        self._host_version = host_version
        self._agents = agents
        self._runners = runners
        self._first = first_workspace
        self._workspaces: set[str] = {first_workspace}
        self._shared: list[tuple[PluginSource, Origin, str | None]] = []
        self._fittings: list[PoolPlacement] = []
        self._logs: dict[tuple[str, str], PluginLog] = {}
        self._leaving: dict[PoolPlacement, asyncio.Task[None]] = {}
        """Those whose last runs are ending."""
        self._proving: set[PoolPlacement] = set()
        self._told_left: Callable[[], None] = lambda: None
        self._stopping = False
        self.pools: dict[PoolKey, SupervisedPool] = {}
        """Which pool runs a plugin now."""
        self.changes = 0
        """Grows with whatever can change which tools there are."""

    # --- what is there ---

    @property
    def fittings(self) -> list[PoolPlacement]:
        return list(self._fittings)

    def of(self, workspace: str) -> list[PoolPlacement]:
        """The plugins of a workspace."""
        return [each for each in self._fittings if each.workspace == workspace]

    def is_open(self, workspace: str) -> bool:
        return workspace in self._workspaces

    def find(self, workspace: str, plugin_id: str) -> PoolPlacement | None:
        return next((each for each in self.of(workspace) if each.plugin_id == plugin_id), None)

    def leaving(self, workspace: str, plugin_id: str) -> list[PoolPlacement]:
        """Earlier versions of a plugin whose runs have not ended."""
        return [each for each in self._leaving if (each.workspace, each.plugin_id) == (workspace, plugin_id)]

    def log_of(self, workspace: str, plugin_id: str) -> PluginLog:
        """The log of a plugin: the same over all its versions."""
        return self._logs.setdefault((workspace, plugin_id), PluginLog(self._clock, self._redactor.scrubber(workspace)))

    def forget_log(self, workspace: str, plugin_id: str) -> None:
        """The plugin is gone, and what it said with it."""
        if self.find(workspace, plugin_id) is None and (log := self._logs.pop((workspace, plugin_id), None)):
            log.close()

    @property
    def is_starting(self) -> bool:
        """Whether some plugin has not said yet what it offers."""
        return any(each.pool.status == "starting" for each in self._fittings)

    @property
    def pids(self) -> list[int]:
        return [view.pid for each in self._everybody() for view in each.pool.views if view.pid is not None]

    @property
    def digests(self) -> frozenset[str]:
        """The installed code that some worker may still read."""
        return frozenset(each.source.digest for each in self._everybody() if each.source.digest is not None)

    def _everybody(self) -> list[PoolPlacement]:
        covered = [each.under for each in self._fittings if each.under is not None]
        return [*self._fittings, *covered, *self._leaving, *self._proving]

    def watch(self, left: Callable[[], None]) -> None:
        """Hear when the last run of some earlier code has ended: nobody reads that code any more."""
        self._told_left = left

    # --- workspaces and what they share ---

    def share(self, source: PluginSource, origin: Origin, plugin_id: str | None = None) -> None:
        """A plugin that every workspace has; `plugin_id` is what its files say. Before `start`."""
        self._shared.append((source, origin, plugin_id))
        for workspace in sorted(self._workspaces):
            self._fit_shared(workspace, source, origin, plugin_id)

    def _fit_shared(self, workspace: str, source: PluginSource, origin: Origin, plugin_id: str | None) -> PoolPlacement:
        fitting = self.fit(workspace, source, origin, log=self.log_of(workspace, plugin_id or source.name))
        if plugin_id is not None and self.find(workspace, plugin_id) is None:
            fitting.plugin_id = plugin_id  # the first one has the name
        self._fittings.append(fitting)
        return fitting

    def open_workspace(self, workspace: str) -> None:
        """A workspace came: what is shared is there too."""
        if workspace in self._workspaces:
            return
        self._workspaces.add(workspace)
        for source, origin, plugin_id in self._shared:
            self._adopt(self._fit_shared(workspace, source, origin, plugin_id))

    def close_workspace(self, workspace: str) -> None:
        """A workspace went: so do its workers, when their runs have ended."""
        self._workspaces.discard(workspace)
        for fitting in self.of(workspace):
            self._retire(fitting.under)
            fitting.under = None
            self._leave(fitting)
        for key in [key for key in self._logs if key[0] == workspace]:
            self._logs.pop(key).close()

    def _adopt(self, fitting: PoolPlacement) -> None:
        """What a shared plugin offers is known as soon as any workspace's worker has said it."""
        for other in self._fittings:
            if other.source is fitting.source and other.catalogue is not None:
                fitting.plugin_id, fitting.version, fitting.digest = other.plugin_id, other.version, other.digest
                fitting.catalogue, fitting.tools = other.catalogue, other.tools
                self._offer(fitting)
                return

    # --- coming and going ---

    def fit(
        self,
        workspace: str,
        source: PluginSource,
        origin: Origin,
        *,
        asked: RequestedAccess | None = None,
        version: str | None = None,
        log: PluginLog | None = None,
        pins: Mapping[str, str] | None = None,
    ) -> PoolPlacement:
        """A plugin with a pool of its own, which is not in use yet and has no worker."""
        log = log or self.log_of(workspace, source.plugin_id or source.name)

        def discovered(identity: PluginIdentity, catalogue: RunnerCatalogue, tools: ToolCatalogue) -> None:
            self.discovered(fitting, identity, catalogue, tools)

        pool = PluginPool(
            source,
            self._clock,
            host_version=self._host_version,
            discovered=discovered,
            failed=self.stir,
            log=log,
        )
        fitting = PoolPlacement(
            workspace=workspace,
            origin=origin,
            source=source,
            pool=pool,
            log=log,
            plugin_id=source.plugin_id,
            version=version,
            asked=asked,
            pins=pins,
        )
        return fitting

    async def prove(self, fitting: PoolPlacement) -> None:
        """Start its workers before it is in use. Raises `PluginUnusable` when it cannot work; nothing of it stays."""
        self._proving.add(fitting)
        try:
            problem = await fitting.pool.prove()
        except BaseException:
            await fitting.pool.stop(0)
            raise
        finally:
            self._proving.discard(fitting)
        if problem is None and fitting.asked is not None:
            usable, problems = usable_runners(fitting, fitting.catalogue or _NOTHING)
            problems += _judge_tools(fitting)
            lacks = not usable and (bool(fitting.asked.runners) or not fitting.usable_tools)
            problem = _last_words(fitting, problems) if lacks else None
        if problem is not None:
            await fitting.pool.stop(0)
            raise PluginUnusable(
                f"the plugin {fitting.plugin_id} cannot be used: {problem}",
                hint="`bollard plugin check` names everything that is wrong with it",
                plugin=fitting.plugin_id,
                problem=problem,
            )

    def place(self, fitting: PoolPlacement) -> None:
        """Put a plugin in use, in the place of the one of that name. What is under development covers what is not."""
        if not self.is_open(fitting.workspace):  # it was closed while the plugin was being proved
            self._retire(fitting)
            return
        before = self.find(fitting.workspace, fitting.plugin_id or "")
        if before is not None and before.origin == "dev" and fitting.origin != "dev":
            self._retire(before.under)
            before.under = fitting
            return
        self._fittings.append(fitting)
        if before is not None:
            self._fittings.remove(before)
            fitting.offered = before.offered  # what the new one lacks goes, what both have stays without a gap
            if fitting.origin == "dev" and before.origin != "dev":
                fitting.under = before
            else:
                fitting.under = before.under
                self._retire(before)
        if fitting.pool.status != "idle":
            self._offer(fitting)

    def take_away(self, workspace: str, plugin_id: str, origin: Origin) -> None:
        """A plugin goes, or what it covered is in use again. What runs on it may end."""
        fitting = self.find(workspace, plugin_id)
        if fitting is None:
            return
        if fitting.origin == origin:
            self._leave(fitting)
        elif fitting.under is not None and fitting.under.origin == origin:
            self._retire(fitting.under)
            fitting.under = None

    def _leave(self, fitting: PoolPlacement) -> None:
        self._fittings.remove(fitting)
        self._retire(fitting)
        under = fitting.under
        if under is not None:
            under.offered = fitting.offered
            self._fittings.append(under)
            self._offer(under)
            return
        self._withdraw(fitting, fitting.offered)
        self.pools.pop((fitting.workspace, fitting.plugin_id or ""), None)
        self.stir()

    def _retire(self, fitting: PoolPlacement | None) -> None:
        if fitting is not None:
            task = self._leaving[fitting] = asyncio.create_task(fitting.pool.retire())
            task.add_done_callback(lambda _: self._has_left(fitting))

    def _has_left(self, fitting: PoolPlacement) -> None:
        self._leaving.pop(fitting, None)
        if not self._stopping:
            self._told_left()

    # --- what workers say ---

    def stir(self) -> None:
        """Something came, went or broke: whoever waits looks again."""
        self.changes += 1
        self._agents.stir()

    def discovered(
        self, fitting: PoolPlacement, identity: PluginIdentity, catalogue: RunnerCatalogue, tools: ToolCatalogue
    ) -> None:
        """A worker introduced itself: its channel's identity is what counts, and it is fixed."""
        fitting.version = identity.version
        self._note_digest(fitting, identity.digest)
        if fitting not in self._fittings:
            fitting.catalogue, fitting.tools = catalogue, tools
            return  # it is being proved, or its time is over
        claimed = f"{identity.author}/{identity.name}"
        if self._is_taken(fitting, claimed):
            _log.error(_SECOND, plugin=claimed, path=str(fitting.source.path))
            fitting.problems = [f"{claimed}: {_SECOND}"]
            return
        fitting.plugin_id = claimed
        fitting.catalogue, fitting.tools = catalogue, tools
        self._offer(fitting)
        for other in self._fittings:
            if other.source is fitting.source and other.catalogue is None:
                self._adopt(other)

    def _note_digest(self, fitting: PoolPlacement, digest: str | None) -> None:
        """A plugin of the settings is not pinned, but its operator hears when a new worker runs other code."""
        if fitting.digest is not None and digest != fitting.digest:
            sentence = "the code of a plugin was changed: its new workers are not like the old ones"
            _log.warning(sentence, plugin=fitting.plugin_id, before=fitting.digest, after=digest)
            fitting.log.say("host", f"its code was changed: {fitting.digest} became {digest}", level="warning")
        fitting.digest = digest

    def _offer(self, fitting: PoolPlacement) -> None:
        """Make a plugin's runners and tools known in its workspace."""
        self.changes += 1
        # A runtime that was not there yet has said nothing, so that nothing is wrong with it.
        said = fitting.catalogue
        usable, fitting.problems = ([], []) if said is None else usable_runners(fitting, said)
        fitting.problems += _judge_tools(fitting)
        offered: set[str] = set()
        for runner in usable:
            agent = agent_of(runner, fitting.workspace)
            known = self._agents.own(agent.agent_id, fitting.workspace)
            if known is not None and known.plugin != agent.plugin:
                _log.error(_SECOND, plugin=agent.plugin, path=str(fitting.source.path))
                fitting.problems.append(f"runner {runner.runner_name}: {_SECOND}")
                continue
            self._runners[fitting.workspace, runner.manifest.id] = runner
            self._agents.put(agent)
            offered.add(runner.manifest.id)
        self._withdraw(fitting, fitting.offered - offered)
        fitting.offered = frozenset(offered)
        if fitting.plugin_id is not None:
            self.pools[fitting.workspace, fitting.plugin_id] = fitting.pool
        for problem in fitting.problems:
            _log.warning("something of a plugin cannot be used", plugin=fitting.plugin_id, problem=problem)
            fitting.log.say("host", f"it cannot be used: {problem}", level="warning")

    def _is_taken(self, fitting: PoolPlacement, claimed: str) -> bool:
        """A name is a worker's own claim. That of another plugin here is not believed, however early it comes."""
        others = [each for each in self.of(fitting.workspace) if each is not fitting]
        if any(each.plugin_id == claimed for each in others):
            return True
        name = claimed.partition("/")[2]
        return name != fitting.source.name and any(each.source.name == name for each in others)

    def _withdraw(self, fitting: PoolPlacement, gone: Iterable[str]) -> None:
        for runner_id in gone:
            self._runners.pop((fitting.workspace, runner_id), None)
            self._agents.withdraw(runner_id, fitting.workspace)

    # --- the whole fleet ---

    def start(self) -> None:
        """Workers of the first workspace start now; returns at once."""
        for fitting in self._fittings:
            if fitting.workspace == self._first or fitting.origin == "installed":
                fitting.pool.start()

    async def stop(self) -> None:
        """End every worker, and let go who follows a log."""
        self._stopping = True
        for log in self._logs.values():
            log.close()
        await asyncio.gather(*(each.pool.stop(0) for each in self._everybody()))
        await asyncio.gather(*self._leaving.values(), return_exceptions=True)


def _judge_tools(fitting: PoolPlacement) -> list[str]:
    """Note which of its tools can be used; a sentence about each other one."""
    if fitting.tools is None:
        return []
    consented = None if fitting.asked is None else dict(fitting.asked.tools)
    usable, fitting.refused_tools, problems = usable_tools(fitting.tools, consented, fitting.pins)
    fitting.usable_tools = tuple(usable)
    return [*problems, *(f"tool {name}: {why}" for name, why in fitting.refused_tools.items())]


def _last_words(fitting: PoolPlacement, problems: list[str]) -> str:
    """Why nothing of it can be used: what the worker warned of says more than that it offers none."""
    warned = [line.text for line in fitting.log.last(20) if line.kind == "log" and line.level in ("warning", "error")]
    return " | ".join(warned[-3:] or problems) or "it offers no runner"
