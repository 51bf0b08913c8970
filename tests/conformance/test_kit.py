"""The kit passes good workers in two languages and really fails bad ones."""

import os
import sys
from pathlib import Path

import psutil
import pytest
from tests.tables import for_each

from bollard.conformance import CASES, CaseResult, KitReport, NothingSelected, WorkerDidNotStart, run_kit

HERE = Path(__file__).parent


async def _run(command: list[str], select: str | None = None) -> KitReport:
    reported: list[CaseResult] = []
    report = await run_kit(command, select=select, report=reported.append)
    assert sorted(case.name for case in reported) == sorted(case.name for case in report.cases)
    return report


def _sentences(report: KitReport) -> str:
    return "\n".join(f"{case.name}: {case.detail}" for case in report.failures)


async def test_the_python_worker_passes_every_case(python_worker: list[str]) -> None:
    report = await _run(python_worker)
    assert report.passed, _sentences(report)
    assert len(report.cases) == len(CASES)
    assert report.worker.endswith("(python)")


@pytest.mark.full
async def test_the_javascript_worker_passes_every_case(node_worker: list[str]) -> None:
    report = await _run(node_worker)
    assert report.passed, _sentences(report)
    assert len(report.cases) == len(CASES)
    assert report.worker.endswith("(javascript)")


@for_each(
    ("mutant", "case"),
    [
        ("ignores_credit", "credit_by_count"),
        ("ignores_bytes", "credit_by_bytes"),
        ("forgets_terminal", "end_completes"),
        ("doubles_terminal", "finish_is_the_only_terminal"),
        ("repeats_numbers", "results_numbered"),
        ("adds_a_field", "results_numbered"),
        ("answers_dead_ids", "ended_id_refused"),
        ("prints_on_the_channel", "print_is_not_the_channel"),
        ("ignores_cancel", "cancel_gives_the_reason"),
        ("forgets_the_reason", "cancel_gives_the_reason"),
        ("never_abandons", "cancel_grace"),
        ("outlives_its_channel", "channel_loss_ends_worker"),
        ("initializes_again", "initialize_once"),
        ("speaks_any_version", "wrong_version_refused"),
        ("takes_duplicate_keys", "frame_duplicate_key"),
        ("dies_of_a_bad_frame", "frame_not_json"),
        ("credits_ahead", "stream_credit"),
        ("keeps_given_up_calls", "call_given_up"),
        ("mixes_up_answers", "calls_parallel"),
        ("floods_logs", "log_flood"),
        ("pings_after_runs", "ping_while_busy"),
        ("hides_tool_failures", "tool_raises"),
        ("forgets_the_run_of_a_call", "tool_cancel_spares_other_runs"),
        ("wrong_runner_id", "lists_runners"),
    ],
)
@pytest.mark.full
async def test_a_worker_with_a_fault_fails_the_case_that_owns_it(node: str, mutant: str, case: str) -> None:
    report = await _run([node, str(HERE / "mutant.mjs"), mutant], select=case)
    verdict = next(result for result in report.cases if result.name == case)
    assert not verdict.passed
    assert verdict.detail.startswith("expected ")


async def test_the_mutant_without_a_fault_passes(node: str) -> None:
    report = await _run([node, str(HERE / "mutant.mjs"), "faultless"], select="results_numbered")
    assert report.passed, _sentences(report)


async def test_a_selection_by_requirement_runs_its_cases_only(node_worker: list[str]) -> None:
    report = await _run(node_worker, select="P11-14")
    assert [case.name for case in report.cases] == ["terminal_needs_no_credit"]


async def test_a_selection_without_a_match_is_an_error(node_worker: list[str]) -> None:
    with pytest.raises(NothingSelected):
        await _run(node_worker, select="no such case")


async def test_a_command_that_does_not_exist_is_one_clear_error() -> None:
    with pytest.raises(WorkerDidNotStart, match="no-such-program did not start a worker"):
        await _run(["no-such-program"])


async def test_a_command_other_than_a_worker_is_one_clear_error_with_its_output() -> None:
    with pytest.raises(WorkerDidNotStart, match="not today"):
        await _run([sys.executable, "-c", "import sys; sys.exit('not today')"])


async def test_the_kit_leaves_no_process(node: str) -> None:
    me = psutil.Process(os.getpid())
    before = {child.pid for child in me.children(recursive=True)}
    await _run([node, str(HERE / "mutant.mjs"), "outlives_its_channel"], select="channel_loss_ends_worker")
    assert {child.pid for child in me.children(recursive=True)} == before
