"""The source `builtin`: which of its tools this host can offer, and the adapter that carries out their calls."""

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
from bollard.host.tools.ports import Fetcher, Questions, ToolArtifacts, problem, text, words, words_or
from bollard.host.tools.programs import ProgramTools
from bollard.host.tools.workspaces import Workspaces

_Tool = Callable[[CallOrder], Awaitable[CallResult]]
_NOT_PROBED: Final = Confinement(
    demand="any", level=None, problem="this host has not looked yet how it can confine programs"
)
_NO_ARTIFACTS: Final = "this host keeps no artifacts for tools"


class BuiltinTools:
    """Offers the same to every workspace. What a part is missing for is absent, with the reason."""

    def __init__(
        self,
        *,
        clock: Clock,
        workspaces: Workspaces,
        fetcher: Fetcher | None = None,
        artifacts: ToolArtifacts | None = None,
        questions: Questions | None = None,
        walls: Confinement = _NOT_PROBED,
    ) -> None:
        self._clock = clock
        self._walls = walls
        self._workspaces = workspaces
        self._files = files = FileTools(workspaces)
        programs = ProgramTools(workspaces, lambda: self._walls)
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
            "http_fetch": "this host has no way out",
            "ask_user": "this host has nobody who carries questions to people",
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
        """Remove the files of runs that have ended long ago. Blocks."""
        self._workspaces.sweep(is_live)

    @property
    def walls(self) -> Confinement:
        return self._walls

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
        found = {DEFINITIONS[name].id: why for name, why in self._missing.items()}
        if self._walls.level is None:
            found[DEFINITIONS["exec"].id] = f"{self._walls.problem}; {self._walls.hint}".removesuffix("; ")
        return found

    async def invoke(self, order: CallOrder) -> CallResult:
        tool = self._tools.get(order.capability.name)
        if tool is None:
            raise NotFound("there is no such built-in tool", hint="look at what the run was granted")
        try:
            return await tool(order)
        except LevelMissing as error:
            raise SandboxUnavailable(error.message, hint=error.hint) from None
        except JailBroken as error:
            raise ToolFailed(error.message, hint=error.hint) from None
        except ConfineError as error:
            return problem(error.message, error.hint)
        except OSError as error:
            if order.capability.name == "exec":  # it may have run
                raise OutcomeUnknown(f"the program was lost: {error.strerror}", hint="look at its files") from error
            raise ToolFailed(
                f"the files of the run cannot be used: {error.strerror}", hint="look at the disk"
            ) from error

    def _add(self, name: str, tool: _Tool) -> None:
        self._tools[name] = tool
        self._missing.pop(name, None)

    async def _now(self, order: CallOrder) -> CallResult:
        name = words_or(order.arguments, "timezone", "UTC")
        try:
            zone = UTC if name == "UTC" else ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return problem(
                f"there is no time zone {name[:64]!r} here", "use an IANA name such as Asia/Shanghai, or UTC"
            )
        moment = datetime.fromtimestamp(self._clock.now_ms() / 1000, zone)
        told = moment.isoformat(timespec="seconds")
        return text(
            f"{told} ({moment:%A}, {name})",
            {"time": told, "timezone": name, "weekday": f"{moment:%A}", "epoch_ms": self._clock.now_ms()},
        )

    async def _calculate(self, order: CallOrder) -> CallResult:
        try:
            value = calculate(words(order.arguments, "expression"))
        except CalculationRefused as error:
            return problem(str(error))
        return text(value, {"value": value})


def probe_walls(demand: Demand, root: Path) -> Confinement:
    """Find out how programs that work below `root` can be confined on this machine. Blocks."""
    findings = Findings() if demand == "off" else machine_findings()
    walls = choose_confinement(demand, findings)
    place = readable_above(str(root))
    if place is not None and walls.level is not None:
        problem = f"the data directory is in {place}, which programs can read"
        walls = replace(walls, level=None, problem=problem, hint="keep the data of the host elsewhere")
    return walls
