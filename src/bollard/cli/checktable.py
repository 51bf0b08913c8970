"""The report of `bollard plugin check` as a person reads it."""

from rich.console import Console
from rich.table import Table
from rich.text import Text as Styled

from bollard.cli.columns import printable
from bollard.cli.findings import CheckReport
from bollard.cli.language import Text

__all__ = ["print_report"]

_STYLES = {"error": "red", "warning": "yellow"}


def print_report(console: Console, report: CheckReport, text: Text, *, strict: bool) -> None:
    """Findings, what is usable, and one line that says how it stands."""
    if report.findings:
        console.print(_findings(report, text))
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


def _findings(report: CheckReport, text: Text) -> Table:
    # Rule and place stay whole; the sentences share what is left of the line.
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column(text("check.rule"), no_wrap=True)
    table.add_column(text("check.where"), overflow="fold", ratio=2)
    table.add_column(text("check.field"), overflow="fold", ratio=2)
    table.add_column(text("check.problem"), overflow="fold", ratio=4)
    table.add_column(text("check.hint"), overflow="fold", ratio=4)
    for finding in report.findings:
        cells = (finding.where, finding.field, finding.problem, finding.hint)
        rule = Styled(finding.rule, _STYLES[finding.severity])
        table.add_row(rule, *(Styled(printable(cell)) for cell in cells))
    return table
