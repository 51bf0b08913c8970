"""Verifies the log of a running host in the background, on request, and remembers the result until the host stops.

One verification runs at a time, in a thread that rests between parts of the log, so that requests go on meanwhile.
"""

import threading
import time
from pathlib import Path

import msgspec
import structlog

from bollard.host.audit.trail import ARCHIVE_FOLDER, own_witness, witness_at
from bollard.host.audit.verification import VerificationStatus
from bollard.host.audit.witness_sinks import is_url
from bollard.host.backup.archived_files import public_keys
from bollard.host.backup.log_check import CheckedLog, check_log, read_witnesses
from bollard.host.backup.table_source import open_snapshot
from bollard.host.clock import Clock
from bollard.host.errors import Conflict
from bollard.host.limits import VERIFICATION_REST
from bollard.host.settings import Settings
from bollard.trust.keys import VerifyKey

_log = structlog.get_logger("bollard.audit")


class LogVerification:
    """Starts verifications and shows the newest."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self.status = VerificationStatus()

    def start(self) -> VerificationStatus:
        """Raises `Conflict` while one runs."""
        if self.status.state == "running":
            raise Conflict(
                "the log is being verified already", reason="verification_running", hint="wait until it has ended"
            )
        begun = self.status = VerificationStatus(state="running", started_ms=self._clock.now_ms())
        # A daemon: a long verification must not hold up the exit of the host.
        threading.Thread(target=self._work, name="verification", daemon=True).start()
        return begun

    def _work(self) -> None:
        try:
            report = self._checked().report
            self.status = msgspec.structs.replace(
                self.status,
                state="broken" if report.problems else "verified",
                ended_ms=self._clock.now_ms(),
                done=report.records,
                total=report.records,
                unsigned=report.unsigned,
                witnessed=report.witnessed,
                problems=report.problems,
            )
        except Exception as error:  # noqa: BLE001 -- the end of a thread: nobody else would hear of it
            _log.warning("the log could not be verified", problem=str(error))
            self.status = msgspec.structs.replace(
                self.status, state="failed", ended_ms=self._clock.now_ms(), failure=str(error)
            )
        if self.status.state == "broken":
            _log.error("the log is broken", problems=len(self.status.problems))

    def _checked(self) -> CheckedLog:
        data = self._settings.data
        keys = [VerifyKey(bytes.fromhex(each)) for each in public_keys(data).values()]
        own = own_witness(self._settings)
        witnesses = [witness_at(own, self._settings.witness_token)] if is_url(own) or Path(own).is_file() else []
        witnessed = read_witnesses({key.key_id: key for key in keys}, witnesses)
        snapshot = open_snapshot(self._settings.database, data)
        rested = time.monotonic()

        def progress(stage: str, done: int, total: int) -> None:
            nonlocal rested
            del stage
            self.status = msgspec.structs.replace(self.status, done=done, total=total)
            time.sleep((time.monotonic() - rested) * VERIFICATION_REST)
            rested = time.monotonic()

        try:
            return check_log(snapshot, witnessed, archive=data / ARCHIVE_FOLDER, progress=progress)
        finally:
            snapshot.close()
