"""`bollard audit …`: what the log says, and whether it is what was written."""

import os
from pathlib import Path
from typing import Annotated, Any, cast
from urllib.parse import urlencode

import typer

from bollard.cli.app import Command, Group
from bollard.cli.audit_keys import keys_of, verifying
from bollard.cli.audit_text import line_of, show_checked, show_proof
from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import HostClient, TokenOption, UrlOption, find_host
from bollard.cli.shell import Shell
from bollard.cli.store_options import DatabaseOption, DataOption, chosen_store, store_problems

__all__ = ["app"]

app = typer.Typer(cls=Group, help="audit", no_args_is_help=True, rich_markup_mode=None, add_completion=False)

PublicKey = Annotated[list[str] | None, typer.Option("--public-key", metavar="HEX|FILE", help="audit.public_key")]
TypeOption = Annotated[list[str] | None, typer.Option("--type", metavar="TYPE", help="audit.type")]
SeverityOption = Annotated[str | None, typer.Option("--severity", metavar="SEVERITY", help="audit.severity")]
RunOption = Annotated[str | None, typer.Option("--run", metavar="RUN", help="audit.run")]
SinceOption = Annotated[str | None, typer.Option("--since", metavar="12h|7d|…", help="audit.since")]


@app.command("verify", cls=Command, help="audit.verify")
def verify(
    ctx: typer.Context,
    data: DataOption = None,
    database: DatabaseOption = None,
    witness: Annotated[list[Path] | None, typer.Option("--witness", metavar="FILE", help="audit.witness")] = None,
    public_key: PublicKey = None,
    proof: Annotated[Path | None, typer.Option("--proof", metavar="FILE", help="audit.proof")] = None,
) -> int:
    shell: Shell = ctx.obj
    with store_problems():
        if proof is not None:
            return _verify_proof(shell, proof, public_key)
        return _verify_store(shell, data, database, witness, public_key)


def _verify_store(
    shell: Shell, data: str | None, database: str | None, witness: list[Path] | None, public_key: list[str] | None
) -> int:
    from contextlib import ExitStack

    from bollard.cli.progress_bar import stage_bar
    from bollard.host.audit.trail import ARCHIVE_FOLDER, witness_path
    from bollard.host.backup.data_files import public_keys
    from bollard.host.backup.log_check import check_log
    from bollard.host.backup.opening import open_snapshot

    settings = chosen_store(data, database, there=database is None)
    known = keys_of(public_key) or public_keys(settings.data)
    if not known:
        raise UsageProblem("error.audit_no_key", "hint.audit_no_key", path=settings.data)
    own = witness_path(settings)
    witnesses = witness if witness is not None else [own] if own.is_file() else []
    with ExitStack() as stack:
        snapshot = open_snapshot(settings.database, settings.data)
        stack.callback(snapshot.close)
        checked = check_log(
            snapshot,
            verifying(known),
            witnesses=witnesses,
            archive=settings.data / ARCHIVE_FOLDER,
            progress=stage_bar(shell, stack),
        )
    show_checked(shell, checked, sorted(known))
    return 1 if checked.report.problems else 0


def _verify_proof(shell: Shell, path: Path, public_key: list[str] | None) -> int:
    from bollard.host.audit.proof_check import check_proof, read_proof

    try:
        proof = read_proof(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UsageProblem("error.audit_proof", "hint.audit_proof", path=path, detail=error) from error
    known = keys_of(public_key)
    report = check_proof(proof, verifying(known or proof.public_keys))
    show_proof(shell, report, trusted=bool(known))
    return 0 if report.proved else 1


@app.command("prove", cls=Command, help="audit.prove")
def prove(
    ctx: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="audit.prove_run")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="audit.prove_out")],
    data: DataOption = None,
    database: DatabaseOption = None,
) -> int:
    shell: Shell = ctx.obj
    with store_problems():
        from bollard.cli.audit_store import opened_store
        from bollard.host.audit.proof import prove as prove_run
        from bollard.host.audit.proof import write_proof
        from bollard.host.audit.proof_check import check_proof
        from bollard.host.backup.data_files import public_keys
        from bollard.host.clock import SystemClock

        settings = chosen_store(data, database)
        keys = public_keys(settings.data)
        with opened_store(settings) as store:
            proof = prove_run(store, run, keys, SystemClock().now_ms())
    try:
        with out.open("xb") as file:
            file.write(write_proof(proof))
    except OSError as error:
        raise UsageProblem("error.write", "hint.write", path=out, detail=error.strerror or error) from error
    report = check_proof(proof, verifying(keys))
    if shell.for_programs:
        shell.print_json({"file": str(out), "run_id": run, "records": report.records, "unsigned": report.unsigned})
    else:
        shell.print(shell.text("audit.prove_written", file=out, run=run, records=report.records))
        if report.unsigned:
            shell.print(shell.text("audit.proof_unsigned", count=report.unsigned))
    return 0 if report.proved else 1


