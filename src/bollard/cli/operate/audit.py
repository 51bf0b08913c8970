"""`bollard audit …`: shows, exports and verifies the log."""

import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer
from msgspec import to_builtins

from bollard.cli.client.host_client import HostClient
from bollard.cli.command import CommandGroup
from bollard.cli.errors import EXIT_UNWITNESSED, UsageProblem, writing
from bollard.cli.language import Text
from bollard.cli.operate.store_options import StoreOptions, revision_of
from bollard.cli.options import given_values, one_of
from bollard.cli.shell import HostShell, Shell
from bollard.cli.terminal.columns import printable, shorten
from bollard.cli.terminal.export_file import new_file, whole_file
from bollard.cli.terminal.progress_bar import stage_bar
from bollard.cli.terminal.times import second_of, seconds_of
from bollard.protocol import limits

if TYPE_CHECKING:
    from bollard.host.audit.proof import ProofReport
    from bollard.host.backup.log_check import CheckedLog
    from bollard.host.backup.projection_check import MismatchKind, StoreReport
    from bollard.host.settings import Settings
    from bollard.host.store.store import Store
    from bollard.trust.keys import VerifyKey


PublicKey = Annotated[list[str] | None, typer.Option("--public-key", metavar="HEX|FILE", help="audit.public_key")]
TypeOption = Annotated[list[str] | None, typer.Option("--type", metavar="TYPE", help="audit.type")]
SeverityOption = Annotated[str | None, typer.Option("--severity", metavar="SEVERITY", help="audit.severity")]
RunOption = Annotated[str | None, typer.Option("--run", metavar="RUN", help="audit.run")]
SinceOption = Annotated[str | None, typer.Option("--since", metavar="12h|7d|…", help="audit.since")]
_DETAIL_CHARACTERS = 60
_MISMATCHES: "dict[MismatchKind, tuple[str, str]]" = {
    "edited": ("audit.mismatch_edited", "audit.mend_rebuild"),
    "missing": ("audit.mismatch_missing", "audit.mend_rebuild"),
    "unknown": ("audit.mismatch_unknown", "audit.mend_rebuild"),
    "content_edited": ("audit.mismatch_content_edited", "audit.mend_restore"),
    "content_missing": ("audit.mismatch_content_missing", "audit.mend_restore"),
    "kept": ("audit.mismatch_kept", "audit.mend_drop"),
}
"""The text of a mismatch and its remedy."""

app = CommandGroup("audit")


@app.command("verify")
def verify(
    shell: Shell,
    store: StoreOptions,
    witness: Annotated[list[str] | None, typer.Option("--witness", metavar="FILE|URL", help="audit.witness")] = None,
    public_key: PublicKey = None,
    proof: Annotated[Path | None, typer.Option("--proof", metavar="FILE", help="audit.proof")] = None,
    log_only: Annotated[bool, typer.Option("--log-only", help="audit.log_only")] = False,
) -> int:
    if proof is not None:
        return _verify_proof(shell, proof, public_key)
    settings = store.settings(there=store.database is None)
    return _verify_store(shell, settings, witness, public_key, log_only=log_only)


def _verify_store(
    shell: Shell, settings: "Settings", witness: list[str] | None, public_key: list[str] | None, *, log_only: bool
) -> int:
    from bollard.host.audit.trail import ARCHIVE_FOLDER, own_witness, witness_at
    from bollard.host.audit.witness_sinks import is_url
    from bollard.host.backup.archived_files import public_keys
    from bollard.host.backup.backup import BackupSource
    from bollard.host.backup.log_check import check_log, read_witnesses
    from bollard.host.backup.projection_check import check_projections
    from bollard.host.backup.table_source import open_snapshot
    from bollard.host.clock import SystemClock
    from bollard.host.egress.client import EgressClient
    from bollard.host.egress.operator_dial import operator_dial

    known = keys_of(public_key) or public_keys(settings.data)
    if not known:
        raise UsageProblem("error.audit_no_key", "hint.audit_no_key", path=settings.data)
    own = own_witness(settings)
    if witness is None:
        witness = [own] if is_url(own) or Path(own).is_file() else []
    dial = operator_dial(EgressClient.of_settings(settings))
    witnesses = [witness_at(each, settings.witness_token if each == own else "", dial) for each in witness]
    witnessed = read_witnesses(verifying(known), witnesses)
    with ExitStack() as stack:
        snapshot = open_snapshot(settings.database, settings.data)
        stack.callback(snapshot.close)
        progress = stage_bar(shell, stack)
        checked = check_log(snapshot, witnessed, archive=settings.data / ARCHIVE_FOLDER, progress=progress)
        compared = None
        if not log_only and not checked.report.problems:
            source = BackupSource.of(settings)
            compared = check_projections(snapshot, source, now_ms=SystemClock().now_ms(), progress=progress)
    inside = not settings.witness and witness == [own]
    report, signers = checked.report, sorted(known)
    value = {**to_builtins(report), "witnesses": checked.witnesses, "segments": checked.segments, "keys": signers}
    value |= {"problems": [to_builtins(each) for each in report.problems], "store": to_builtins(compared)}
    shell.show(value, _checked_lines(checked, compared, signers, shell.text, inside=inside))
    if report.problems or (compared is not None and compared.mismatches):
        return 1
    return 0 if report.witnessed else EXIT_UNWITNESSED


