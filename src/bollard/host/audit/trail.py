"""What a host does for its audit beside writing the log: the witness, and the archive. One value for the composition
root."""

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from bollard.host.audit.heads import HeadLine, UnreadableHead, is_signed, read_heads_of
from bollard.host.audit.segments import Archiver
from bollard.host.audit.witness import Witness, WitnessNumbers, WitnessPlace, WitnessThread
from bollard.host.audit.witness_sinks import WitnessFile, WitnessHttp, is_url
from bollard.host.clock import Clock
from bollard.host.errors import AuditUnavailable, LogBroken
from bollard.host.limits import WITNESS_NEWEST_BYTES, WITNESS_START_S
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.settings import Settings
from bollard.host.store.store import Store
from bollard.trust.keys import VerifyKey

# Whether the log still has what the witness was told last: looked at by a start that demands a witness (ADR 0090).


class WitnessedGap(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the witness knows and the log does not have; an operator has accepted it."""

    workspace: str
    chain: str
    position: int


def check_witnessed(
    store: Store, lines: Iterable[bytes], keys: Mapping[str, VerifyKey], accepted: str
) -> WitnessedGap | None:
    """Compare the newest start that the witness names with the log. `accepted` is the setting `broken_log`.

    Raises `LogBroken` where a record is missing or another one, and `AuditUnavailable` where the witness knows nothing
    of a log that has records.
    """
    newest: dict[str, HeadLine] = {}
    chain = ""
    try:
        for line in read_heads_of(lines):
            if is_signed(line.row(), keys):
                newest = newest if line.chain == chain else {}
                chain = line.chain
                if line.workspace not in newest or line.position >= newest[line.workspace].position:
                    newest[line.workspace] = line
    except UnreadableHead as error:
        raise AuditUnavailable(
            f"what the witness holds cannot be read: {error.problem}", hint="look at the place that `witness` names"
        ) from error
    if not newest and store.last_record():
        raise AuditUnavailable(
            "the witness holds no head of this host, and the log has records",
            hint="look at the place that `witness` names; if it is new, start once without witness_required",
        )
    for head in newest.values():
        named = store.chain(head.workspace, head.chain, head.position - 1, 1)
        if named and (named[0].position, named[0].hash) == (head.position, head.hash):
            continue
        if accepted.partition(":")[0] == head.chain:
            return WitnessedGap(workspace=head.workspace, chain=head.chain, position=head.position)
        name = f"{head.chain}:{head.position}"
        raise LogBroken(
            f"the witness names record {head.position} of chain {head.chain}, and it is not there, or another one",
            hint="keep a copy, look with `bollard audit verify`, and restore a backup; or set broken_log to "
            f"{name} to go on behind it",
            name=name,
        )
    return None


ARCHIVE_FOLDER = "archive"
"""In the data directory."""


def witness_at(place: str, token: str = "") -> WitnessPlace:
    """The witness at a URL or in a file."""
    return WitnessHttp(place, token) if is_url(place) else WitnessFile(Path(place))


def own_witness(settings: Settings) -> str:
    """Where heads are written a second time: a URL or a path."""
    return settings.witness or str(settings.data / "witness" / "heads.jsonl")


class AuditTrail:
    """One per host."""

    def __init__(
        self, settings: Settings, *, store: Store, journal: Journal, clock: Clock, incarnation: str, workspace: str
    ) -> None:
        """`workspace` is where what happens to the audit itself is recorded."""
        self._settings = settings
        self._store = store
        self._journal = journal
        self._clock = clock
        self._workspace = workspace
        self._place = witness_at(own_witness(settings), settings.witness_token)
        self._gap: WitnessedGap | None = None
        self._witness = Witness(
            WitnessThread(self._place),
            journal,
            clock,
            incarnation=incarnation,
            workspace=workspace,
            place=str(self._place),
        )
        self._archiver: Archiver | None = None
        if settings.archive_days:
            folder = settings.data / ARCHIVE_FOLDER
            self._archiver = Archiver(
                store=store, journal=journal, clock=clock, folder=folder, days=settings.archive_days
            )

    @property
    def numbers(self) -> Callable[[], WitnessNumbers]:
        return lambda: self._witness.numbers

    async def check(self, key: VerifyKey) -> None:
        """Where a witness is demanded: compare what it was told last with the log. Raises `AuditUnavailable` where it
        cannot be read, and `LogBroken`."""
        if self._settings.witness_required:
            try:
                async with asyncio.timeout(WITNESS_START_S):
                    self._gap = await self._checked(key)
            except TimeoutError as error:
                raise _unread(self._place, f"it did not answer within {WITNESS_START_S:g} s") from error

    def _checked(self, key: VerifyKey) -> "asyncio.Future[WitnessedGap | None]":
        """In a daemon thread: one that hangs on a dead mount must not keep the process from ending."""
        loop = asyncio.get_running_loop()
        fate: asyncio.Future[WitnessedGap | None] = loop.create_future()

        def settle(gap: WitnessedGap | None, error: Exception | None) -> None:
            if fate.done():
                return
            if error is None:
                fate.set_result(gap)
            else:
                fate.set_exception(error)

        def work() -> None:
            gap, problem = None, None
            try:
                gap = self._compare(key)
            except Exception as error:  # noqa: BLE001 -- it is raised in the loop
                problem = error
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, gap, problem)

        threading.Thread(target=work, name="bollard-witness-check", daemon=True).start()
        return fate

    def _compare(self, key: VerifyKey) -> WitnessedGap | None:
        keys, accepted = {key.key_id: key}, self._settings.broken_log
        try:
            return check_witnessed(self._store, self._place.lines(WITNESS_NEWEST_BYTES), keys, accepted)
        except FileNotFoundError:
            return check_witnessed(self._store, (), keys, accepted)
        except OSError as error:
            raise _unread(self._place, error.strerror or str(error)) from error

    def start(self) -> None:
        """Before the first record."""
        self._witness.start(self._store)

    async def record_gap(self) -> None:
        """Say in the log that it goes on behind a place that the witness knew. Raises `HostError`."""
        if (gap := self._gap) is not None:
            said = {"reason": "broken_log", "sink": "witness", "chain": gap.chain, "position": gap.position}
            record = NewRecord(
                workspace=gap.workspace, type="audit.gap", data=encode_data(said), created_ms=self._clock.now_ms()
            )
            await self._journal.commit(Entry(records=[record]))

    async def keep_house(self) -> None:
        """Before retention takes anything. Raises `HostError`."""
        if self._archiver is not None:
            await self._archiver.run()

    async def close(self) -> None:
        """After the journal."""
        await self._witness.close()


def _unread(place: WitnessPlace, problem: str) -> AuditUnavailable:
    return AuditUnavailable(
        f"the witness at {place} is demanded and cannot be read: {problem}",
        hint="bring it back, or start without witness_required",
    )
