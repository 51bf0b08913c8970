"""The audit trail of a host: the witness and the archive of the log."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from bollard.host.audit.heads import HeadLine, UnreadableHead, is_signed, read_heads_of
from bollard.host.audit.segments import Archiver
from bollard.host.audit.witness import Witness, WitnessNumbers, WitnessPlace, WitnessThread
from bollard.host.audit.witness_sinks import WitnessFile, WitnessHttp, is_url
from bollard.host.clock import Clock
from bollard.host.dial import Dial
from bollard.host.errors import AuditUnavailable, LogBroken
from bollard.host.limits import WITNESS_NEWEST_BYTES, WITNESS_START_S
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.settings import Settings
from bollard.host.store.store import Store
from bollard.trust.keys import VerifyKey


class WitnessedGap(msgspec.Struct, frozen=True, kw_only=True):
    """A witnessed record that the log lacks, accepted by an operator (ADR 0090)."""

    workspace: str
    chain: str
    position: int


def check_witnessed(
    store: Store, lines: Iterable[bytes], keys: Mapping[str, VerifyKey], accepted: str
) -> WitnessedGap | None:
    """Compare the newest chains of the witness with the log. `accepted` is the setting `broken_log`.

    Raises `LogBroken` if a record is missing or differs, and `AuditUnavailable` if the witness has no head of a log
    with records.
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
            f"the heads of the witness cannot be read: {error.why}",
            reason="witness_damaged",
            hint="check the setting `witness` and its file or server",
            **error.why.whole,
        ) from error
    if not newest and store.last_record():
        raise AuditUnavailable(
            "the witness holds no head of this host, but the log has records",
            reason="witness_empty",
            hint="check the setting `witness`; if the witness is new, start once without witness_required",
        )
    for head in newest.values():
        named = store.chain(head.workspace, head.chain, head.position - 1, 1)
        if named and (named[0].position, named[0].hash) == (head.position, head.hash):
            continue
        if accepted.partition(":")[0] == head.chain:
            return WitnessedGap(workspace=head.workspace, chain=head.chain, position=head.position)
        name = f"{head.chain}:{head.position}"
        raise LogBroken(
            f"the witness names record {head.position} of chain {head.chain}, which is missing or has another hash",
            reason="witnessed_record_missing",
            hint="keep a copy, run `bollard audit verify`, and restore a backup; or set broken_log to "
            f"{name} to continue after it",
            name=name,
            chain=head.chain,
            position=head.position,
        )
    return None


ARCHIVE_FOLDER = "archive"
"""In the data directory."""


def witness_at(place: str, token: str = "", dial: Dial = socket.create_connection) -> WitnessPlace:
    """The witness at a URL or in a file."""
    return WitnessHttp(place, token, dial=dial) if is_url(place) else WitnessFile(Path(place))


def own_witness(settings: Settings) -> str:
    """The URL or path of the witness."""
    return settings.witness or str(settings.data / "witness" / "heads.jsonl")


class AuditTrail:
    """Connects the log with its witness and its archive. One per host."""

    def __init__(
        self,
        settings: Settings,
        *,
        store: Store,
        journal: Journal,
        clock: Clock,
        incarnation: str,
        workspace: str,
        dial: Dial = socket.create_connection,
    ) -> None:
        """Records about the audit itself are written to `workspace`. `dial` connects to a witness at a URL."""
        self._settings = settings
        self._store = store
        self._journal = journal
        self._clock = clock
        self._workspace = workspace
        self._place = witness_at(own_witness(settings), settings.witness_token, dial)
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
        """If a witness is required, compare its newest heads with the log. Raises `AuditUnavailable` if it cannot be
        read, and `LogBroken`."""
        if self._settings.witness_required:
            try:
                async with asyncio.timeout(WITNESS_START_S):
                    self._gap = await self._checked(key)
            except TimeoutError as error:
                raise _unread(self._place, f"it did not answer within {WITNESS_START_S:g} s") from error

    def _checked(self, key: VerifyKey) -> "asyncio.Future[WitnessedGap | None]":
        """Read the witness in a daemon thread: a thread that hangs on a dead mount must not block the exit."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[WitnessedGap | None] = loop.create_future()

        def settle(gap: WitnessedGap | None, error: Exception | None) -> None:
            if result.done():
                return
            if error is None:
                result.set_result(gap)
            else:
                result.set_exception(error)

        def work() -> None:
            gap, problem = None, None
            try:
                gap = self._compare(key)
            except Exception as error:  # noqa: BLE001 -- it is raised in the loop
                problem = error
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, gap, problem)

        threading.Thread(target=work, name="bollard-witness-check", daemon=True).start()
        return result

    def _compare(self, key: VerifyKey) -> WitnessedGap | None:
        keys, accepted = {key.key_id: key}, self._settings.broken_log
        try:
            return check_witnessed(self._store, self._place.lines(WITNESS_NEWEST_BYTES), keys, accepted)
        except FileNotFoundError:
            return check_witnessed(self._store, (), keys, accepted)
        except OSError as error:
            raise _unread(self._place, error.strerror or str(error)) from error

    def start(self) -> None:
        """Start the witness. Call it before the first record."""
        self._witness.start(self._store)

    async def record_gap(self) -> None:
        """Record an accepted gap between witness and log. Raises `HostError`."""
        if (gap := self._gap) is not None:
            gap_data = {"reason": "broken_log", "sink": "witness", "chain": gap.chain, "position": gap.position}
            record = NewRecord(
                workspace=gap.workspace, type="audit.gap", data=encode_data(gap_data), created_ms=self._clock.now_ms()
            )
            await self._journal.commit(Entry(records=[record]))

    async def keep_house(self) -> None:
        """Archive old parts of the log. Call it before retention. Raises `HostError`."""
        if self._archiver is not None:
            await self._archiver.run()

    async def close(self) -> None:
        """Close the witness. Call it after closing the journal."""
        await self._witness.close()


def _unread(place: WitnessPlace, problem: str) -> AuditUnavailable:
    return AuditUnavailable(
        f"the required witness at {place} cannot be read: {problem}",
        reason="witness_unreadable",
        hint="restore the witness, or start without witness_required",
        witness=str(place),
        problem=problem,
    )
