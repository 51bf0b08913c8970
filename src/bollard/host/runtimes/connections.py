"""The runtimes that are connected now: let in by their key, one connection each, and given a place when somebody said
yes to what they bring.

A second connection of a key is refused while the first answers: whoever copied a key cannot push its owner aside
without a trace, and an owner whose line broke is back as soon as the old line does not answer.
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
from bollard.host.log.saved_resources import Saved
from bollard.host.plugins.description import Description
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.installation import AccessChange, check_consent, compare, consent_for, redefined
from bollard.host.runtimes.enrolment import Challenges, Consented, Enrolled, described_by
from bollard.host.runtimes.pool import RemotePlaces, RemotePool, RemoteSlot
from bollard.host.runtimes.repository import RuntimeRepository
from bollard.protocol import InitializeResult, JsonObject
from bollard.wire import RunnerCatalogue, ToolCatalogue, Transport, WireError

_log = structlog.get_logger("bollard.runtimes")
_REASON_CHARACTERS: Final = 300
"""What is written down of a reason that the other side gave."""


class RuntimeIntroduction(msgspec.Struct, frozen=True, kw_only=True):
    """What a runtime said of itself."""

    said: InitializeResult
    described: Description
    catalogue: RunnerCatalogue
    tools: ToolCatalogue

    @property
    def digest(self) -> str | None:
        return self.said.plugin.digest

    @property
    def consent(self) -> str | None:
        """The name of the yes that it needs; code that nobody can name cannot be said yes to."""
        return None if self.digest is None else consent_for(self.digest, self.described)


@dataclass(slots=True, eq=False)
class Connection:
    """One connected runtime. `Connections` alone changes it."""

    saved: Saved[Enrolled]
    slot: RemoteSlot
    introduced: RuntimeIntroduction | None = None
    pool: RemotePool | None = None
    problem: str | None = None
    """Why it is given no runs."""


def why_it_waits(enrolled: Enrolled, introduced: RuntimeIntroduction) -> str | None:
    """What keeps a connected runtime from being given runs, as far as it is its own matter. Pure."""
    plugin = introduced.described.plugin_id
    if enrolled.plugin is not None and plugin != enrolled.plugin:
        return f"it brings {plugin}, but was enrolled for {enrolled.plugin} only"
    if introduced.digest is None:
        return f"it does not say the digest of {plugin}, so nobody can say yes to that code"
    consented = enrolled.consented
    if consented is None or consented.plugin != plugin:
        return f"nobody has said yes to what {plugin} asks for"
    if consented.digest != introduced.digest:
        return f"the code of {plugin} has changed since somebody said yes to it"
    if compare(consented.access, introduced.described.access).widens:
        return f"{plugin} asks for more than somebody said yes to"
    if redefined(consented.definitions, dict(introduced.described.definitions)).widens:
        return f"a tool of {plugin} is not defined any more as it was when somebody said yes to it"
    return None


class Connections:
    """One per host."""

    def __init__(
        self,
        *,
        repository: RuntimeRepository,
        challenges: Challenges,
        places: RemotePlaces,
        fleet: PluginFleet,
        clock: Clock,
        host_version: str,
        is_open: Callable[[str], bool],
    ) -> None:
        """`is_open` says whether a workspace is."""
        self._repository = repository
        self._challenges = challenges
        self._places = places
        self._fleet = fleet
        self._clock = clock
        self._host_version = host_version
        self._is_open = is_open
        self._rates: Rates[str] = Rates(RUNTIME_CONNECTS_PER_MINUTE, RUNTIME_CONNECTS_PER_MINUTE // 2)
        self._open: dict[str, Connection] = {}
        """By public key."""
        self._closing = False

    def begin(self) -> None:
        """Make places for what is enrolled, and hear of changes from here on."""
        for workspace in sorted({saved.workspace for saved in self._repository.everywhere()}):
            if self._is_open(workspace):
                self._places.settle(workspace, self._repository.all(workspace))
        self._repository.watch(self._changed)

    def find(self, saved: Saved[Enrolled]) -> Connection | None:
        return self._open.get(saved.thing.public_key)

    def close(self) -> None:
        """The host stops: every runtime is let go, and will look for it."""
        self._closing = True
        for connection in list(self._open.values()):
            connection.slot.cut("the host stops")

    def close_workspace(self, workspace: str) -> None:
        self._places.forget(workspace)
        for connection in list(self._open.values()):
            if connection.saved.workspace == workspace:
                connection.slot.dismiss("the workspace was closed")

    # --- coming in ---

    @asynccontextmanager
    async def admitted(self, public_key: str, nonce: str, signature: str) -> AsyncGenerator[Connection]:
        """The place of the runtime that signed this, for as long as it is connected. Raises `Unauthenticated`,
        `RateExceeded`, `Conflict`."""
        saved = self._known(public_key, nonce, signature)
        before = self._open.get(public_key)
        if before is not None:
            if await before.slot.is_alive():
                await self._note(saved, "runtime.refused", {"reason": "its key is connected already"})
                raise _twice(saved)
            before.slot.cut("its key came again, and it did not answer")
            self._leave(before)
        now = self._repository.of_key(public_key)
        if now is None or not now.thing.enabled or self._closing:  # while it was asked
            raise _stranger()
        if public_key in self._open:
            raise _twice(saved)
        connection = self._open[public_key] = Connection(now, RemoteSlot(now.thing.name, self._clock))
        try:
            yield connection
        finally:
            self._leave(connection)

    def _known(self, public_key: str, nonce: str, signature: str) -> Saved[Enrolled]:
        signed = self._challenges.answer(nonce, public_key, signature)
        saved = self._repository.of_key(public_key)
        if not signed or saved is None or not saved.thing.enabled or not self._is_open(saved.workspace):
            raise _stranger()
        wait_s = self._rates.take(public_key, self._clock.monotonic())
        if wait_s is not None:
            raise RateExceeded(
                f"a runtime connects at most {RUNTIME_CONNECTS_PER_MINUTE} times in a minute",
                hint="wait as long as Retry-After says",
                retry_after_s=round(wait_s, 3),
                limit=RUNTIME_CONNECTS_PER_MINUTE,
                window_s=60,
                whose="runtime",
            )
        return saved

    def _leave(self, connection: Connection) -> None:
        if self._open.get(connection.saved.thing.public_key) is connection:
            del self._open[connection.saved.thing.public_key]
        if connection.pool is not None:
            connection.pool.leave(connection.slot)
            connection.pool = None

    # --- being there ---

    async def serve(self, connection: Connection, transport: Transport) -> None:
        """From the first word to the last."""
        slot, name = connection.slot, connection.saved.thing.name
        try:
            said, runners, tools = await slot.introduce(transport, self._host_version)
        except (WireError, TimeoutError) as error:
            _log.warning("a runtime could not introduce itself", runtime=name, problem=str(error))
            transport.close("the introduction failed")
            return
        described = described_by(said, runners, tools)
        told: JsonObject = {"plugin": described.plugin_id, "version": described.version, "digest": said.plugin.digest}
        await self._note(connection.saved, "runtime.connected", told)
        connection.introduced = RuntimeIntroduction(said=said, described=described, catalogue=runners, tools=tools)
        self._consider(connection)
        watching = asyncio.create_task(slot.watch(lambda: self._consider(connection)))
        try:
            await asyncio.wait({watching, slot.ended}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                slot.cut(watching.result())
            reason = await slot.ended
        finally:
            watching.cancel()
        self._leave(connection)
        _log.info("a runtime is gone", runtime=name, reason=reason)
        if not self._closing:
            await self._note(connection.saved, "runtime.lost", {"reason": reason[:_REASON_CHARACTERS]})

    def _consider(self, connection: Connection) -> None:
        """Give it the place that it may have now, or none."""
        introduced, slot = connection.introduced, connection.slot
        saved = self._repository.of_key(connection.saved.thing.public_key)
        if saved is None or not saved.thing.enabled:
            slot.dismiss("it was revoked" if saved is None else "it was switched off")
            return
        connection.saved = saved
        if introduced is None or slot.draining:
            return
        problem, pool = self._place_of(saved, introduced)
        if problem != connection.problem and problem is not None:
            _log.warning("a runtime waits", runtime=saved.thing.name, reason=problem)
        connection.problem = problem
        if pool is connection.pool:
            return
        if connection.pool is not None:
            connection.pool.leave(slot)
        connection.pool = pool
        if pool is not None:
            log = self._fleet.log_of(saved.workspace, introduced.described.plugin_id)
            log.say("host", f"the runtime {saved.thing.name} is connected")
            slot.log_to(log)
            pool.join(slot, introduced.catalogue, introduced.tools)

    def _place_of(
        self, saved: Saved[Enrolled], introduced: RuntimeIntroduction
    ) -> tuple[str | None, RemotePool | None]:
        plugin, consented = introduced.described.plugin_id, saved.thing.consented
        problem = why_it_waits(saved.thing, introduced) or self._places.taken_by(saved.workspace, plugin)
        if problem is not None or consented is None:
            return problem, None
        pool = self._places.pool_of(saved.workspace, consented)
        if pool is None:  # what had the name may be gone by now
            self._places.settle(saved.workspace, self._repository.all(saved.workspace))
            pool = self._places.pool_of(saved.workspace, consented)
        return (None, pool) if pool is not None else (f"other code of {plugin} is in use, which came later", None)

    def _changed(self, before: Saved[Enrolled] | None, after: Saved[Enrolled] | None) -> None:
        saved = after or before
        if saved is None:
            return
        connection = self._open.get(saved.thing.public_key)
        if connection is not None and (after is None or not after.thing.enabled):
            self._consider(connection)  # before its plugin goes: nobody waits for runs that are cut
        self._places.settle(saved.workspace, self._repository.all(saved.workspace))
        for each in list(self._open.values()):
            if each.saved.workspace == saved.workspace:
                self._consider(each)

    async def _note(self, saved: Saved[Enrolled], kind: str, told: JsonObject) -> None:
        with suppress(HostError):  # a full disk keeps nobody from working
            await self._repository.note(saved, kind, told)

    # --- consent ---

    def change_of(self, connection: Connection) -> AccessChange | None:
        """What its plugin asks for beside what somebody said yes to."""
        if connection.introduced is None:
            return None
        consented, described = connection.saved.thing.consented, connection.introduced.described
        if consented is None:
            return compare(None, described.access)
        change = compare(consented.access, described.access)
        return change.merge(redefined(consented.definitions, dict(described.definitions)))

    async def consent(self, workspace: str, name: str, given: str | None, by: str) -> Saved[Enrolled]:
        """Say yes to what is connected now. Raises `ConsentNeeded` for any other name of the yes, `Conflict`."""
        saved = self._repository.get(workspace, name)
        connection = self.find(saved)
        if connection is None or connection.introduced is None or connection.introduced.digest is None:
            raise Conflict(
                f"the runtime {name} is not connected with code that can be named",
                hint="start it with `bollard runtime … --connect`, then say yes to what it brings",
                runtime=name,
            )
        described, digest = connection.introduced.described, connection.introduced.digest
        plugin = described.plugin_id
        if saved.thing.plugin is not None and plugin != saved.thing.plugin:
            raise Conflict(
                f"the runtime {name} was enrolled for {saved.thing.plugin} only, and brings {plugin}",
                hint="revoke it, and enrol it for this plugin",
                runtime=name,
            )
        if (taken := self._places.taken_by(workspace, plugin)) is not None:
            raise Conflict(taken, hint="remove that plugin first, or give this one a name of its own", plugin=plugin)
        self._places.check_name(workspace, plugin)
        before = saved.thing.consented
        check_consent(digest, described, None if before is None else before.access, given or "")
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


def _stranger() -> HostError:
    return Unauthenticated(
        "this key opens nothing here", hint="enrol it: `bollard runtimes enroll NAME` on the host gives a code"
    )


def _twice(saved: Saved[Enrolled]) -> Conflict:
    return Conflict(
        f"the runtime {saved.thing.name} is connected already",
        hint="each runtime has a key of its own: enrol this one too, or end the other",
    )
