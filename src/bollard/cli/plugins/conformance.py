"""`bollard conformance -- CMD…`: runs the conformance kit (`bollard.conformance`) and shows the results."""

import dataclasses
import itertools
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from bollard.cli.command import single_command
from bollard.cli.errors import UsageProblem, WorkerProblem
from bollard.cli.shell import Shell
from bollard.cli.terminal.columns import printable
from bollard.cli.terminal.progress_bar import progress_bar

if TYPE_CHECKING:
    from bollard.conformance import KitReport


@single_command("conformance")
def conformance(
    shell: Shell,
    command: Annotated[list[str], typer.Argument(metavar="CMD", help="conformance.command")],
    select: Annotated[str | None, typer.Option("--select", metavar="TEXT", help="conformance.select")] = None,
) -> int:
    import asyncio

    from bollard.conformance import CASES, NothingSelected, WorkerDidNotStart, run_kit

    with ExitStack() as stack:
        update = progress_bar(shell, stack, "kit.running", len(CASES) if select is None else None)
        done = itertools.count(1)
        try:
            result = asyncio.run(run_kit(command, select=select, report=lambda _: update(next(done))))
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
