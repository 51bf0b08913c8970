"""`bollard backup`, `restore`, `export` and `import`: a store or one workspace into an archive, and back."""

import asyncio
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from bollard import __version__
from bollard.cli.command import single_command
from bollard.cli.errors import CheckFailed, CliError, UsageProblem
from bollard.cli.language import Text
from bollard.cli.limits import LINE_CHARACTERS, SETTLED_LINES
from bollard.cli.operate.store_options import IncompleteOption, StoreOptions, size_text
from bollard.cli.shell import Shell
from bollard.cli.terminal.columns import shorten
from bollard.cli.terminal.progress_bar import stage_bar

if TYPE_CHECKING:
    from bollard.host.archive.manifest import ArchiveKind
    from bollard.host.archive.reader import ArchiveReader
    from bollard.host.audit.erasure_list import Erasure
    from bollard.host.backup.archive_verification import ArchiveTrust, Distrust
    from bollard.host.backup.settlement import Settlement
    from bollard.host.backup.workspace_export import OpenFields

NewArchive = Annotated[Path, typer.Argument(metavar="FILE", help="backup.file")]
ErasuresOption = Annotated[Path | None, typer.Option("--erasures", metavar="FILE", help="archive.erasures")]
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}")
_VERSION_CHARACTERS: Final = 40
_YES: Final = ("y", "yes")
_APPROVALS: Final = {"requested": "restore.approval_requested", "granted": "restore.approval_granted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustOptions:
    """Options for trusted archives."""

    trust: Annotated[list[str] | None, typer.Option("--trust", metavar="FINGERPRINT", help="archive.trust")] = None
    unsigned: Annotated[bool, typer.Option("--unsigned", help="archive.unsigned")] = False


@single_command("backup")
def backup(
    shell: Shell,
    file: NewArchive,
    store: StoreOptions,
    with_keys: Annotated[bool, typer.Option("--with-keys", help="backup.with_keys")] = False,
    incomplete: IncompleteOption = False,
) -> int:
    """Back up a store into one archive; the host may be running."""
    from bollard.host.audit.backup_list import note_backup
    from bollard.host.backup.backup import BackupSource, back_up
    from bollard.host.clock import SystemClock

    settings = store.settings()
    with ExitStack() as stack:
        report = back_up(
            BackupSource.of(settings),
            file,
            with_keys=with_keys,
            version=__version__,
            clock=SystemClock(),
            incomplete=incomplete,
            progress=stage_bar(shell, stack),
        )
    note_backup(settings.data, file, SystemClock().now_ms())
    verified, text = report.verified, shell.text
    fields = {"records": verified.records, "contents": verified.blobs, "chains": verified.chains}
    shell.tell(
        {
            "file": str(file),
            "bytes": report.size,
            "tables": report.tables,
            "records": verified.records,
            "chains": verified.chains,
            "heads": verified.heads,
            "contents": verified.blobs,
            "signed_by": report.signed_by,
            "missing": list(report.missing),
            "keys": list(report.keys),
        },
        text("backup.written", file=file, size=size_text(report.size), **fields),
        text("backup.signed", fingerprint=report.signed_by),
        text("backup.keys" if report.keys else "backup.no_keys"),
        *_missing(report.missing, text),
    )
    return 1 if report.missing else 0


@single_command("restore")
def restore(
    shell: Shell,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="restore.file")],
    store: StoreOptions,
    trust: TrustOptions,
    incomplete: IncompleteOption = False,
    erasures: ErasuresOption = None,
) -> int:
    """Restore a backup into an empty directory and database."""
    from bollard.host.backup.restore import restore as restore_backup
    from bollard.host.clock import SystemClock

    settings = store.settings(there=False)
    usual = StoreOptions().settings(there=False).data  # the host of this machine, if there is one
    believed = chosen_trust(shell, file, "backup", trust, (usual,))
    with ExitStack() as stack:
        report = restore_backup(
            file,
            data=settings.data,
            database=settings.database,
            trust=believed,
            clock=SystemClock(),
            incomplete=incomplete,
            erasures=chosen_erasures(erasures, file, (usual,)),
            progress=stage_bar(shell, stack),
        )
    taken = datetime.fromtimestamp(report.created_ms / 1000, UTC).isoformat(timespec="seconds")
    settled, text = report.settled, shell.text
    return shell.tell(
        {
            "data": str(settings.data.resolve()),
            "taken_at": taken,
            "version": report.version,
            "records": report.verified.records,
            "contents": report.verified.blobs,
            **settled_json(settled),
            "sessions_ended": settled.sessions,
            "missing": list(report.missing),
            "keys": list(report.keys),
        },
        text("restore.done", taken=taken, records=report.verified.records, path=settings.data),
        *settled_lines(settled, text),
        text("restore.since"),
        text("restore.keys" if report.keys else "restore.no_keys"),
        *_missing(report.missing, text),
    )


