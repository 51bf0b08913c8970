"""The capability source `builtin` and its adapter."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bollard.confine.errors import ConfineError, JailBroken, LevelMissing
from bollard.confine.folder import Folder
from bollard.confine.launcher import Program, ProgramResult, run_confined
from bollard.confine.limits import FOLDER_BYTES, FOLDER_FILES, PRINTED_BYTES
from bollard.confine.order import Demand, readable_above
from bollard.confine.probe import Confinement, Findings, choose_confinement, machine_findings
from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.sources import Adapter, CallOrder, CallResult
from bollard.host.clock import Clock
from bollard.host.errors import NotFound, OutcomeUnknown, SandboxUnavailable, ToolFailed, caused_by
from bollard.host.limits import MIB, PROGRAM_DISK_FREE_BYTES, PROGRAM_OUTPUT_BYTES, PROGRAMS_AT_ONCE
from bollard.host.reason import Why, why
from bollard.host.telemetry.counts import RunCounts
from bollard.host.tools.calculator import CalculationRefused, calculate
from bollard.host.tools.definitions import DEFINITIONS
from bollard.host.tools.files import FileTools, RunFolders, Workspaces, check_room
from bollard.host.tools.outside import ArtifactTools, DocumentTool, FetchTool, QuestionTool
from bollard.host.tools.ports import (
    DocumentReader,
    Fetcher,
    Questions,
    Schedules,
    ToolArtifacts,
    number,
    problem,
    string,
    string_or,
    text,
)
from bollard.host.tools.schedules import ScheduleTools
from bollard.protocol import JsonObject

_DEFAULT_S: Final = 60
_SPARE_S: Final = 2.0
"""Time between the program's deadline and the call's, to return the output."""
_LEAST_S: Final = 0.5
_FULL: Final = "room"


class ProgramTools:
    """Runs a limited number of programs at once. Further ones wait in order."""

    def __init__(
        self,
        workspaces: Workspaces,
        confinement: Callable[[], Confinement],
        *,
        at_once: int = PROGRAMS_AT_ONCE,
        counts: RunCounts | None = None,
    ) -> None:
        self._counts = counts or RunCounts()
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
        self._counts.programs_running += 1
        ended = "refused"
        try:
            program = _program(order, folders, deadline - loop.time())
            result = await run_confined(program, confinement, watch=lambda: _check_space(folders))
            ended = result.stopped or ("completed" if result.code == 0 else "failed")
        except asyncio.CancelledError:
            ended = "cancelled"
            raise
        finally:
            self._counts.programs_running -= 1
            self._counts.end_program(ended)
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


_Tool = Callable[[CallOrder], Awaitable[CallResult]]
_NOT_PROBED: Final = Confinement(
    demand="any", level=None, problem="the confinement of this machine has not been probed yet", missing="not_probed"
)
_NO_ARTIFACTS: Final = why("this host stores no artifacts for tools", "tool.no_artifacts")
_NO_SCHEDULES: Final = why("this host has no schedules", "tool.no_schedules")


class BuiltinTools:
    """The built-in tools, the same for every workspace. A tool that the host cannot provide is absent."""

    def __init__(
        self,
        *,
        clock: Clock,
        workspaces: Workspaces,
        fetcher: Fetcher | None = None,
        artifacts: ToolArtifacts | None = None,
        documents: DocumentReader | None = None,
        questions: Questions | None = None,
        schedules: Schedules | None = None,
        confinement: Confinement = _NOT_PROBED,
        counts: RunCounts | None = None,
    ) -> None:
        self.revision = 0
        self._clock = clock
        self._confinement = confinement
        self._workspaces = workspaces
        self._files = files = FileTools(workspaces)
        programs = ProgramTools(workspaces, lambda: self._confinement, counts=counts)
        self._tools: dict[str, _Tool] = {
            "now": self._now,
            "calculate": self._calculate,
            "read": files.read,
            "write": files.write,
            "edit": files.edit,
            "glob": files.glob,
            "grep": files.grep,
            "exec": programs.exec,
        }
        self._missing = {
            "artifact_read": _NO_ARTIFACTS,
            "artifact_write": _NO_ARTIFACTS,
            "read_document": why("this host reads no documents for tools", "tool.no_documents"),
            "http_fetch": why("this host has no egress", "tool.no_egress"),
            "ask_user": why("this host cannot ask questions", "tool.no_questions"),
            "schedule_preview": _NO_SCHEDULES,
            "schedule_create": _NO_SCHEDULES,
        }
        if fetcher is not None:
            self._add("http_fetch", FetchTool(fetcher, files, workspaces).fetch)
        if artifacts is not None:
            tools = ArtifactTools(artifacts, files, workspaces)
            self._add("artifact_read", tools.read)
            self._add("artifact_write", tools.write)
        if artifacts is not None and documents is not None:
            self._add("read_document", DocumentTool(artifacts, documents).read)
        if questions is not None:
            self._add("ask_user", QuestionTool(questions).ask)
        if schedules is not None:
            planning = ScheduleTools(schedules)
            self._add("schedule_preview", planning.preview)
            self._add("schedule_create", planning.create)

    def sweep(self, is_live: Callable[[str], bool]) -> None:
        """Remove the folders of runs that ended long ago. Blocks."""
        self._workspaces.sweep(is_live)

    @property
    def confinement(self) -> Confinement:
        return self._confinement

    @property
    def adapter(self) -> Adapter:
        return self

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        del workspace
        absent = self.absent("")
        return [each for each in DEFINITIONS.values() if each.id not in absent]

    def absent(self, workspace: str) -> Mapping[str, Why]:
        del workspace
        absent = {DEFINITIONS[name].id: reason for name, reason in self._missing.items()}
        if self._confinement.level is None:
            sentence = f"{self._confinement.problem}; {self._confinement.hint}".removesuffix("; ")
            absent[DEFINITIONS["exec"].id] = why(sentence, f"sandbox.{self._confinement.missing}")
        return absent

    async def invoke(self, order: CallOrder) -> CallResult:
        tool = self._tools.get(order.capability.name)
        if tool is None:
            name = order.capability.name
            raise NotFound(
                f"there is no built-in tool {name}",
                reason="no_builtin_tool",
                hint="call a tool that the run was granted",
                tool=name,
            )
        try:
            return await tool(order)
        except LevelMissing as error:
            raise SandboxUnavailable(
                error.message,
                reason="confinement_unavailable",
                hint=error.hint,
                **caused_by(error),
                problem_type=f"sandbox.{error.missing}",
            ) from None
        except JailBroken as error:
            raise ToolFailed(error.message, reason="jail_failed", hint=error.hint, **caused_by(error)) from None
        except ConfineError as error:
            return problem(error.message, error.hint)
        except OSError as error:
            if order.capability.name == "exec":  # it may have run
                raise OutcomeUnknown(
                    f"the program was lost: {error.strerror}",
                    reason="program_lost",
                    hint="check its files",
                    **caused_by(error),
                ) from error
            raise ToolFailed(
                f"the files of the run cannot be accessed: {error.strerror}",
                reason="run_files_inaccessible",
                hint="check the disk",
                **caused_by(error),
            ) from error

    def _add(self, name: str, tool: _Tool) -> None:
        self._tools[name] = tool
        self._missing.pop(name, None)

    async def _now(self, order: CallOrder) -> CallResult:
        name = string_or(order.arguments, "timezone", "UTC")
        try:
            zone = UTC if name == "UTC" else ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return problem(f"there is no time zone {name[:64]!r}", "use an IANA name such as Asia/Shanghai, or UTC")
        moment = datetime.fromtimestamp(self._clock.now_ms() / 1000, zone)
        time = moment.isoformat(timespec="seconds")
        return text(
            f"{time} ({moment:%A}, {name})",
            {"time": time, "timezone": name, "weekday": f"{moment:%A}", "epoch_ms": self._clock.now_ms()},
        )

    async def _calculate(self, order: CallOrder) -> CallResult:
        try:
            value = calculate(string(order.arguments, "expression"))
        except CalculationRefused as error:
            return problem(str(error))
        return text(value, {"value": value})


def probe_sandbox(demand: Demand, root: Path) -> Confinement:
    """Choose the confinement of programs that work below `root` on this machine. Blocks."""
    findings = Findings() if demand == "off" else machine_findings()
    confinement = choose_confinement(demand, findings)
    folder = readable_above(str(root))
    if folder is not None and confinement.level is not None:
        problem = f"the data directory is in {folder}, which programs can read"
        hint = "move the data directory elsewhere"
        confinement = replace(confinement, level=None, problem=problem, hint=hint, missing="data_readable")
    return confinement
