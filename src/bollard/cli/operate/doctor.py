"""`bollard doctor`: finds and explains likely problems, with or without a running host. Changes nothing."""

import os
from typing import Annotated, cast

import typer

from bollard.cli.command import TokenOption, single_command
from bollard.cli.operate.doctor_checks import AgentFacts, Finding, examine
from bollard.cli.operate.store_options import DatabaseOption, DataOption
from bollard.cli.shell import Shell
from bollard.cli.terminal.columns import printable
from bollard.host.errors import HostError, caused_by

_STYLES = {"error": "red", "warning": "yellow", "note": "dim"}


@single_command("doctor")
def doctor(
    shell: Shell,
    data: DataOption = None,
    port: Annotated[int | None, typer.Option("--port", metavar="N", help="up.option.port")] = None,
    database: DatabaseOption = None,
    token: TokenOption = None,
) -> int:
    from bollard.cli.operate.doctor_probes import probe

    facts = probe(os.environ, {"data": data, "port": port, "database": database}, token)
    findings = examine(facts)
    errors = sum(finding.severity == "error" for finding in findings)
    warnings = sum(finding.severity == "warning" for finding in findings)
    if shell.for_programs:
        items = [_described(shell, finding) for finding in findings]
        running = None if facts.host is None else facts.host.address
        shell.print_json(
            {"healthy": not errors, "errors": errors, "warnings": warnings, "host": running, "findings": items}
        )
        return 1 if errors else 0
    console = shell.console()
    for finding in findings:
        sentences, word = _described(shell, finding), shell.text(f"doctor.{finding.severity}")
        line = shell.text("doctor.line", severity=word, what=sentences["what"])
        console.print(printable(line), style=_STYLES[finding.severity])
        console.print(printable(f"  {sentences['why']}"))
        console.print(printable(f"  {shell.text('hint', hint=sentences['fix'])}"))
    verdict = shell.text("doctor.sick" if errors else "doctor.well", errors=errors, warnings=warnings)
    console.print(verdict, style="red" if errors else "green")
    return 1 if errors else 0


def _described(shell: Shell, finding: Finding) -> dict[str, object]:
    text, key = shell.text, f"doctor.{finding.check}"
    fields = dict[str, object](finding.fields)
    if isinstance(warning := fields.pop("warning", None), AgentFacts):
        details = {**warning.details, "reason": warning.reason}
        fields["problem"], fields["advice"] = text.host_error("agent_warning", details, warning.message, warning.hint)
    match fields.get("problem"):
        case HostError() as error:
            fields["problem"], fields["advice"] = text.host_error(error.code, error.details, error.message, error.hint)
        case Exception() as error:
            fields["problem"] = text.problem(caused_by(error))
        case dict():
            fields["problem"] = text.problem(cast("dict[str, object]", fields["problem"]))
        case _:
            pass
    if missing := fields.get("missing"):
        kind = f"{'workers' if finding.check.startswith('workers') else 'sandbox'}.{missing}"
        fields["problem"] = text.problem({"problem": fields["problem"], "problem_type": kind})
        fields["advice"] = text.problem({"problem": fields["advice"], "problem_type": f"{kind}.hint"})
    filled = {name: text.yes_or_no(value) if isinstance(value, bool) else value for name, value in fields.items()}
    what, why, fix = (text(f"{key}{part}", **filled) for part in ("", ".why", ".fix"))
    described = {"check": finding.check, "severity": finding.severity, "what": what, "why": why, "fix": fix}
    return {**described, "fields": fields}