@app.command("show", cls=Command, help="audit.show")
def show(
    ctx: typer.Context,
    type_: TypeOption = None,
    severity: SeverityOption = None,
    run: RunOption = None,
    actor: Annotated[str | None, typer.Option("--actor", metavar="NAME", help="audit.actor")] = None,
    since: SinceOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="audit.limit")] = 50,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell: Shell = ctx.obj
    query = _query(type_, severity, run, since)
    if actor is not None:
        query["actor"] = actor
    items = asyncio.run(_newest(find_host(url, token, os.environ), query, limit))
    if shell.for_programs:
        shell.print_json({"items": items})
        return 0
    if not items:
        shell.print(shell.text("audit.none"))
        return 0
    for item in items:
        shell.print(line_of(item))
    return 0


async def _newest(client: HostClient, query: dict[str, Any], limit: int) -> list[dict[str, Any]]:
    """Page by page: one may be short, and others follow."""
    from bollard.protocol import limits

    found: list[dict[str, Any]] = []
    query["limit"] = min(limit, limits.PAGE_ITEMS)
    while True:
        page = cast("dict[str, Any]", await client.get(f"/api/v1/audit?{urlencode(query)}"))
        found += page["items"]
        if len(found) >= limit or not page.get("has_more"):
            return found[:limit]
        query["cursor"] = page["next_cursor"]


@app.command("export", cls=Command, help="audit.export")
def export(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="audit.export_out")],
    type_: TypeOption = None,
    severity: SeverityOption = None,
    run: RunOption = None,
    since: SinceOption = None,
    url: UrlOption = None,
    token: TokenOption = None,
) -> int:
    import asyncio

    shell: Shell = ctx.obj
    query = urlencode(_query(type_, severity, run, since))
    lines = asyncio.run(_export(find_host(url, token, os.environ), f"/api/v1/audit/export?{query}".rstrip("?"), out))
    return shell.tell({"file": str(out), "records": lines}, shell.text("audit.exported", file=out, records=lines))


async def _export(client: HostClient, path: str, out: Path) -> int:
    """Whole or not at all; how many lines it was."""
    fresh, lines = out.with_name(f".{out.name}.part"), 0
    try:
        with fresh.open("wb") as sink:
            async with client.content(path) as pieces:
                async for piece in pieces:
                    lines += piece.count(b"\n")
                    sink.write(piece)
        fresh.replace(out)
    except OSError as error:
        raise UsageProblem("error.write", "hint.write", path=out, detail=error.strerror or error) from error
    finally:
        fresh.unlink(missing_ok=True)
    return lines


def _query(types: list[str] | None, severity: str | None, run: str | None, since: str | None) -> dict[str, Any]:
    import time

    from bollard.cli.choices import one_of
    from bollard.cli.durations import seconds_of
    from bollard.host.audit.severity import SEVERITIES

    query: dict[str, Any] = {}
    if types:
        query["type"] = ",".join(types)
    if severity is not None:
        query["severity"] = one_of("--severity", severity, SEVERITIES)
    if run is not None:
        query["run_id"] = run
    if since is not None:
        query["since"] = max(0, int(time.time()) - seconds_of(since))
    return query
