"""Runs the cases against a command and reports. What the cases are is in the `cases_*` modules."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from bollard.conformance import (
    cases_calls,
    cases_cancel,
    cases_credit,
    cases_frames,
    cases_isolation,
    cases_lifecycle,
    cases_logs,
    cases_results,
    cases_runs,
    cases_streams,
    cases_tools,
)
from bollard.conformance.errors import CaseFailed, NothingSelected, WorkerDidNotStart
from bollard.conformance.launch import open_session
from bollard.conformance.limits import CASE_S, WORKERS_AT_ONCE
from bollard.conformance.registry import Case, Launcher
from bollard.conformance.report import CaseResult, KitReport
from bollard.conformance.session import Session
from bollard.protocol import ChannelLimits, JsonObject

__all__ = ["CASES", "run_kit"]

CASES: Final[tuple[Case, ...]] = tuple(
    case
    for module in (
        cases_lifecycle,
        cases_runs,
        cases_results,
        cases_credit,
        cases_cancel,
        cases_calls,
        cases_streams,
        cases_tools,
        cases_logs,
        cases_isolation,
        cases_frames,
    )
    for case in module.CASES.all
)

Report = Callable[[CaseResult], None]


async def run_kit(command: Sequence[str], *, select: str | None = None, report: Report) -> KitReport:
    """Judge the worker that `command` starts. `select` keeps the cases with it in their name or requirement ids.

    Raises `WorkerDidNotStart` when there is nothing to judge, `NothingSelected` when no case fits.
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

    gate = asyncio.Semaphore(WORKERS_AT_ONCE)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_run_shared([case for case in chosen if case.shared], command, finished))
        for case in chosen:
            if not case.shared:
                tasks.create_task(_run_own(case, command, gate, finished))
    return KitReport(
        worker=_named(introduction),
        cases=tuple(done[case.name] for case in chosen),
        seconds=time.monotonic() - began,
    )


def _named(introduction: JsonObject) -> str:
    worker = introduction.get("worker")
    if not isinstance(worker, dict):
        return "a worker that does not say who it is"
    return f"{worker.get('name')} {worker.get('version')} ({worker.get('language')})"


async def _run_own(case: Case, command: Sequence[str], gate: asyncio.Semaphore, finished: Report) -> None:
    @asynccontextmanager
    async def launch(
        *,
        limits: ChannelLimits | None = None,
        initialize: bool = True,
        inherited: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[Session]:
        async with open_session(command, limits=limits, initialize=initialize, inherited=inherited) as session:
            yield session
            session.raise_violations()

    async with gate:
        finished(await _judged(case, launch))


async def _run_shared(cases: Sequence[Case], command: Sequence[str], finished: Report) -> None:
    """One after the other on one worker; a new one is started when a case has ruined it."""
    async with AsyncExitStack() as stack:
        shared: Session | None = None

        @asynccontextmanager
        async def launch(
            *,
            limits: ChannelLimits | None = None,
            initialize: bool = True,
            inherited: Mapping[str, str] | None = None,
        ) -> AsyncGenerator[Session]:
            del limits, initialize, inherited  # a shared worker is as it is
            nonlocal shared
            if shared is None or shared.closed is not None:
                shared = await stack.enter_async_context(open_session(command))
            yield shared
            await shared.ping()
            shared.raise_violations()

        for case in cases:
            result = await _judged(case, launch)
            if not result.passed and shared is not None:
                await shared.process.kill()
                shared = None
            finished(result)


async def _judged(case: Case, launch: Launcher) -> CaseResult:
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
        # The worker's frames are not what the case read them for.
        detail = f"expected answers of the shape that the case needs; {type(error).__name__}: {error}"
    return CaseResult(
        name=case.name,
        sentence=case.sentence,
        requirements=case.requirements,
        passed=not detail,
        detail=detail,
        seconds=time.monotonic() - began,
    )
