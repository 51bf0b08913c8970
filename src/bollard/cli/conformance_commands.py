"""`bollard conformance -- CMD…`: runs the worker kit and shows what it found. The kit is `bollard.conformance`."""

import dataclasses
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from bollard.cli.app import Command
from bollard.cli.columns import printable
from bollard.cli.errors import UsageProblem, WorkerProblem
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Callable

    from bollard.conformance import CaseResult, KitReport

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command("conformance", cls=Command, help="conformance")
def conformance(
    ctx: typer.Context,
    command: Annotated[list[str], typer.Argument(metavar="CMD", help="conformance.command")],
    select: Annotated[str | None, typer.Option("--select", metavar="TEXT", help="conformance.select")] = None,
) -> int:
    import asyncio

    from bollard.conformance import NothingSelected, WorkerDidNotStart, run_kit

    shell: Shell = ctx.obj
    with ExitStack() as stack:
        report = _progress(shell, stack, everything=select is None)
        try:
            result = asyncio.run(run_kit(command, select=select, report=report))
        except NothingSelected as error:
            raise UsageProblem("error.no_case", "hint.no_case", select=error.select) from error
        except WorkerDidNotStart as error:
            detail = printable(error.problem if not error.output else f"{error.problem}: {error.output}")
            raise WorkerProblem(
                "error.kit_worker", "hint.kit_worker", command=error.command, detail=detail.replace("\n", " ")
            ) from error
    if shell.for_programs:
        cases = [dataclasses.asdict(case) for case in result.cases]
        shell.print_json({"worker": result.worker, "passed": result.passed, "seconds": result.seconds, "cases": cases})
    else:
        _print_table(shell, result)
    return 0 if result.passed else 1


def _progress(shell: Shell, stack: ExitStack, *, everything: bool) -> "Callable[[CaseResult], None]":
    """A bar on stderr while the kit runs, where somebody sees it."""
    from bollard.conformance import CASES

    console = shell.console(stderr=True)
    if not console.is_terminal:
        return lambda _: None
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    progress = stack.enter_context(Progress(*columns, console=console, transient=True))
    task = progress.add_task(shell.text("kit.running"), total=len(CASES) if everything else None)

    def report(_: "CaseResult") -> None:
        progress.advance(task)

    return report


def _print_table(shell: Shell, report: "KitReport") -> None:
    from rich.table import Table
    from rich.text import Text as Styled

    text = shell.text
    console = shell.console()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(text("kit.case"), overflow="fold", ratio=3)
    table.add_column(text("kit.requirements"), overflow="fold", ratio=2)
    table.add_column(text("kit.verdict"), no_wrap=True)
    table.add_column(text("kit.seconds"), justify="right", no_wrap=True)
    if report.failures:
        table.add_column(text("kit.detail"), overflow="fold", ratio=4)
    for case in report.cases:
        verdict = Styled(text("kit.pass"), "green") if case.passed else Styled(text("kit.fail"), "red")
        row = [Styled(case.name), Styled(" ".join(case.requirements), "dim"), verdict, Styled(f"{case.seconds:.2f}")]
        table.add_row(*row, *([Styled(printable(case.detail))] if report.failures else []))
    console.print(table)
    console.print()
    key = "kit.passed" if report.passed else "kit.failed"
    fields = {
        "worker": printable(report.worker),
        "count": len(report.cases),
        "failures": len(report.failures),
        "seconds": f"{report.seconds:.1f}",
    }
    console.print(text(key, **fields), style="green" if report.passed else "red")
