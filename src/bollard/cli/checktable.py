"""The report of `bollard plugin check` as a person reads it."""

from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text as Styled

from bollard.cli.columns import printable
from bollard.cli.findings import CheckReport
from bollard.cli.language import Text

__all__ = ["print_report"]

_STYLES: Final = {"error": "red", "warning": "yellow"}
_WIDE_COLUMNS: Final = 110
"""From this width on each field has a column of its own."""


def print_report(console: Console, report: CheckReport, text: Text, *, strict: bool) -> None:
    """Findings, what is usable, and one line that says how it stands."""
    if report.findings:
        console.print(_findings(report, text, console.width))
        console.print()
    for offer in report.usable:
        console.print(text(f"check.{offer.kind}", name=offer.name, label=printable(offer.label)), style="dim")
    if not report.usable:
        console.print(text("check.nothing"), style="dim")
    passed = report.passed(strict=strict)
    verdict = text(
        "check.passed" if passed else "check.failed",
        plugin=report.plugin or report.path,
        errors=report.errors,
        warnings=report.warnings,
    )
    console.print(verdict, style="green" if passed else "red")


def _findings(report: CheckReport, text: Text, columns: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    rule, where, field, problem, hint = (
        text(f"check.{name}") for name in ("rule", "where", "field", "problem", "hint")
    )
    narrow = columns < _WIDE_COLUMNS
    headings = (rule, f"{where} / {field}", f"{problem} / {hint}") if narrow else (rule, where, field, problem, hint)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for finding in report.findings:
        cells = [printable(cell) for cell in (finding.where, finding.field, finding.problem, finding.hint)]
        name = Styled(finding.rule, _STYLES[finding.severity])
        if (
            narrow
        ):  # five columns of slivers cannot be read: the field stands below the place, the hint below the problem
            table.add_row(name, _stacked(cells[0], cells[1]), _stacked(cells[2], cells[3]))
        else:
            table.add_row(name, *(Styled(cell) for cell in cells))
    return table


def _stacked(upper: str, lower: str) -> Styled:
    return Styled.assemble(upper, "\n", (lower, "dim"))