def _verify_proof(shell: Shell, path: Path, public_key: list[str] | None) -> int:
    from bollard.host.audit.proof import UnreadableProof, check_proof, read_proof

    try:
        proof = read_proof(path.read_bytes())
    except (OSError, UnreadableProof) as error:
        raise UsageProblem("error.audit_proof", "hint.audit_proof", path=path, detail=error) from error
    known = keys_of(public_key)
    report = check_proof(proof, verifying(known or proof.public_keys))
    value = {**to_builtins(report), "proved": report.proved, "key_given": bool(known)}
    value["problems"] = [each.sentence for each in report.problems]
    shell.show(value, _proof_lines(report, shell.text, trusted=bool(known)))
    return 0 if report.proved else 1


@app.command("prove")
def prove(
    shell: Shell,
    run: Annotated[str, typer.Argument(metavar="RUN", help="audit.prove_run")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="audit.prove_out")],
    store: StoreOptions,
) -> int:
    from bollard.host.audit.proof import check_proof, write_proof
    from bollard.host.audit.proof import prove as prove_run
    from bollard.host.backup.archived_files import public_keys
    from bollard.host.clock import SystemClock

    settings = store.settings()
    keys = public_keys(settings.data)
    with opened_store(settings) as opened:
        proof = prove_run(opened, run, keys, SystemClock().now_ms())
    with writing(out), new_file(out) as file:
        file.write(write_proof(proof))
    report = check_proof(proof, verifying(keys))
    lines = [shell.text("audit.prove_written", file=out, run=run, records=report.records)]
    if report.unsigned:
        lines.append(shell.text("audit.proof_unsigned", count=report.unsigned))
    shell.show({"file": str(out), "run_id": run, "records": report.records, "unsigned": report.unsigned}, lines)
    return 0 if report.proved else 1


@app.command("show")
def show(
    shell: HostShell,
    type_: TypeOption = None,
    severity: SeverityOption = None,
    run: RunOption = None,
    actor: Annotated[str | None, typer.Option("--actor", metavar="NAME", help="audit.actor")] = None,
    since: SinceOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="audit.limit")] = 50,
) -> int:
    query = _query(type_, severity, run, since) | given_values({"actor": actor})
    items = _newest(shell, query, limit)
    return shell.show({"items": items}, map(line_of, items) if items else [shell.text("audit.none")])


def _newest(shell: HostShell, query: dict[str, Any], limit: int) -> list[dict[str, Any]]:
    """All records; a short page does not end the list."""
    found: list[dict[str, Any]] = []
    query["limit"] = min(limit, limits.PAGE_ITEMS)
    while True:
        page = shell.get("/api/v1/audit", **query)
        found += page["items"]
        if len(found) >= limit or not page.get("has_more"):
            return found[:limit]
        query["cursor"] = page["next_cursor"]


@app.command("export")
def export(
    shell: HostShell,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="audit.export_out")],
    type_: TypeOption = None,
    severity: SeverityOption = None,
    run: RunOption = None,
    since: SinceOption = None,
) -> int:
    query = urlencode(_query(type_, severity, run, since))
    lines = shell.run(_export(shell.client, f"/api/v1/audit/export?{query}".rstrip("?"), out))
    return shell.tell({"file": str(out), "records": lines}, shell.text("audit.exported", file=out, records=lines))


async def _export(client: HostClient, path: str, out: Path) -> int:
    """Write the file atomically. Returns the number of lines."""
    lines = 0
    with whole_file(out) as sink:
        async with client.content(path) as pieces:
            async for piece in pieces:
                lines += piece.count(b"\n")
                sink.write(piece)
    return lines


def _query(types: list[str] | None, severity: str | None, run: str | None, since: str | None) -> dict[str, Any]:
    from bollard.host.audit.severity import SEVERITIES

    return given_values(
        {
            "type": ",".join(types) if types else None,
            "severity": None if severity is None else one_of("--severity", severity, SEVERITIES),
            "run_id": run,
            "since": None if since is None else max(0, int(time.time()) - seconds_of(since)),
        }
    )


# --- public keys: hex digits, or files that contain them ---


def keys_of(given: Sequence[str] | None) -> dict[str, str]:
    """Public keys by id, in hex. Raises `UsageProblem`."""
    from bollard.trust.keys import VerifyKey

    found: dict[str, str] = {}
    for each in given or ():
        try:
            text = Path(each).read_text(encoding="ascii").strip() if Path(each).is_file() else each
            key = VerifyKey(bytes.fromhex(text))
        except (OSError, ValueError) as error:
            raise UsageProblem("error.audit_key", "hint.audit_key", value=each[:80]) from error
        found[key.key_id] = key.public.hex()
    return found


