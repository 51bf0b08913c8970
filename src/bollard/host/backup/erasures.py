"""The list of erasures, applied again to a restored or imported copy."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from bollard.host.audit.erasure import Eraser
from bollard.host.audit.erasure_list import Erasure
from bollard.host.audit.selection import IDENTITY_KINDS, SCHEDULE, Selection
from bollard.host.audit.survey import Survey
from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.identity.users import PASSWORD
from bollard.host.knowledge.incoming import UploadFolder
from bollard.host.limits import REPLAY_PAGE
from bollard.host.log.entries import CommitListener, CommitResult, Entry
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.log.saved_resources import SavedChange
from bollard.host.log.writer import Writer
from bollard.host.store.rows import DropKept, KeptChange, PolicyKind
from bollard.host.store.store import Store
from bollard.protocol import JsonObject

T = TypeVar("T")
_BY: Final = "restore"


def apply_erasures(
    erasures: Iterable[Erasure],
    store: Store,
    writer: Writer,
    clock: Clock,
    *,
    workspaces: Iterable[str],
    archive: Path,
    documents: UploadFolder,
) -> int:
    """Erase these people in the copy again; returns the number of records that lost their data. `archive` has the
    segments of the copy, and `documents` those of its knowledge bases."""
    known, count = frozenset(workspaces), 0
    eraser = Eraser(store, _WriterCommits(writer), clock, archive if archive.is_dir() else None)
    for each in erasures:
        if each.workspace in known:
            selection = Selection.of_person(each.workspace, each.people)
            survey = _run(eraser.survey(selection))
            for kind in IDENTITY_KINDS:
                _remove_saved(store, writer, clock, selection, kind, selection.is_identity)
            _remove_saved(store, writer, clock, selection, SCHEDULE, selection.is_proposed)
            _remove_uploads(store, writer, clock, selection)
            _remove_documents(documents, writer, clock, survey)
            details: JsonObject = {"erasure_id": each.erasure_id, "people": [*each.people], "by": _BY}
            count += sum(_run(eraser.erase(survey, "person.erased", details, by=_BY)).records.values())
    return count


def _run(work: Coroutine[Any, Any, T]) -> T:
    with ThreadPoolExecutor(1) as thread:  # a loop of its own, also inside of another one
        return thread.submit(asyncio.run, work).result()


def _remove_documents(documents: UploadFolder, writer: Writer, clock: Clock, survey: Survey) -> None:
    """Delete the documents of the person, which wait for the next start of the host."""
    workspace = survey.selection.workspace
    for file in documents.files() if survey.documents else ():
        found = documents.read(file)
        if found is None or found.workspace != workspace:
            continue
        place = found.kb_id, found.document.document_id
        if place in survey.documents:
            body: JsonObject = {"kb_id": place[0], "document_id": place[1], "action": "deleted", "by": _BY}
            _write(writer, clock, workspace, "knowledge.changed", body)
            documents.remove(file)


def _remove_saved(
    store: Store,
    writer: Writer,
    clock: Clock,
    selection: Selection,
    kind: PolicyKind,
    belongs: Callable[[JsonObject], bool],
) -> None:
    """Delete the saved resources of a kind that belong to the selection; a user with the password."""
    for row in store.policies_everywhere(kind):
        if row.workspace != selection.workspace or not belongs(msgspec.json.decode(row.body)):
            continue
        change = SavedChange(kind=kind, workspace=row.workspace, id=row.id, revision=row.revision + 1, by=_BY)
        drops: list[KeptChange] = [DropKept(PASSWORD, row.workspace, row.id)] if kind == "user" else []
        _write(writer, clock, row.workspace, "policy.changed", change.data(), drops)


def _remove_uploads(store: Store, writer: Writer, clock: Clock, selection: Selection) -> None:
    """Delete the files that the person uploaded."""
    after = ""
    while rows := store.uploads(selection.workspace, after, REPLAY_PAGE):
        for row in rows:
            if selection.is_name(str(msgspec.json.decode(row.metadata).get("by"))):
                body: JsonObject = {"artifact_id": row.artifact_id, "by": _BY}
                _write(writer, clock, row.workspace, "artifact.deleted", body)
        after = rows[-1].artifact_id


def _write(
    writer: Writer, clock: Clock, workspace: str, kind: str, body: JsonObject, keeps: Sequence[KeptChange] = ()
) -> None:
    record = NewRecord(workspace=workspace, type=kind, data=encode_data(body), created_ms=clock.now_ms())
    (outcome,) = writer.turn([Entry(records=[record], keeps=[*keeps])])
    if isinstance(outcome, HostError):
        raise outcome


class _WriterCommits:
    """The writer of a store that no host uses, as a journal."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def commit(self, entry: Entry) -> CommitResult:
        (outcome,) = self._writer.turn([entry])
        if isinstance(outcome, HostError):
            raise outcome
        return outcome

    async def commit_through(self, entry: Entry, then: CommitListener | None = None) -> CommitResult:
        outcome = await self.commit(entry)
        if then is not None:
            then(outcome)
        return outcome
