"""The plugins in use in every workspace, each with a worker pool of its own. Two workspaces never share a worker.

A shared plugin (built in, or named by the settings) is in every workspace; an installed plugin is in one. The workers
of a shared plugin start with its first run in a workspace: its runners are known from the first workspace, so an
unused workspace has no processes.

`pools` maps each plugin to the pool that gets new runs. A new version replaces the pool at once; the old pool ends
after its last run.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from bollard.host.agents.agent import AgentRegistry, RunnerKey, agent_of
from bollard.host.clock import Clock
from bollard.host.egress.connection_log import ProxyClient
from bollard.host.errors import PluginUnusable
from bollard.host.plugins.description import RequestedAccess
from bollard.host.plugins.logs import LogLine, PluginLog
from bollard.host.plugins.placement import Origin, PoolPlacement, usable_runners
from bollard.host.plugins.sandbox_pins import SandboxPins
from bollard.host.plugins.tool_definitions import usable_tools
from bollard.host.plugins.violations import Offender
from bollard.host.reason import Why, why
from bollard.host.secrets.redactor import Redactor
from bollard.host.workers.boundary import Confined, PluginSource, SupervisedPool
from bollard.host.workers.bounds import bounds_of
from bollard.host.workers.pool import PluginPool
from bollard.host.workers.sandbox import WorkerSandbox
from bollard.protocol import AgentRunnerDiscovery, PluginIdentity, PluginSandbox
from bollard.wire import RunnerCatalogue, ToolCatalogue, Violation

_log = structlog.get_logger("bollard.plugins")

PoolKey = tuple[str, str]
"""Workspace and `author/name`."""
_NO_RUNNERS = RunnerCatalogue(runners=(), problems=())
_NOTHING_USABLE = "PL06"
"""The rule that follows from the problems of the entries."""
_DUPLICATE = "a second plugin has this name and is not used"


class PluginFleet:
    """Adds, replaces and removes plugins, and publishes their runners and tools. One per host."""

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
        self._shared: list[tuple[PluginSource, Origin, str | None, RequestedAccess | None]] = []
        self._pins = SandboxPins()
        self._placements: list[PoolPlacement] = []
        self._logs: dict[tuple[str, str], PluginLog] = {}
        self._retiring: dict[PoolPlacement, asyncio.Task[None]] = {}
        """Placements whose last runs are ending."""
        self._proving: set[PoolPlacement] = set()
        self._on_retired: Callable[[], None] = lambda: None
        self._stopping = False
        self.pools: dict[PoolKey, SupervisedPool] = {}
        """The pool that gets the new runs of a plugin."""
        self.on_violation: Callable[[Offender, Violation], None] = lambda _, __: None
        """Called with each violation of the protocol by a worker."""
        self.sandbox: WorkerSandbox | None = None
        """Confines the workers."""
        self.changes = 0
        """Grows with every change that can change the offered tools."""

    # --- reading ---

    @property
    def placements(self) -> list[PoolPlacement]:
        return list(self._placements)

    def of(self, workspace: str) -> list[PoolPlacement]:
        """The plugins of a workspace."""
        return [each for each in self._placements if each.workspace == workspace]

    def is_open(self, workspace: str) -> bool:
        return workspace in self._workspaces

    def find(self, workspace: str, plugin_id: str) -> PoolPlacement | None:
        return next((each for each in self.of(workspace) if each.plugin_id == plugin_id), None)

    def leaving(self, workspace: str, plugin_id: str) -> list[PoolPlacement]:
        """Earlier versions of a plugin whose runs have not ended."""
        return [each for each in self._retiring if (each.workspace, each.plugin_id) == (workspace, plugin_id)]

    def log_of(self, workspace: str, plugin_id: str) -> PluginLog:
        """The log of a plugin, shared by all its versions."""
        return self._logs.setdefault((workspace, plugin_id), PluginLog(self._clock, self._redactor.scrubber(workspace)))

    def forget_log(self, workspace: str, plugin_id: str) -> None:
        """Drop the log of a plugin that is not in the workspace any more."""
        if self.find(workspace, plugin_id) is None and (log := self._logs.pop((workspace, plugin_id), None)):
            log.close()

    @property
    def is_starting(self) -> bool:
        """Whether a worker pool is still starting."""
        return any(each.pool.status == "starting" for each in self._placements)

    @property
    def pids(self) -> list[int]:
        return [view.pid for each in self._all() for view in each.pool.views if view.pid is not None]

    @property
    def digests(self) -> frozenset[str]:
        """The digests of the installed code that a worker may still read."""
        return frozenset(each.source.digest for each in self._all() if each.source.digest is not None)

    def _all(self) -> list[PoolPlacement]:
        covered = [each.covered for each in self._placements if each.covered is not None]
        return [*self._placements, *covered, *self._retiring, *self._proving]

    def watch(self, on_retired: Callable[[], None]) -> None:
        """Call `on_retired` when the last run of replaced code has ended."""
        self._on_retired = on_retired

    # --- workspaces and shared plugins ---

    def share(
        self,
        source: PluginSource,
        origin: Origin,
        plugin_id: str | None = None,
        *,
        access: RequestedAccess | None = None,
        sandbox: PluginSandbox | None = None,
    ) -> None:
        """Add a plugin to every workspace; `plugin_id`, `access` and `sandbox` are those that its files declare. Call
        before `start`."""
        if sandbox is not None:
            self._pins.agree(source.path, sandbox)
        self._shared.append((source, origin, plugin_id, access))
        for workspace in sorted(self._workspaces):
            self._add_shared(workspace, source, origin, plugin_id, access)

    def _add_shared(
        self,
        workspace: str,
        source: PluginSource,
        origin: Origin,
        plugin_id: str | None,
        access: RequestedAccess | None,
    ) -> PoolPlacement:
        log = self.log_of(workspace, plugin_id or source.name)
        placement = self.build_placement(workspace, source, origin, access=access, log=log)
        if plugin_id is not None and self.find(workspace, plugin_id) is None:
            placement.plugin_id = plugin_id  # the first plugin of a name keeps it
        self._placements.append(placement)
        return placement

    def open_workspace(self, workspace: str) -> None:
        """Add a workspace, with the shared plugins."""
        if workspace in self._workspaces:
            return
        self._workspaces.add(workspace)
        for source, origin, plugin_id, access in self._shared:
            self._adopt(self._add_shared(workspace, source, origin, plugin_id, access))

    def close_workspace(self, workspace: str) -> None:
        """Remove a workspace; its workers stop when their runs have ended."""
        self._workspaces.discard(workspace)
        for placement in self.of(workspace):
            self._retire(placement.covered)
            placement.covered = None
            self._withdraw_placement(placement)
        for key in [key for key in self._logs if key[0] == workspace]:
            self._logs.pop(key).close()

    def _adopt(self, placement: PoolPlacement) -> None:
        """Copy the catalogue of a shared plugin from a workspace in which a worker declared it."""
        for other in self._placements:
            if other.source is placement.source and other.catalogue is not None:
                placement.plugin_id, placement.version, placement.digest = other.plugin_id, other.version, other.digest
                placement.catalogue, placement.tools = other.catalogue, other.tools
                self._publish(placement)
                return

    # --- adding and removing ---

    def build_placement(
        self,
        workspace: str,
        source: PluginSource,
        origin: Origin,
        *,
        access: RequestedAccess | None = None,
        version: str | None = None,
        log: PluginLog | None = None,
        pins: Mapping[str, str] | None = None,
    ) -> PoolPlacement:
        """A placement with a pool that has no workers yet. It is not in use until `place`."""
        log = log or self.log_of(workspace, source.plugin_id or source.name)

        def discovered(identity: PluginIdentity, catalogue: RunnerCatalogue, tools: ToolCatalogue) -> None:
            self.discovered(placement, identity, catalogue, tools)

        def violated(violation: Violation) -> None:
            plugin, digest = placement.plugin_id or source.name, placement.digest or source.digest
            self.on_violation(Offender(workspace=workspace, plugin=plugin, digest=digest), violation)

        async def confine(source: PluginSource, sandbox: PluginSandbox, argv: Sequence[str]) -> Confined | None:
            if source.sandbox is None:  # nobody consented to what its files say now
                sandbox, beyond = self._pins.narrow(source.path, sandbox)
                if beyond:
                    problem = f"its manifest asks for more than at the start of the host: {', '.join(beyond)}"
                    log.say("host", f"{problem}; restart the host to allow it", level="warning")
                    _log.warning("a plugin does not get more", plugin=source.name, problem=problem)
                    violated(Violation(kind="sandbox", detail=problem, run_id=None, ends="nothing"))
            if self.sandbox is None:
                return None
            placement.bounds = bounds_of(self.sandbox.level, sandbox, self.sandbox.workspace_limits)
            client = ProxyClient(workspace=workspace, plugin=placement.plugin_id or source.name)
            return await self.sandbox.confine(source, sandbox, client, argv)

        pool = PluginPool(
            source,
            self._clock,
            host_version=self._host_version,
            discovered=discovered,
            failed=self.note_change,
            log=log,
            violated=violated,
            confine=confine,
        )
        placement = PoolPlacement(
            workspace=workspace,
            origin=origin,
            source=source,
            pool=pool,
            log=log,
            plugin_id=source.plugin_id,
            version=version,
            access=access,
            pins=pins,
        )
        return placement

    async def prove(self, placement: PoolPlacement) -> None:
        """Start the workers before the plugin is in use. Raises `PluginUnusable` and stops the pool if it fails."""
        self._proving.add(placement)
        try:
            problem = await placement.pool.prove()
        except BaseException:
            await placement.pool.stop(0)
            raise
        finally:
            self._proving.discard(placement)
        if problem is None and placement.access is not None:
            usable, problems = usable_runners(placement, placement.catalogue or _NO_RUNNERS)
            problems += _select_tools(placement)
            is_useless = not usable and (bool(placement.access.runners) or not placement.usable_tools)
            problem = _explain_failure(placement, problems) if is_useless else None
        if problem is not None:
            await placement.pool.stop(0)
            raise PluginUnusable(
                f"the plugin {placement.plugin_id} cannot be used: {problem}",
                reason="worker_start",
                hint="`bollard plugin check` lists every problem of a plugin",
                plugin=placement.plugin_id,
                **problem.whole,
            )

    def place(self, placement: PoolPlacement) -> None:
        """Put a plugin in use and retire the one it replaces. A plugin under development covers the other instead."""
        if not self.is_open(placement.workspace):  # the workspace was closed during `prove`
            self._retire(placement)
            return
        before = self.find(placement.workspace, placement.plugin_id or "")
        if before is not None and before.origin == "dev" and placement.origin != "dev":
            self._retire(before.covered)
            before.covered = placement
            return
        self._placements.append(placement)
        if before is not None:
            self._placements.remove(before)
            placement.offered = before.offered  # runners that both versions have stay available without a gap
            if placement.origin == "dev" and before.origin != "dev":
                placement.covered = before
            else:
                placement.covered = before.covered
                self._retire(before)
        if placement.pool.status != "idle":
            self._publish(placement)

    def remove(self, workspace: str, plugin_id: str, origin: Origin) -> None:
        """Remove the plugin of this origin; a placement that it covered is in use again. Its runs may finish."""
        placement = self.find(workspace, plugin_id)
        if placement is None:
            return
        if placement.origin == origin:
            self._withdraw_placement(placement)
        elif placement.covered is not None and placement.covered.origin == origin:
            self._retire(placement.covered)
            placement.covered = None

    def _withdraw_placement(self, placement: PoolPlacement) -> None:
        self._placements.remove(placement)
        self._retire(placement)
        covered = placement.covered
        if covered is not None:
            covered.offered = placement.offered
            self._placements.append(covered)
            self._publish(covered)
            return
        self._withdraw_runners(placement, placement.offered)
        self.pools.pop((placement.workspace, placement.plugin_id or ""), None)
        self.note_change()

    def _retire(self, placement: PoolPlacement | None) -> None:
        if placement is not None:
            task = self._retiring[placement] = asyncio.create_task(placement.pool.retire())
            task.add_done_callback(lambda _: self._finish_retiring(placement))

    def _finish_retiring(self, placement: PoolPlacement) -> None:
        self._retiring.pop(placement, None)
        if not self._stopping:
            self._on_retired()

    # --- discovery ---

    def note_change(self) -> None:
        """A pool changed: waiting runs look for a runner again."""
        self.changes += 1
        self._agents.stir()

    def discovered(
        self, placement: PoolPlacement, identity: PluginIdentity, catalogue: RunnerCatalogue, tools: ToolCatalogue
    ) -> None:
        """Publish the runners and tools that a worker declared."""
        placement.version = identity.version
        self._check_digest(placement, identity.digest)
        if placement not in self._placements:
            placement.catalogue, placement.tools = catalogue, tools
            return  # not in use yet, or retired
        plugin_id = f"{identity.author}/{identity.name}"
        if self._is_taken(placement, plugin_id):
            _log.error(_DUPLICATE, plugin=plugin_id, path=str(placement.source.path))
            placement.problems = [why(f"{plugin_id}: {_DUPLICATE}", "plugin.duplicate", name=plugin_id)]
            return
        placement.plugin_id = plugin_id
        placement.catalogue, placement.tools = catalogue, tools
        self._publish(placement)
        for other in self._placements:
            if other.source is placement.source and other.catalogue is None:
                self._adopt(other)

    def _check_digest(self, placement: PoolPlacement, digest: str | None) -> None:
        """Warn when a new worker runs other code. The code of a shared plugin is not pinned."""
        if placement.digest is not None and digest != placement.digest:
            message = "the code of a plugin changed: new workers run other code than the old ones"
            _log.warning(message, plugin=placement.plugin_id, before=placement.digest, after=digest)
            placement.log.say("host", f"the code changed from {placement.digest} to {digest}", level="warning")
        placement.digest = digest

    def _publish(self, placement: PoolPlacement) -> None:
        """Register a plugin's usable runners and tools in its workspace."""
        self.changes += 1
        # A runtime that has not connected yet has no catalogue, and no problems either.
        catalogue = placement.catalogue
        usable, placement.problems = ([], []) if catalogue is None else usable_runners(placement, catalogue)
        placement.problems += _select_tools(placement)
        offered: set[str] = set()
        for runner in usable:
            agent = agent_of(runner, placement.workspace)
            known = self._agents.own(agent.agent_id, placement.workspace)
            if known is not None and known.plugin != agent.plugin:
                _log.error(_DUPLICATE, plugin=agent.plugin, path=str(placement.source.path))
                name = f"runner {runner.runner_name}"
                placement.problems.append(why(f"{name}: {_DUPLICATE}", "plugin.duplicate", name=name))
                continue
            self._runners[placement.workspace, runner.manifest.id] = runner
            self._agents.put(agent)
            offered.add(runner.manifest.id)
        self._withdraw_runners(placement, placement.offered - offered)
        placement.offered = frozenset(offered)
        if placement.plugin_id is not None:
            self.pools[placement.workspace, placement.plugin_id] = placement.pool
        for problem in placement.problems:
            _log.warning("a part of a plugin cannot be used", plugin=placement.plugin_id, problem=problem.sentence)
            placement.log.say("host", f"cannot be used: {problem}", level="warning")

    def _is_taken(self, placement: PoolPlacement, plugin_id: str) -> bool:
        """Whether another plugin here has the id that a worker claims, also one whose workers have not started."""
        others = [each for each in self.of(placement.workspace) if each is not placement]
        if any(each.plugin_id == plugin_id for each in others):
            return True
        name = plugin_id.partition("/")[2]
        return name != placement.source.name and any(each.source.name == name for each in others)

    def _withdraw_runners(self, placement: PoolPlacement, runner_ids: Iterable[str]) -> None:
        for runner_id in runner_ids:
            self._runners.pop((placement.workspace, runner_id), None)
            self._agents.withdraw(runner_id, placement.workspace)

    # --- the whole fleet ---

    def start(self) -> None:
        """Start the workers of the first workspace and of installed plugins. Returns at once."""
        for placement in self._placements:
            if placement.workspace == self._first or placement.origin == "installed":
                placement.pool.start()

    async def stop(self) -> None:
        """Stop every worker, and end the streams of log readers."""
        self._stopping = True
        for log in self._logs.values():
            log.close()
        await asyncio.gather(*(each.pool.stop(0) for each in self._all()))
        await asyncio.gather(*self._retiring.values(), return_exceptions=True)


