"""What `bollard audit` shows and finds, for people and for programs."""

from typing import TYPE_CHECKING, Any, cast

from msgspec import to_builtins

from bollard.cli.columns import printable, shorten
from bollard.cli.moments import second_of
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.host.audit.proof_check import ProofReport
    from bollard.host.backup.log_check import CheckedLog

__all__ = ["line_of", "show_checked", "show_proof"]

_DETAIL_CHARACTERS = 60


def line_of(item: dict[str, Any]) -> str:
    """A record in one line: when, how much it matters, what, who, about what, and what came of it."""
    capability = cast("dict[str, Any]", item.get("capability") or {}).get("id")
    told = (item.get("actor"), item.get("run_id"), capability or item.get("subject"), item.get("outcome"))
    rest = "  ".join(shorten(str(each), _DETAIL_CHARACTERS) for each in told if each)
    return f"{second_of(item['at'])}  {item['severity']:8}  {item['type']:20}  {rest}".rstrip()


def show_checked(shell: Shell, checked: "CheckedLog", keys: list[str]) -> None:
    report, text = checked.report, shell.text
    if shell.for_programs:
        body = {**to_builtins(report), "witnesses": checked.witnesses, "segments": checked.segments, "keys": keys}
        shell.print_json({**body, "problems": [to_builtins(each) for each in report.problems]})
        return
    for each in report.problems:
        place = f"{each.workspace}/{each.chain}" if each.chain else "-"
        said = text("audit.problem", kind=each.kind, place=place, position=each.position, detail=printable(each.detail))
        shell.print(said)
        if each.record_id is not None:
            shell.print(text("audit.problem_record", id=each.record_id))
    numbers = {"records": report.records, "chains": report.chains, "heads": report.heads, "keys": ", ".join(keys)}
    shell.print(text("audit.broken" if report.problems else "audit.whole", problems=len(report.problems), **numbers))
    if report.unsigned:
        shell.print(text("audit.unsigned", count=report.unsigned))
    if report.dropped:
        shell.print(text("audit.dropped", count=report.dropped))
    if not checked.witnesses:
        shell.print(text("audit.no_witness"))
    if checked.segments:
        shell.print(text("audit.segments", count=checked.segments))


def show_proof(shell: Shell, report: "ProofReport", *, trusted: bool) -> None:
    if shell.for_programs:
        shell.print_json({**to_builtins(report), "proved": report.proved, "key_given": trusted})
        return
    text = shell.text
    for problem in report.problems:
        shell.print(text("audit.proof_problem", detail=printable(problem)))
    keys = ", ".join(report.key_ids)
    told = {"run": report.run_id, "records": report.records, "keys": keys}
    shell.print(text("audit.proved" if report.proved else "audit.not_proved", **told))
    if report.unsigned:
        shell.print(text("audit.proof_unsigned", count=report.unsigned))
    if report.without_data:
        shell.print(text("audit.proof_without_data", count=report.without_data))
    if not trusted:
        shell.print(text("audit.proof_own_key", keys=keys))
