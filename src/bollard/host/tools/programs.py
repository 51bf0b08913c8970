"""`exec`: runs a shell command in a jail around the folder of a run."""

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
from bollard.host.tools.ports import number, string, string_or
from bollard.host.tools.workspaces import RunFolders, Workspaces, check_room
from bollard.protocol import JsonObject

_DEFAULT_S: Final = 60
_SPARE_S: Final = 2.0
"""Time between the program's deadline and the call's, to return the output."""
_LEAST_S: Final = 0.5
_FULL: Final = "room"


class ProgramTools:
    """Runs a limited number of programs at once. Further ones wait in order."""

    def __init__(
        self, workspaces: Workspaces, confinement: Callable[[], Confinement], *, at_once: int = PROGRAMS_AT_ONCE
    ) -> None:
        self._workspaces = workspaces
        self._confinement = confinement
        self._slots = asyncio.Semaphore(at_once)

    async def exec(self, order: CallOrder) -> CallResult:
        confinement = self._confinement()
        confinement.demanded()
        loop = asyncio.get_running_loop()
        folders = await asyncio.to_thread(self._open, order.context.run_id)
        deadline = loop.time() + order.timeout_s - _SPARE_S
        try:
            async with asyncio.timeout_at(deadline):
                await self._slots.acquire()
        except TimeoutError:
            raise ToolFailed(
                "too many programs are running on this host", reason="too_many_programs", hint="try again later"
            ) from None
        try:
            program = _program(order, folders, deadline - loop.time())
            result = await run_confined(program, confinement, watch=lambda: _check_space(folders))
        finally:
            self._slots.release()
        return _call_result(result, program.timeout_s)

    def _open(self, run_id: str) -> RunFolders:
        folders = self._workspaces.open(run_id)
        with Folder(folders.whole) as folder:
            check_room(folder)
        if _is_disk_full(folders):
            raise ToolFailed(
                "the disk of the host has no room for programs",
                reason="no_disk_for_programs",
                hint="free space in the data directory",
            )
        return folders


def _program(order: CallOrder, folders: RunFolders, left_s: float) -> Program:
    timeout_s = number(order.arguments, "timeout_s", _DEFAULT_S)
    return Program(
        argv=("/bin/sh", "-c", string(order.arguments, "command")),
        cwd=folders.files,
        writable=(folders.files, folders.temporary),
        environment=_environment(folders),
        stdin=string_or(order.arguments, "stdin", "").encode(),
        timeout_s=max(_LEAST_S, min(timeout_s, left_s)),
        output_bytes=PROGRAM_OUTPUT_BYTES,
    )


def _check_space(folders: RunFolders) -> str | None:
    with Folder(folders.whole) as folder:
        return _FULL if _is_disk_full(folders) or folder.usage().over else None


def _is_disk_full(folders: RunFolders) -> bool:
    disk = os.statvfs(folders.whole)
    return disk.f_bavail * disk.f_frsize < PROGRAM_DISK_FREE_BYTES


def _environment(folders: RunFolders) -> dict[str, str]:
    """The environment of a program. It has nothing from the host's environment."""
    return {
        "HOME": str(folders.files),
        "LANG": "C.UTF-8",
        "PATH": os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin", os.path.join(sys.base_prefix, "bin"))),
        "TMPDIR": str(folders.temporary),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _call_result(result: ProgramResult, timeout_s: float) -> CallResult:
    facts: JsonObject = {
        "exit_code": result.code,
        "stopped": result.stopped,
        "stdout_bytes": result.stdout_bytes,
        "stderr_bytes": result.stderr_bytes,
    }
    lines = [_describe_end(result, timeout_s)]
    for name, output, printed in (
        ("stdout", result.stdout, result.stdout_bytes),
        ("stderr", result.stderr, result.stderr_bytes),
    ):
        if output:
            cut = f" (the first {len(output)} of {printed} bytes)" if printed > len(output) else ""
            lines += [f"--- {name}{cut}", output.decode(errors="replace").removesuffix("\n")]
    failed = result.stopped is not None or result.code != 0
    return CallResult(content=({"type": "text", "text": "\n".join(lines)},), structured=facts, is_error=failed)


def _describe_end(result: ProgramResult, timeout_s: float) -> str:
    match result.stopped:
        case None if result.code is not None and result.code < 0:
            return f"ended by signal {-result.code}"
        case None:
            return f"exit code {result.code}"
        case "timeout":
            return f"stopped after {round(timeout_s, 1):g} s, with everything it had started"
        case "output":
            return f"stopped: it printed more than {PRINTED_BYTES // MIB} MiB"
        case _:
            room = f"{FOLDER_BYTES // MIB} MiB or {FOLDER_FILES} files"
            return f"stopped: its files exceed {room}, or the disk is full"