def verifying(keys: Mapping[str, str]) -> "dict[str, VerifyKey]":
    """Verifiers of signatures, by id. Raises `UsageProblem`."""
    from bollard.trust.keys import VerifyKey

    try:
        made = [VerifyKey(bytes.fromhex(each)) for each in keys.values()]
    except ValueError as error:
        raise UsageProblem("error.audit_key", "hint.audit_key", value=", ".join(keys)) from error
    return {key.key_id: key for key in made}


@contextmanager
def opened_store(settings: "Settings") -> "Generator[Store]":
    """A store for reading only; a host may run on it. Raises `UsageProblem` for a store of an earlier version, because
    opening it would migrate it under that host."""
    from bollard.host.clock import SystemClock
    from bollard.host.store.migrations import REVISIONS
    from bollard.host.store.selection import choose_store

    revision = revision_of(settings)
    if revision != REVISIONS.known[-1]:
        needed = REVISIONS.known[-1]
        raise UsageProblem("error.audit_schema", "hint.audit_schema", current=revision or "-", needed=needed)
    store = choose_store(settings.database, settings.data, SystemClock())
    store.open()
    try:
        yield store
    finally:
        store.close()


def line_of(item: dict[str, Any]) -> str:
    """A record in one line: time, severity, type, actor, object and outcome."""
    capability: dict[str, Any] = item.get("capability") or {}
    parts = (item.get("actor"), item.get("run_id"), capability.get("id") or item.get("subject"), item.get("outcome"))
    rest = "  ".join(shorten(str(each), _DETAIL_CHARACTERS) for each in parts if each)
    return f"{second_of(item['at'])}  {item['severity']:8}  {item['type']:20}  {rest}".rstrip()


def _checked_lines(
    checked: "CheckedLog", compared: "StoreReport | None", keys: list[str], text: Text, *, inside: bool
) -> Iterator[str]:
    """`compared` is `None` if the database was not compared with the log; `inside`: the only witness is in the data
    directory."""
    report = checked.report
    for each in report.problems:
        place = f"{each.workspace}/{each.chain}" if each.chain else "-"
        details = {"problem": each.detail, "problem_type": f"log.{each.kind}", "position": each.position}
        detail = printable(text.problem(details))
        yield text("audit.problem", kind=each.kind, place=place, position=each.position, detail=detail)
        if each.record_id is not None:
            yield text("audit.problem_record", id=each.record_id)
    numbers = {"records": report.records, "chains": report.chains, "heads": report.heads, "keys": ", ".join(keys)}
    yield text("audit.broken" if report.problems else "audit.whole", problems=len(report.problems), **numbers)
    if report.unsigned:
        yield text("audit.unsigned", count=report.unsigned)
    if report.dropped:
        yield text("audit.dropped", count=report.dropped)
    if not report.records:
        yield text("audit.empty")
    elif not report.witnessed:
        yield text("audit.unwitnessed", count=report.unwitnessed, chains=report.chains)
    elif inside:
        yield text("audit.witness_inside")
    if checked.segments:
        yield text("audit.segments", count=checked.segments)
    if compared is not None:
        yield from _compared_lines(compared, text)
    elif report.problems:
        yield text("audit.not_compared")


def _compared_lines(compared: "StoreReport", text: Text) -> Iterator[str]:
    for each in compared.mismatches:
        place = printable(f"{each.table} {each.key}")
        sentence, _ = _MISMATCHES[each.kind]
        yield text(sentence, place=place, columns=", ".join(each.columns) or "-")
    numbers = {"rows": compared.rows, "contents": compared.contents or 0, "kept": compared.kept or 0}
    if not compared.mismatches:
        yield text("audit.same", **numbers)
    else:
        yield text("audit.differs", count=len(compared.mismatches), **numbers)
        for mend in sorted({_MISMATCHES[each.kind][1] for each in compared.mismatches}):
            yield text(mend)
    if compared.contents is None:
        yield text("audit.no_contents")
    if compared.kept is None:
        yield text("audit.no_kept_key")


def _proof_lines(report: "ProofReport", text: Text, *, trusted: bool) -> Iterator[str]:
    for problem in report.problems:
        yield text("audit.proof_problem", detail=printable(text.problem(problem.whole)))
    keys = ", ".join(report.key_ids)
    fields = {"run": report.run_id, "records": report.records, "keys": keys}
    yield text("audit.proved" if report.proved else "audit.not_proved", **fields)
    if report.unsigned:
        yield text("audit.proof_unsigned", count=report.unsigned)
    if report.without_data:
        yield text("audit.proof_without_data", count=report.without_data)
    if not trusted:
        yield text("audit.proof_own_key", keys=keys)
