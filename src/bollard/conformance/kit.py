"""Runs the cases of `cases/` against a command and reports the results."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from bollard.conformance.cases import calls, cancellation, frames, lifecycle, logs, results, runs
from bollard.conformance.errors import CaseFailed, NothingSelected, WorkerDidNotStart
from bollard.conformance.limits import CASE_S, CONCURRENT_WORKERS
from bollard.conformance.registry import Case, Launcher
from bollard.conformance.session import Session, open_session
from bollard.protocol import JsonObject


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult:
    """The result of one case."""

    name: str
    sentence: str
    """The requirement in words."""
    requirements: tuple[str, ...]
    passed: bool
    detail: str
    """Empty if the case passed; otherwise the expectation and what happened."""
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class KitReport:
    """The results of all cases, in the kit's order."""

    worker: str
    """The name of the worker, from its introduction."""
    cases: tuple[CaseResult, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        return all(case.passed for case in self.cases)

    @property
    def failures(self) -> tuple[CaseResult, ...]:
        return tuple(case for case in self.cases if not case.passed)


CASES: Final[tuple[Case, ...]] = tuple(
    case for module in (lifecycle, runs, results, cancellation, calls, logs, frames) for case in module.CASES.all
)

Report = Callable[[CaseResult], None]


async def run_kit(command: Sequence[str], *, select: str | None = None, report: Report) -> KitReport:
    """Test the worker that `command` starts. `select` limits the cases to those with it in their name or requirements.

    Raises `WorkerDidNotStart`, or `NothingSelected` if no case matches.
    """
    chosen = [case for case in CASES if select is None or select in case.name or select in case.requirements]
    if not chosen:
        raise NothingSelected(select or "")
    began = time.monotonic()
    async with open_session(command) as probe:
        introduction = probe.introduction
    done: dict[str, CaseResult] = {}

    def finished(result: CaseResult) -> None:
        done[result.name] = result
        report(result)

    gate = asyncio.Semaphore(CONCURRENT_WORKERS)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_run_shared([case for case in chosen if case.shared], command, finished))
        for case in chosen:
            if not case.shared:
                tasks.create_task(_run_own(case, command, gate, finished))
    return KitReport(
        worker=_describe_worker(introduction),
        cases=tuple(done[case.name] for case in chosen),
        seconds=time.monotonic() - began,
    )


def _describe_worker(introduction: JsonObject) -> str:
    worker = introduction.get("worker")
    if not isinstance(worker, dict):
        return "a worker that does not say who it is"
    return f"{worker.get('name')} {worker.get('version')} ({worker.get('language')})"


async def _run_own(case: Case, command: Sequence[str], gate: asyncio.Semaphore, finished: Report) -> None:
    @asynccontextmanager
    async def launch(**settings: Any) -> AsyncGenerator[Session]:
        async with open_session(command, **settings) as session:
            yield session
            session.raise_violations()

    async with gate:
        finished(await _run_case(case, launch))


async def _run_shared(cases: Sequence[Case], command: Sequence[str], finished: Report) -> None:
    """Run cases one after the other on one worker. A failed case gets the next one a new worker."""
    async with AsyncExitStack() as stack:
        shared: Session | None = None

        @asynccontextmanager
        async def launch(**settings: Any) -> AsyncGenerator[Session]:
            del settings  # a shared worker has fixed settings
            nonlocal shared
            if shared is None or shared.closed is not None:
                shared = await stack.enter_async_context(open_session(command))
            yield shared
            await shared.ping()
            shared.raise_violations()

        for case in cases:
            result = await _run_case(case, launch)
            if not result.passed and shared is not None:
                await shared.process.kill()
                shared = None
            finished(result)


async def _run_case(case: Case, launch: Launcher) -> CaseResult:
    began = time.monotonic()
    detail = ""
    try:
        async with asyncio.timeout(CASE_S):
            await case.body(launch)
    except (CaseFailed, WorkerDidNotStart) as error:
        detail = str(error)
    except TimeoutError:
        detail = f"expected the case to end within {CASE_S:g} s; it did not"
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # A frame of the worker does not have the shape that the case reads.
        detail = f"expected answers of the shape that the case needs; {type(error).__name__}: {error}"
    return CaseResult(
        name=case.name,
        sentence=case.sentence,
        requirements=case.requirements,
        passed=not detail,
        detail=detail,
        seconds=time.monotonic() - began,
    )
