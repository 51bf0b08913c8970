"""`exec`: a shell line in a jail around the folder of a run."""

import asyncio
import os
import sys
from collections.abc import Callable
from typing import Final

from bollard.confine.folder import Folder
from bollard.confine.launcher import Program, ProgramResult, run_confined
from bollard.confine.limits import FOLDER_BYTES, FOLDER_FILES, PRINTED_BYTES
from bollard.confine.probe import Confinement
from bollard.host.capabilities.sources import CallOrder, CallResult
from bollard.host.errors import ToolFailed
from bollard.host.limits import MIB, PROGRAM_DISK_FREE_BYTES, PROGRAM_OUTPUT_BYTES, PROGRAMS_AT_ONCE
from bollard.host.tools.ports import number, words, words_or
from bollard.host.tools.workspaces import RunPlace, Workspaces, check_room
from bollard.protocol import JsonObject

_DEFAULT_S: Final = 60
_SPARE_S: Final = 2.0
"""Between the program's end and the call's, so that what it printed is told."""
_LEAST_S: Final = 0.5
_FULL: Final = "room"


class ProgramTools:
    """A limited number of programs at once; more wait, in order."""

    def __init__(
        self, workspaces: Workspaces, walls: Callable[[], Confinement], *, at_once: int = PROGRAMS_AT_ONCE
    ) -> None:
        self._workspaces = workspaces
        self._walls = walls
        self._places = asyncio.Semaphore(at_once)

    async def exec(self, order: CallOrder) -> CallResult:
        walls = self._walls()
        walls.demanded()
        loop = asyncio.get_running_loop()
        place = await asyncio.to_thread(self._opened, order.context.run_id)
        until = loop.time() + order.timeout_s - _SPARE_S
        try:
            async with asyncio.timeout_at(until):
                await self._places.acquire()
        except TimeoutError:
            raise ToolFailed("too many programs run on this host already", hint="try again later") from None
        try:
            program = _program(order, place, until - loop.time())
            ended = await run_confined(program, walls, watch=lambda: _watched(place))
        finally:
            self._places.release()
        return _told(ended, program.timeout_s)

    def _opened(self, run_id: str) -> RunPlace:
        place = self._workspaces.open(run_id)
        with Folder(place.whole) as folder:
            check_room(folder)
        if _is_disk_full(place):
            raise ToolFailed("the disk of the host has no room for programs", hint="free space in the data directory")
        return place


def _program(order: CallOrder, place: RunPlace, left_s: float) -> Program:
    asked = number(order.arguments, "timeout_s", _DEFAULT_S)
    return Program(
        argv=("/bin/sh", "-c", words(order.arguments, "command")),
        cwd=place.files,
        writable=(place.files, place.temporary),
        environment=_environment(place),
        stdin=words_or(order.arguments, "stdin", "").encode(),
        timeout_s=max(_LEAST_S, min(asked, left_s)),
        output_bytes=PROGRAM_OUTPUT_BYTES,
    )


def _watched(place: RunPlace) -> str | None:
    with Folder(place.whole) as folder:
        return _FULL if _is_disk_full(place) or folder.usage().over else None


def _is_disk_full(place: RunPlace) -> bool:
    told = os.statvfs(place.whole)
    return told.f_bavail * told.f_frsize < PROGRAM_DISK_FREE_BYTES


def _environment(place: RunPlace) -> dict[str, str]:
    """Nothing of the host's own."""
    return {
        "HOME": str(place.files),
        "LANG": "C.UTF-8",
        "PATH": os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin", os.path.join(sys.base_prefix, "bin"))),
        "TMPDIR": str(place.temporary),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _told(ended: ProgramResult, timeout_s: float) -> CallResult:
    facts: JsonObject = {
        "exit_code": ended.code,
        "stopped": ended.stopped,
        "stdout_bytes": ended.stdout_bytes,
        "stderr_bytes": ended.stderr_bytes,
    }
    lines = [_end_in_words(ended, timeout_s)]
    for name, kept, printed in (
        ("stdout", ended.stdout, ended.stdout_bytes),
        ("stderr", ended.stderr, ended.stderr_bytes),
    ):
        if kept:
            cut = f" (the first {len(kept)} of {printed} bytes)" if printed > len(kept) else ""
            lines += [f"--- {name}{cut}", kept.decode(errors="replace").removesuffix("\n")]
    failed = ended.stopped is not None or ended.code != 0
    return CallResult(content=({"type": "text", "text": "\n".join(lines)},), structured=facts, is_error=failed)


def _end_in_words(ended: ProgramResult, timeout_s: float) -> str:
    match ended.stopped:
        case None if ended.code is not None and ended.code < 0:
            return f"ended by signal {-ended.code}"
        case None:
            return f"exit code {ended.code}"
        case "timeout":
            return f"stopped after {round(timeout_s, 1):g} s, with everything it had started"
        case "output":
            return f"stopped: it printed more than {PRINTED_BYTES // MIB} MiB"
        case _:
            room = f"{FOLDER_BYTES // MIB} MiB or {FOLDER_FILES} files"
            return f"stopped: its files need more than {room}, or than the disk has"
