"""The capability source `builtin` and its adapter."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from bollard.confine.errors import ConfineError, JailBroken, LevelMissing
from bollard.confine.order import Demand, readable_above
from bollard.confine.probe import Confinement, Findings, choose_confinement, machine_findings
from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.sources import Adapter, CallOrder, CallResult
from bollard.host.clock import Clock
from bollard.host.errors import NotFound, OutcomeUnknown, SandboxUnavailable, ToolFailed
from bollard.host.tools.calculator import CalculationRefused, calculate
from bollard.host.tools.definitions import DEFINITIONS
from bollard.host.tools.files import FileTools
from bollard.host.tools.outside import ArtifactTools, FetchTool, QuestionTool
from bollard.host.tools.ports import Fetcher, Questions, ToolArtifacts, problem, string, string_or, text
from bollard.host.tools.programs import ProgramTools
from bollard.host.tools.workspaces import Workspaces

_Tool = Callable[[CallOrder], Awaitable[CallResult]]
_NOT_PROBED: Final = Confinement(
    demand="any", level=None, problem="the confinement of this machine has not been probed yet"
)
_NO_ARTIFACTS: Final = "this host stores no artifacts for tools"


class BuiltinTools:
    """The built-in tools, the same for every workspace. A tool that the host cannot provide is absent."""

    def __init__(
        self,
        *,
        clock: Clock,
        workspaces: Workspaces,
        fetcher: Fetcher | None = None,
        artifacts: ToolArtifacts | None = None,
        questions: Questions | None = None,
        confinement: Confinement = _NOT_PROBED,
    ) -> None:
        self._clock = clock
        self._confinement = confinement
        self._workspaces = workspaces
        self._files = files = FileTools(workspaces)
        programs = ProgramTools(workspaces, lambda: self._confinement)
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
            "http_fetch": "this host has no egress",
            "ask_user": "this host cannot ask questions",
        }
        if fetcher is not None:
            self._add("http_fetch", FetchTool(fetcher, files, workspaces).fetch)
        if artifacts is not None:
            tools = ArtifactTools(artifacts, files, workspaces)
            self._add("artifact_read", tools.read)
            self._add("artifact_write", tools.write)
        if questions is not None:
            self._add("ask_user", QuestionTool(questions).ask)

    def sweep(self, is_live: Callable[[str], bool]) -> None:
        """Remove the folders of runs that ended long ago. Blocks."""
        self._workspaces.sweep(is_live)

    @property
    def confinement(self) -> Confinement:
        return self._confinement

    @property
    def adapter(self) -> Adapter:
        return self

    @property
    def revision(self) -> int:
        return 0

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        del workspace
        absent = self.absent("")
        return [each for each in DEFINITIONS.values() if each.id not in absent]

    def absent(self, workspace: str) -> Mapping[str, str]:
        del workspace
        absent = {DEFINITIONS[name].id: why for name, why in self._missing.items()}
        if self._confinement.level is None:
            absent[DEFINITIONS["exec"].id] = f"{self._confinement.problem}; {self._confinement.hint}".removesuffix("; ")
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
                error.message, reason="confinement_unavailable", hint=error.hint, problem=error.message
            ) from None
        except JailBroken as error:
            raise ToolFailed(error.message, reason="jail_failed", hint=error.hint, problem=error.message) from None
        except ConfineError as error:
            return problem(error.message, error.hint)
        except OSError as error:
            if order.capability.name == "exec":  # it may have run
                raise OutcomeUnknown(
                    f"the program was lost: {error.strerror}",
                    reason="program_lost",
                    hint="check its files",
                    problem=error.strerror,
                ) from error
            raise ToolFailed(
                f"the files of the run cannot be accessed: {error.strerror}",
                reason="run_files_inaccessible",
                hint="check the disk",
                problem=error.strerror,
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
        confinement = replace(confinement, level=None, problem=problem, hint="move the data directory elsewhere")
    return confinement
