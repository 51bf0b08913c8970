"""The connected remote runtimes: authenticated by key, one connection each, in a pool once their plugin has consent.

A second connection of a key is refused and recorded while the first one answers, so a copied key cannot displace its
owner unnoticed. An owner whose connection broke can reconnect as soon as the old one does not answer.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog

from bollard.host.agents.rates import Rates
from bollard.host.clock import Clock
from bollard.host.errors import Conflict, HostError, RateExceeded, Unauthenticated
from bollard.host.limits import RUNTIME_CONNECTS_PER_MINUTE
from bollard.host.log.journal import Journal
from bollard.host.log.saved_resources import Saved
from bollard.host.plugins.description import Description
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.installation import AccessChange, check_consent, compare, consent_for, redefined
from bollard.host.plugins.repository import PluginRepository
from bollard.host.plugins.violations import Offender
from bollard.host.runtimes.enrolment import Challenges, Consented, Enrolled, described_by
from bollard.host.runtimes.pool import RemotePlugins, RemotePool, RemoteSlot
from bollard.host.runtimes.repository import RuntimeRepository
from bollard.host.store.store import Store
from bollard.protocol import InitializeResult, JsonObject
from bollard.wire import RunnerCatalogue, ToolCatalogue, Transport, Violation, WireError

_log = structlog.get_logger("bollard.runtimes")
_REASON_CHARACTERS: Final = 300
"""Recorded characters of a reason that the runtime gave."""


class RuntimeIntroduction(msgspec.Struct, frozen=True, kw_only=True):
    """The identity, runners and tools that a runtime declared."""

    result: InitializeResult
    described: Description
    catalogue: RunnerCatalogue
    tools: ToolCatalogue

    @property
    def digest(self) -> str | None:
        return self.result.plugin.digest

    @property
    def consent(self) -> str | None:
        """The id of the consent that it needs; `None` for code without a digest, which cannot get one."""
        return None if self.digest is None else consent_for(self.digest, self.described)


@dataclass(slots=True, eq=False)
class Connection:
    """One connected runtime. `Connections` alone changes it."""

    saved: Saved[Enrolled]
    slot: RemoteSlot
    introduced: RuntimeIntroduction | None = None
    pool: RemotePool | None = None
    problem: str | None = None
    """Why it gets no runs."""


def consent_problem(enrolled: Enrolled, introduced: RuntimeIntroduction) -> str | None:
    """Why the enrolment or the consent does not allow runs on a connected runtime. Pure."""
    plugin = introduced.described.plugin_id
    if enrolled.plugin is not None and plugin != enrolled.plugin:
        return f"it has the plugin {plugin}, but was enrolled for {enrolled.plugin} only"
    if introduced.digest is None:
        return f"it does not report the digest of {plugin}, so consent is impossible"
    consented = enrolled.consented
    if consented is None or consented.plugin != plugin:
        return f"the plugin {plugin} has no consent yet"
    if consented.digest != introduced.digest:
        return f"the code of {plugin} has changed since the consent"
    if consented.version != introduced.described.version:
        return f"the same code of {plugin} stated version {consented.version} at the consent, and states another now"
    if compare(consented.access, introduced.described.access).widens:
        return f"the plugin {plugin} requests more access than the consent allows"
    if redefined(consented.definitions, dict(introduced.described.definitions)).widens:
        return f"the definition of a tool of {plugin} has changed since the consent"
    return None


class Connections:
    """Admits runtimes, assigns them to pools, and takes consents. One per host."""

    def __init__(
        self,
        *,
        repository: RuntimeRepository,
        challenges: Challenges,
        plugins: RemotePlugins,
        fleet: PluginFleet,
        clock: Clock,
        host_version: str,
        is_open: Callable[[str], bool],
    ) -> None:
        """`is_open` says whether a workspace is open."""
        self._repository = repository
        self._challenges = challenges
        self._plugins = plugins
        self._fleet = fleet
        self._clock = clock
        self._host_version = host_version
        self._is_open = is_open
        self._rates: Rates[str] = Rates(RUNTIME_CONNECTS_PER_MINUTE, RUNTIME_CONNECTS_PER_MINUTE // 2)
        self._open: dict[str, Connection] = {}
        """By public key."""
        self._closing = False

    def begin(self) -> None:
        """Place the plugins of the enrolled runtimes, and follow changes of the repository."""
        for workspace in sorted({saved.workspace for saved in self._repository.everywhere()}):
            if self._is_open(workspace):
                self._plugins.sync(workspace, self._repository.all(workspace))
        self._repository.watch(self._changed)

    def find(self, saved: Saved[Enrolled]) -> Connection | None:
        return self._open.get(saved.value.public_key)

    def close(self) -> None:
        """Disconnect every runtime because the host stops; they reconnect later."""
        self._closing = True
        for connection in list(self._open.values()):
            connection.slot.cut("the host stops")

    def close_workspace(self, workspace: str) -> None:
        self._plugins.forget(workspace)
        for connection in list(self._open.values()):
            if connection.saved.workspace == workspace:
                connection.slot.dismiss("the workspace was closed")

    # --- admission ---

    @asynccontextmanager
    async def admitted(self, public_key: str, nonce: str, signature: str) -> AsyncGenerator[Connection]:
        """The connection of the runtime that signed this challenge, while it is connected. Raises `Unauthenticated`,
        `RateExceeded`, `Conflict`."""
        saved = self._authenticate(public_key, nonce, signature)
        before = self._open.get(public_key)
        if before is not None:
            if await before.slot.is_alive():
                await self._record(saved, "runtime.refused", {"reason": "its key is connected already"})
                raise _already_connected(saved)
            before.slot.cut("its key connected again, and this connection did not answer")
            self._leave(before)
        current = self._repository.of_key(public_key)
        if current is None or not current.value.enabled or self._closing:  # changed during the await
            raise _unknown_key()
        if public_key in self._open:
            raise _already_connected(saved)
        slot = RemoteSlot(current.value.name, self._clock, violated=lambda each: self._violated(public_key, each))
        connection = self._open[public_key] = Connection(current, slot)
        try:
            yield connection
        finally:
            self._leave(connection)

    def _authenticate(self, public_key: str, nonce: str, signature: str) -> Saved[Enrolled]:
        is_signed = self._challenges.answer(nonce, public_key, signature)
        saved = self._repository.of_key(public_key)
        if not is_signed or saved is None or not saved.value.enabled or not self._is_open(saved.workspace):
            raise _unknown_key()
        wait_s = self._rates.take(public_key, self._clock.monotonic())
        if wait_s is not None:
            raise RateExceeded(
                f"a runtime connects at most {RUNTIME_CONNECTS_PER_MINUTE} times in a minute",
                reason="runtime_connects",
                hint="wait as long as Retry-After says",
                retry_after_s=round(wait_s, 3),
                limit=RUNTIME_CONNECTS_PER_MINUTE,
                window_s=60,
                whose="runtime",
            )
        return saved

    def _leave(self, connection: Connection) -> None:
        if self._open.get(connection.saved.value.public_key) is connection:
            del self._open[connection.saved.value.public_key]
        if connection.pool is not None:
            connection.pool.leave(connection.slot)
            connection.pool = None

    # --- serving ---

    async def serve(self, connection: Connection, transport: Transport) -> None:
        """Serve a runtime from its introduction to the end of its connection."""
        slot, name = connection.slot, connection.saved.value.name
        try:
            result, runners, tools = await slot.introduce(transport, self._host_version)
        except (WireError, TimeoutError) as error:
            _log.warning("the introduction of a runtime failed", runtime=name, problem=str(error))
            transport.close("the introduction failed")
            return
        described = described_by(result, runners, tools)
        data: JsonObject = {"plugin": described.plugin_id, "version": described.version, "digest": result.plugin.digest}
        await self._record(connection.saved, "runtime.connected", data)
        connection.introduced = RuntimeIntroduction(result=result, described=described, catalogue=runners, tools=tools)
        self._assign(connection)
        watching = asyncio.create_task(slot.watch(lambda: self._assign(connection)))
        try:
            await asyncio.wait({watching, slot.ended}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                slot.cut(watching.result())
            reason = await slot.ended
        finally:
            watching.cancel()
        self._leave(connection)
        _log.info("a runtime is disconnected", runtime=name, reason=reason)
        if not self._closing:
            await self._record(connection.saved, "runtime.lost", {"reason": reason[:_REASON_CHARACTERS]})

    def _assign(self, connection: Connection) -> None:
        """Move a runtime to the pool that it belongs to now, or to none."""
        introduced, slot = connection.introduced, connection.slot
        saved = self._repository.of_key(connection.saved.value.public_key)
        if saved is None or not saved.value.enabled:
            slot.dismiss("it was revoked" if saved is None else "it was switched off")
            return
        connection.saved = saved
        if introduced is None or slot.draining:
            return
        problem, pool = self._find_pool(saved, introduced)
        if problem != connection.problem and problem is not None:
            _log.warning("a runtime gets no runs", runtime=saved.value.name, reason=problem)
        connection.problem = problem
        if pool is connection.pool:
            return
        if connection.pool is not None:
            connection.pool.leave(slot)
        connection.pool = pool
        if pool is not None:
            log = self._fleet.log_of(saved.workspace, introduced.described.plugin_id)
            log.say("host", f"the runtime {saved.value.name} is connected")
            slot.log_to(log)
            pool.join(slot, introduced.catalogue, introduced.tools)

    def _find_pool(
        self, saved: Saved[Enrolled], introduced: RuntimeIntroduction
    ) -> tuple[str | None, RemotePool | None]:
        plugin, consented = introduced.described.plugin_id, saved.value.consented
        problem = consent_problem(saved.value, introduced) or self._plugins.name_conflict(saved.workspace, plugin)
        if problem is not None or consented is None:
            return problem, None
        pool = self._plugins.pool_of(saved.workspace, consented)
        if pool is None:  # a local plugin of this name may have been removed since
            self._plugins.sync(saved.workspace, self._repository.all(saved.workspace))
            pool = self._plugins.pool_of(saved.workspace, consented)
        return (None, pool) if pool is not None else (f"other code of {plugin} is in use, with a later consent", None)

    def _changed(self, before: Saved[Enrolled] | None, after: Saved[Enrolled] | None) -> None:
        saved = after or before
        if saved is None:
            return
        connection = self._open.get(saved.value.public_key)
        if connection is not None and (after is None or not after.value.enabled):
            self._assign(connection)  # before its plugin is removed, so that no one waits for its runs
        self._plugins.sync(saved.workspace, self._repository.all(saved.workspace))
        for each in list(self._open.values()):
            if each.saved.workspace == saved.workspace:
                self._assign(each)

    def _violated(self, public_key: str, violation: Violation) -> None:
        connection = self._open.get(public_key)
        if connection is None:
            return  # it was replaced by another connection of its key
        introduced = connection.introduced
        offender = Offender(
            workspace=connection.saved.workspace,
            plugin=None if introduced is None else introduced.described.plugin_id,
            digest=None if introduced is None else introduced.digest,
            runtime=connection.saved.value.name,
        )
        self._fleet.on_violation(offender, violation)

    async def _record(self, saved: Saved[Enrolled], kind: str, data: JsonObject) -> None:
        with suppress(HostError):  # a full disk does not stop runtimes
            await self._repository.note(saved, kind, data)

    # --- consent ---

    def change_of(self, connection: Connection) -> AccessChange | None:
        """How the access of its plugin differs from the consent."""
        if connection.introduced is None:
            return None
        consented, described = connection.saved.value.consented, connection.introduced.described
        if consented is None:
            return compare(None, described.access)
        change = compare(consented.access, described.access)
        return change.merge(redefined(consented.definitions, dict(described.definitions)))

    async def consent(self, workspace: str, name: str, consent: str | None, by: str) -> Saved[Enrolled]:
        """Consent to the code that is connected now. Raises `ConsentNeeded` unless `consent` is its id, `Conflict`."""
        saved = self._repository.get(workspace, name)
        connection = self.find(saved)
        if connection is None or connection.introduced is None or connection.introduced.digest is None:
            raise Conflict(
                f"the runtime {name} is not connected, or reports no digest of its code",
                reason="runtime_not_connected",
                hint="start it with `bollard runtime … --connect`, then consent to its plugin",
                runtime=name,
            )
        described, digest = connection.introduced.described, connection.introduced.digest
        plugin = described.plugin_id
        if saved.value.plugin is not None and plugin != saved.value.plugin:
            raise Conflict(
                f"the runtime {name} was enrolled for {saved.value.plugin} only, and has the plugin {plugin}",
                reason="runtime_other_plugin",
                hint="revoke it, and enrol it for this plugin",
                runtime=name,
                enrolled=saved.value.plugin,
                plugin=plugin,
            )
        if (conflict := self._plugins.name_conflict(workspace, plugin)) is not None:
            raise Conflict(
                conflict,
                reason="runtime_plugin_name",
                hint="remove the other plugin first, or choose another name",
                plugin=plugin,
            )
        self._plugins.check_name(workspace, plugin)
        before = saved.value.consented
        check_consent(digest, described, None if before is None else before.access, consent or "")
        consented = Consented(
            plugin=plugin,
            version=described.version,
            digest=digest,
            asks=described.access.to_wire(),
            definitions=dict(described.definitions),
            by=by,
            at_ms=self._clock.now_ms(),
        )
        return await self._repository.consent(workspace, name, consented, by)


def _unknown_key() -> HostError:
    return Unauthenticated(
        "the key of this runtime is not enrolled here, or is disabled",
        reason="runtime_key",
        hint="enrol it with a code from `bollard runtimes enroll NAME` on the host",
    )


def _already_connected(saved: Saved[Enrolled]) -> Conflict:
    return Conflict(
        f"the runtime {saved.value.name} is connected already",
        reason="runtime_connected",
        hint="stop the other process, or enrol this one with a key of its own",
        runtime=saved.value.name,
    )


class RemoteRuntimes(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that serve remote runtimes."""

    repository: RuntimeRepository
    challenges: Challenges
    connections: Connections

    async def load(self, store: Store) -> None:
        """Load the enrolled runtimes and place their plugins. Call after the installed plugins are loaded."""
        await self.repository.load(store)
        self.connections.begin()


def build_runtimes(
    *,
    journal: Journal,
    clock: Clock,
    fleet: PluginFleet,
    plugins: PluginRepository,
    host_id: str,
    host_version: str,
    is_open: Callable[[str], bool],
) -> RemoteRuntimes:
    """Build the parts, not loaded yet. Runtimes know this host by `host_id`; `is_open` says whether a workspace is
    open."""
    repository, challenges = RuntimeRepository(journal, clock), Challenges(host_id, clock)
    connections = Connections(
        repository=repository,
        challenges=challenges,
        plugins=RemotePlugins(fleet, plugins, clock),
        fleet=fleet,
        clock=clock,
        host_version=host_version,
        is_open=is_open,
    )
    return RemoteRuntimes(repository=repository, challenges=challenges, connections=connections)