def _select_tools(placement: PoolPlacement) -> list[Why]:
    """Set the usable and refused tools of a placement; returns each problem."""
    if placement.tools is None:
        return []
    consented = None if placement.access is None else dict(placement.access.tools)
    usable, placement.refused_tools, problems = usable_tools(placement.tools, consented, placement.pins)
    placement.usable_tools = tuple(usable)
    refused = [
        why(f"tool {name}: {reason}", "plugin_tool.refused", tool=name, inner={**reason.whole})
        for name, reason in placement.refused_tools.items()
    ]
    return [*problems, *refused]


def _explain_failure(placement: PoolPlacement, problems: list[Why]) -> Why:
    """Why no part of a plugin can be used. The worker's own warnings explain more than a missing runner."""
    lines = placement.log.last(20)
    warned = [line for line in lines if line.kind == "log" and line.level in ("warning", "error")]
    entries = [line for line in warned if (line.fields or {}).get("rule") != _NOTHING_USABLE]
    by_text = {line.text: line for line in entries or warned}  # an earlier attempt may have logged the same
    said = [_warning(line) for line in [*by_text.values()][-3:]] or problems
    if not said:
        return why("it offers no runner", "worker.nothing")
    found = [{"field": each.details.get("field", ""), **each.whole} for each in said]
    return Why(" | ".join(map(str, said)), {"problems": found} if all(each.details for each in said) else {})


def _warning(line: LogLine) -> Why:
    """A problem that the loader of the worker logged, with its type; any other line is the plugin's own."""
    fields = line.fields or {}
    details = fields.get("details")
    if "rule" not in fields or not isinstance(details, dict):
        return Why(line.text)
    entry = line.text.partition(": ")[0]
    return Why(line.text, {**details, "field": f"{fields['rule']} {entry}: {fields.get('field')}"})