@single_command("export")
def export(
    shell: Shell,
    file: NewArchive,
    workspace: Annotated[str, typer.Option("--workspace", metavar="ID", help="export.workspace")] = "default",
    *,
    store: StoreOptions,
    incomplete: IncompleteOption = False,
) -> int:
    """Export a workspace into an archive; the host may be running."""
    from bollard.host.audit.backup_list import note_backup
    from bollard.host.backup.backup import BackupSource
    from bollard.host.backup.workspace_export import export_workspace
    from bollard.host.clock import SystemClock

    settings = store.settings()
    with ExitStack() as stack:
        report = export_workspace(
            BackupSource.of(settings),
            workspace,
            file,
            version=__version__,
            clock=SystemClock(),
            open_fields=_open_fields(),
            incomplete=incomplete,
            progress=stage_bar(shell, stack),
        )
    note_backup(settings.data, file, SystemClock().now_ms())
    verified, text = report.verified, shell.text
    fields = {"records": verified.records, "contents": verified.blobs, "size": size_text(report.size)}
    shell.tell(
        {
            "file": str(file),
            "workspace": workspace,
            "bytes": report.size,
            "records": verified.records,
            "without_data": verified.dropped,
            "heads": verified.heads,
            "contents": verified.blobs,
            "withheld": report.withheld,
            "agents_without_secrets": list(report.agents),
            "signed_by": report.signed_by,
            "plugins": list(report.plugins),
            "gone": list(report.missing),
        },
        text("export.written", workspace=workspace, file=file, **fields),
        text("backup.signed", fingerprint=report.signed_by),
        text("export.withheld", count=report.withheld),
        *_withheld(report.agents, text),
        *([text("export.plugins", plugins=", ".join(report.plugins))] if report.plugins else ()),
        *_missing(report.missing, text),
    )
    return 1 if report.missing else 0


@single_command("import")
def import_archive(
    shell: Shell,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="import.file")],
    store: StoreOptions,
    trust: TrustOptions,
    incomplete: IncompleteOption = False,
    erasures: ErasuresOption = None,
) -> int:
    """Import a workspace from an archive; the host must be stopped."""
    from bollard.cli.operate.data_lock import DataLock
    from bollard.host.backup.backup import BackupSource
    from bollard.host.backup.workspace_import import import_workspace
    from bollard.host.clock import SystemClock

    settings = store.settings(there=False)  # the lock creates a new directory
    folders = (settings.data, StoreOptions().settings(there=False).data)
    believed = chosen_trust(shell, file, "workspace", trust, folders)
    with ExitStack() as stack:
        stack.callback(DataLock.take(settings.data).close)
        report = import_workspace(
            file,
            BackupSource.of(settings),
            trust=believed,
            clock=SystemClock(),
            incomplete=incomplete,
            erasures=chosen_erasures(erasures, file, folders),
            progress=stage_bar(shell, stack),
        )
    verified, settled, text = report.verified, report.settled, shell.text
    return shell.tell(
        {
            "workspace": report.workspace,
            "records": verified.records,
            "without_data": verified.dropped,
            "contents": verified.blobs,
            **settled_json(settled),
            "withheld": report.withheld,
            "agents_without_secrets": list(report.agents),
            "missing": list(report.missing),
        },
        text("import.done", workspace=report.workspace, records=verified.records, contents=verified.blobs),
        *settled_lines(settled, text),
        text("import.next"),
        *_withheld(report.agents, text),
        *_missing(report.missing, text),
    )


def _missing(contents: Iterable[str], text: Text) -> Iterator[str]:
    return (text("backup.missing", sha256=sha256) for sha256 in contents)


def _withheld(agents: tuple[str, ...], text: Text) -> Iterator[str]:
    """Names of agents that were exported without secret fields."""
    if agents:
        yield text("export.agents", agents=", ".join(agents))


def _open_fields() -> "OpenFields":
    """The configuration schemas of the runners; empty without a running host."""
    from bollard.cli.client.documents import RUNNERS
    from bollard.cli.client.host_client import find_host

    async def ask() -> dict[str, frozenset[str]]:
        runners = await RUNNERS.all(find_host(None, None, os.environ))
        return {
            str(runner["runner_id"]): frozenset(
                str(item["name"]) for item in runner["config_schema"] if item["type"] != "secret"
            )
            for runner in runners
        }

    try:
        known = asyncio.run(ask())
    except CliError:
        known = dict[str, frozenset[str]]()
    return lambda runner_id: known.get(runner_id, frozenset())


