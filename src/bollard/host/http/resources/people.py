"""`/people`: export the data of one person, and erase a person."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Final

import msgspec
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from bollard.host.audit.backup_list import known_backups
from bollard.host.audit.erasure import Eraser
from bollard.host.audit.erasure_list import Erasure, add_erasure
from bollard.host.audit.selection import Selection, name_digest
from bollard.host.audit.survey import Survey
from bollard.host.clock import Clock
from bollard.host.errors import InvalidRequest, NotFound
from bollard.host.files.file_repository import FileRepository
from bollard.host.files.uploads import MessageUploads
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import Id, parsed
from bollard.host.http.openapi.schemas import TEXT, array_of, map_of
from bollard.host.http.operations import Answer, QueryField
from bollard.host.http.resources.audit import write_first
from bollard.host.http.resources.declaration import DeclaredResource, answer_body, operation
from bollard.host.identity.caller import Caller
from bollard.host.identity.directory import IdentityDirectory
from bollard.host.identity.users import check_within
from bollard.host.knowledge.library import Library
from bollard.host.log.journal import Journal
from bollard.host.log.records import data_of
from bollard.host.schedules.repository import ScheduleRepository
from bollard.host.store.rows import RecordRow
from bollard.protocol import JsonObject, Strict
from bollard.wire import encode

_LINES: Final = "application/x-ndjson"
_PAGE: Final = 100
"""Records of one piece of an export."""
_ERASED: Final = answer_body(
    "ErasedPerson",
    {
        "person": "user:ann",
        "erasure_id": "era_01",
        "records": {"event.received": 3, "message.completed": 3},
        "runs": 3,
        "state": 1,
        "artifacts": 0,
        "files": 0,
        "documents": 0,
        "schedules": 0,
        "segments": 0,
        "backups": ["/backups/monday.zip"],
    },
    backups=array_of(TEXT),
    records=map_of({"type": "integer"}),
)


class ErasePerson(Strict):
    """`POST /api/v1/people/erase`."""

    person: Id = Field(description="A user, or an actor of a channel as `type:id`.")


class _Person(msgspec.Struct, frozen=True):
    name: str
    user_id: str | None
    names: frozenset[str]
    """`type:id` of every account and key."""


class People(DeclaredResource):
    """Exports and erases people."""

    tag = "people"

    def __init__(
        self,
        *,
        identity: IdentityDirectory,
        eraser: Eraser,
        files: FileRepository,
        uploads: MessageUploads,
        library: Library,
        schedules: ScheduleRepository,
        journal: Journal,
        clock: Clock,
        data: Path,
    ) -> None:
        self._identity = identity
        self._eraser = eraser
        self._files = files
        self._uploads = uploads
        self._library = library
        self._schedules = schedules
        self._journal = journal
        self._clock = clock
        self._data = data

    @operation(
        "GET /api/v1/people/export",
        name="exportPerson",
        summary="Export the records of a person as JSON lines, oldest first: messages, answers, calls, state, logins.",
        right="users.write",
        query=(QueryField(name="person", summary="A user, or an actor as `type:id`.", example="ann", required=True),),
        answers={
            200: Answer(
                summary="One record per line.",
                schema=TEXT,
                example='{"seq": 7, "type": "event.received", "created_at": 1794735484.9, "data": {"text": "Hello"}}\n',
                media_type=_LINES,
            )
        },
        errors=("not_found", "audit_unavailable", "storage_full"),
    )
    async def export(self, request: Request) -> Response:
        caller = caller_of(request)
        person = self._find(caller, request.query_params["person"])
        details: JsonObject = {"by": caller.name, "chosen": {"person": person.name}}
        await write_first(self._journal, self._clock, caller.workspace, "audit.exported", details)
        selection = self._selection(caller.workspace, person)
        rows = self._eraser.records((await self._eraser.survey(selection)).selection)
        return StreamingResponse(_lines(rows), media_type=_LINES)

    @operation(
        "POST /api/v1/people/erase",
        name="erasePerson",
        summary="Erase a person: the records keep their headers and digests and lose their data.",
        description="Deletes the user with sessions, keys and links, the files and documents that the person uploaded, "
        "state and artifacts of the person's runs, the schedules that these runs created, and the data of the records. "
        "It cannot be undone. A person with active runs or open deliveries is a `conflict`.",
        right="users.write",
        body=ErasePerson,
        body_example={"person": "ann"},
        answers={200: _ERASED.answer("The person is erased.")},
        errors=("not_found", "conflict"),
    )
    async def erase(self, request: Request) -> Response:
        caller = caller_of(request)
        person = self._find(caller, parsed(ErasePerson, await read_body(request)).person)
        survey = await self._eraser.survey(self._selection(caller.workspace, person))
        await self._eraser.check(survey)
        digests = sorted(name_digest(caller.workspace, name) for name in person.names)
        erasure = Erasure(
            erasure_id=f"era_{secrets.token_hex(8)}",
            workspace=caller.workspace,
            people=tuple(digests),
            erased_ms=self._clock.now_ms(),
        )
        await asyncio.to_thread(add_erasure, self._data, erasure)  # first: a restore must not forget it
        files = await self._remove_files(caller, person)
        await self._uploads.forget(caller.workspace, person.names)
        documents = await self._remove_documents(caller, survey)
        schedules = await self._schedules.delete_proposed(caller.workspace, survey.selection.runs, by=caller.name)
        await self._remove_identity(caller, person)
        backups = await asyncio.to_thread(known_backups, self._data)
        details: JsonObject = {"erasure_id": erasure.erasure_id, "people": [*digests], "by": caller.name}
        erased = await self._eraser.erase(survey, "person.erased", details, by=caller.name)
        return JsonAnswer(
            {
                "person": person.name,
                "erasure_id": erasure.erasure_id,
                "records": {**erased.records},
                "runs": erased.runs,
                "state": erased.state,
                "artifacts": erased.artifacts,
                "files": files,
                "documents": documents,
                "schedules": schedules,
                "segments": erased.segments,
                "backups": [each.file for each in backups],
            }
        )

    # --- the person ---

    def _find(self, caller: Caller, given: str) -> _Person:
        """A user by id or as `user:id`, with every linked actor and key; otherwise one actor."""
        workspace, user_id = caller.workspace, given.removeprefix("user:")
        user = None if ":" in user_id else self._identity.users.user(workspace, user_id)
        if user is not None:
            check_within(caller, user)
            links = [each.value.actor for each in self._identity.links.all(workspace) if each.value.user_id == user_id]
            keys = [f"key:{each.id}" for each in self._identity.keys.all(workspace) if each.value.user_id == user_id]
            return _Person(f"user:{user_id}", user_id, frozenset({f"user:{user_id}", *links, *keys}))
        if ":" not in given:
            raise NotFound(
                f"there is no user {given[:64]}", reason="no_person", hint="name a user, or an actor as type:id"
            )
        if given.partition(":")[0] == "role":
            raise InvalidRequest(
                "person: a role is not a person", reason="person_role", hint="name a user or an actor", field="person"
            )
        return _Person(given, None, frozenset({given}))

    @staticmethod
    def _selection(workspace: str, person: _Person) -> Selection:
        return Selection.of_person(workspace, [name_digest(workspace, name) for name in person.names])

    async def _remove_files(self, caller: Caller, person: _Person) -> int:
        mine = [file.file_id for file in self._files.all(caller.workspace) if file.by in person.names]
        for file_id in mine:
            await self._files.remove(caller.workspace, file_id, by=caller.name)
        return len(mine)

    async def _remove_documents(self, caller: Caller, survey: Survey) -> int:
        """Delete the documents whose last version the person saved."""
        count = 0
        for kb_id, document_id in survey.documents:
            with contextlib.suppress(NotFound):  # deleted with its knowledge base
                await self._library.drop(caller.workspace, kb_id, document_id, by=caller.name)
                count += 1
        return count

    async def _remove_identity(self, caller: Caller, person: _Person) -> None:
        if person.user_id is not None:
            await self._identity.delete_user(person.user_id, caller)
            return
        for link in self._identity.links.all(caller.workspace):
            if link.value.actor in person.names:
                await self._identity.links.delete(caller.workspace, link.id, by=caller.name)


async def _lines(rows: Iterator[RecordRow]) -> AsyncGenerator[bytes]:
    def read() -> bytes:
        page = [row for row, _ in zip(rows, range(_PAGE), strict=False)]
        return b"".join(encode(_shown(row)) + b"\n" for row in page)

    while piece := await asyncio.to_thread(read):
        yield piece


def _shown(row: RecordRow) -> JsonObject:
    return {
        "seq": row.id,
        "type": row.type,
        "run_id": row.run_id,
        "created_at": row.created_ms / 1000,
        "data": data_of(row),
    }
