"""The abilities of this machine, probed once for each process of tests."""

import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.replacement import replace

from bollard.confine.errors import LevelMissing
from bollard.confine.launcher import Program, ProgramResult, run_confined
from bollard.confine.limits import PROCESSES
from bollard.confine.order import JailLimits
from bollard.confine.probe import Confinement, Findings, choose_confinement, probe

PYTHON = str(Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}"))
LONG_S = 60.0
"""Nothing here takes that long, also on a busy machine."""

RunIn = Callable[..., Awaitable[ProgramResult]]


@pytest.fixture(scope="session")
def findings() -> Findings:
    return probe()


@pytest.fixture(params=["with namespaces", "without namespaces", *(["bubblewrap"] if shutil.which("bwrap") else [])])
def confinement(request: pytest.FixtureRequest, findings: Findings) -> Confinement:
    """Both forms of Landlock and seccomp, and bubblewrap if installed. If the machine lacks a form of the first, the
    test checks its refusal instead."""
    if request.param == "bubblewrap":
        return choose_confinement("bubblewrap", findings)
    wants = request.param == "with namespaces"
    found = choose_confinement("landlock+seccomp", replace(findings, namespaces=wants and findings.namespaces))
    if found.level is None:
        with pytest.raises(LevelMissing):
            found.demanded()
        pytest.skip(f"this machine has no jail {request.param}, and refuses: {found.problem}")
    if found.namespaces != wants:
        pytest.skip(f"this machine has no namespaces for programs: {findings}; the form without them is tested")
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "inside"
    made.mkdir()
    return made


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Files of the same user outside the folder of the program."""
    made = tmp_path / "outside"
    made.mkdir()
    (made / "secret.txt").write_text("canary")
    return made


@pytest.fixture
def run(confinement: Confinement, folder: Path) -> RunIn:
    async def run(
        *argv: str, timeout_s: float = LONG_S, output_bytes: int = 64 * 1024, processes: int = PROCESSES, **more: object
    ) -> ProgramResult:
        memory = more.pop("memory_bytes", None)
        limits = JailLimits(processes=processes)
        if isinstance(memory, int):
            limits = limits._replace(memory_bytes=memory)
        program = Program(
            argv=argv,
            cwd=folder,
            writable=(folder,),
            environment={"PATH": os.defpath},
            timeout_s=timeout_s,
            output_bytes=output_bytes,
            limits=limits,
            stdin=str(more.pop("stdin", "")).encode(),
        )
        return await run_confined(program, confinement, **more)  # pyright: ignore[reportArgumentType]

    return run


@pytest.fixture
def python(run: RunIn) -> RunIn:
    """Runs a piece of Python in the jail."""

    async def python(code: str, **more: object) -> ProgramResult:
        return await run(PYTHON, "-I", "-S", "-c", code, **more)

    return python