def chosen_erasures(given: Path | None, file: Path, folders: Iterable[Path]) -> "list[Erasure]":
    """The erasures to apply again: of the named file, of a list beside the archive, and of hosts of this machine."""
    from bollard.host.audit.erasure_list import ERASURES_FILE, read_erasures

    if given is not None and not given.is_file():
        raise UsageProblem("error.erasures_file", "hint.erasures_file", path=given)
    usual = [folder / ERASURES_FILE for folder in (file.absolute().parent, *folders)]
    return read_erasures([*usual, *([] if given is None else [given])])


# --- trust in archives: by options, by local keys, or by confirmation ---


def chosen_trust(
    shell: Shell, file: Path, kind: "ArchiveKind", options: TrustOptions, folders: Iterable[Path]
) -> "ArchiveTrust":
    """The trusted keys. `folders` are data directories of this machine, whose head keys are trusted.

    Asks for confirmation on a terminal if the archive is not trusted, unless `--trust` is given. Raises `BadArchive`
    without a terminal, and `CheckFailed` if the person declines. Writes nothing.
    """
    from bollard.host.archive.reader import ArchiveReader
    from bollard.host.backup.archive_verification import ArchiveTrust, own_fingerprints

    unsigned, given = options.unsigned, options.trust
    fingerprints = own_fingerprints(folders) | {_fingerprint(each) for each in given or ()}
    trust = ArchiveTrust(fingerprints=fingerprints, unsigned=unsigned)
    with ArchiveReader(file, kind) as reader:
        objection = trust.objection(reader)
        if objection is None:
            return trust
        has_person = not shell.for_programs and sys.stdin.isatty() and sys.stderr.isatty()
        if given or not has_person:
            trust.check(reader)
        if not _confirmed(shell, file, reader, objection):
            raise CheckFailed("error.archive_declined", "hint.archive_declined")
        if reader.signer is None:
            return ArchiveTrust(fingerprints=fingerprints, unsigned=True)
        return ArchiveTrust(fingerprints=fingerprints | {reader.signer.fingerprint}, unsigned=unsigned)


def _fingerprint(given: str) -> str:
    found = re.sub(r"[\s:]", "", given).lower()
    if _FINGERPRINT.fullmatch(found) is None:
        raise UsageProblem("error.trust", "hint.trust", value=given[:80])
    return found


def _confirmed(shell: Shell, file: Path, reader: "ArchiveReader", objection: "Distrust") -> bool:
    """Ask for confirmation. Statements of the archive about itself are shown as claims."""
    manifest = reader.manifest
    claims = {
        "file": file,
        "taken": datetime.fromtimestamp(manifest.created_ms / 1000, UTC).isoformat(timespec="seconds"),
        "version": shorten(manifest.version, _VERSION_CHARACTERS),
    }
    if objection == "unsigned":
        notice, question = shell.text("archive.is_unsigned", **claims), shell.text("archive.confirm_unsigned")
    else:
        fingerprint = "" if reader.signer is None else reader.signer.fingerprint
        notice = shell.text("archive.is_unknown", fingerprint=fingerprint, **claims)
        question = shell.text("archive.confirm_unknown")
    typer.echo(notice, err=True)
    return typer.prompt(question, default="", show_default=False, err=True).strip().lower() in _YES


def settled_json(settled: "Settlement") -> dict[str, Any]:
    """JSON with the ids of everything that ended."""
    import msgspec

    return {
        "runs_ended": settled.runs,
        "events_dropped": settled.events,
        "deliveries_unknown": len(settled.deliveries),
        "deliveries": list(settled.deliveries),
        "approvals_expired": msgspec.to_builtins(settled.approvals),
        "questions_expired": msgspec.to_builtins(settled.questions),
        "records_erased": settled.erased,
    }


def settled_lines(settled: "Settlement", text: Text) -> Iterator[str]:
    """Text with the counts, and a list of work that may have to be repeated by hand."""
    counts = {"runs": settled.runs, "events": settled.events, "deliveries": len(settled.deliveries)}
    open_ones = {"approvals": len(settled.approvals), "questions": len(settled.questions)}
    yield text("restore.settled", **counts, **open_ones)
    if settled.erased:
        yield text("restore.erased", count=settled.erased)
    approvals = [
        text(_APPROVALS[each.status], approval=each.approval_id, name=each.name, run=each.run_id)
        for each in settled.approvals
    ]
    questions = [
        text("restore.question", question=each.question_id, run=each.run_id, asked=each.question)
        for each in settled.questions
    ]
    deliveries = [text("restore.delivery", delivery=each) for each in settled.deliveries]
    for lines in (approvals, questions, deliveries):
        # An archive is untrusted.
        yield from (shorten(line, LINE_CHARACTERS) for line in lines[:SETTLED_LINES])
        if (left := len(lines) - SETTLED_LINES) > 0:
            yield text("restore.more", count=left)
