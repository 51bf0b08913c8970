"""`bollard doctor`: finds and explains what is likely wrong, with a host running or without one. Changes nothing."""

import os
from typing import TYPE_CHECKING, Annotated

import typer

from bollard.cli.app import Command
from bollard.cli.columns import printable
from bollard.cli.shell import Shell
from bollard.cli.store_options import DatabaseOption, DataOption, store_problems

if TYPE_CHECKING:
    from bollard.cli.doctor_checks import Finding

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)
_STYLES = {"error": "red", "warning": "yellow", "note": "dim"}


@app.command("doctor", cls=Command, help="doctor")
def doctor(
    ctx: typer.Context,
    data: DataOption = None,
    port: Annotated[int | None, typer.Option("--port", metavar="N", help="up.option.port")] = None,
    database: DatabaseOption = None,
    token: Annotated[str | None, typer.Option("--token", metavar="TOKEN", help="option.token")] = None,
) -> int:
    shell: Shell = ctx.obj
    with store_problems():
        from bollard.cli.doctor_checks import examine
        from bollard.cli.doctor_probing import probe

        facts = probe(os.environ, _asked(data, port, database), token)
    findings = examine(facts)
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = sum(finding.severity == "warning" for finding in findings)
    if shell.for_programs:
        told = [_told(shell, finding) for finding in findings]
        running = None if facts.host is None else facts.host.address
        shell.print_json(
            {"healthy": not errors, "errors": errors, "warnings": warnings, "host": running, "findings": told}
        )
        return 1 if errors else 0
    console = shell.console()
    for finding in findings:
        sentences, word = _told(shell, finding), shell.text(f"doctor.{finding.severity}")
        console.print(printable(f"{word}: {sentences['what']}"), style=_STYLES[finding.severity])
        console.print(printable(f"  {sentences['why']}"))
        console.print(printable(f"  {shell.text('hint', hint=sentences['fix'])}"))
    verdict = shell.text("doctor.sick" if errors else "doctor.well", errors=errors, warnings=warnings)
    console.print(verdict, style="red" if errors else "green")
    return 1 if errors else 0


def _asked(data: str | None, port: int | None, database: str | None) -> dict[str, object]:
    return {"data": data, "port": port, "database": database}


def _told(shell: Shell, finding: "Finding") -> dict[str, object]:
    key = f"doctor.{finding.check}"
    words = {True: shell.text("rights.yes"), False: shell.text("rights.no")}
    shown = {name: words[value] if isinstance(value, bool) else value for name, value in finding.fields.items()}
    what, why, fix = (shell.text(f"{key}{part}", **shown) for part in ("", ".why", ".fix"))
    told = {"check": finding.check, "severity": finding.severity, "what": what, "why": why, "fix": fix}
    return {**told, "fields": finding.fields}
