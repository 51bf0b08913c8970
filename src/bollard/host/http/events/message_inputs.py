"""Contents and attachments of a message, made ready for its event.

A file inside the message becomes an artifact: its content is stored first, and its record is in the commit of the
event. An artifact that the message names must belong to the same conversation and thread, so that the run of the
message can read it. The host looks up name, type and size of an artifact; it does not trust the message.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from bollard.host.clock import Clock
from bollard.host.errors import InvalidRequest
from bollard.host.events.acceptance import EventDeduplication
from bollard.host.files.message_file import MessageFile, check_file, secret_in_file
from bollard.host.http.events.inline_files import InlineFile, inline_files
from bollard.host.limits import ATTACHMENTS
from bollard.host.run_api.history import artifact_ref
from bollard.host.run_api.reach import ArtifactReach
from bollard.host.scope import Place
from bollard.host.secrets.redactor import Redactor
from bollard.host.store.artifact_terms import ArtifactTerms
from bollard.host.store.blobs import BlobStore
from bollard.host.store.keys import key_problem
from bollard.host.store.rows import MESSAGE_SOURCE
from bollard.protocol import AgentInput, ArtifactContent, JsonObject

EventKey = tuple[str, str, str]
"""Workspace, source and id of an event."""


class TakenInput(msgspec.Struct, frozen=True, kw_only=True):
    """The contents and attachments of an event. Each attachment is also an element of the contents."""

    contents: tuple[JsonObject, ...] = ()
    attachments: tuple[JsonObject, ...] = ()
    files: tuple[MessageFile, ...] = ()
    """The files whose records are written with the event."""


class MessageInputs:
    """Takes the contents of messages."""

    def __init__(
        self,
        *,
        reach: ArtifactReach,
        known: EventDeduplication,
        blobs: BlobStore,
        clock: Clock,
        terms: ArtifactTerms,
        redactor: Redactor,
    ) -> None:
        self._reach = reach
        self._known = known
        self._blobs = blobs
        self._clock = clock
        self._terms = terms
        self._redactor = redactor

    async def take(
        self,
        message: AgentInput,
        place: Place,
        by: str,
        key: EventKey,
        *,
        fresh: bool = False,
        within: str = "input.",
        kept: Sequence[MessageFile] = (),
        room: Place | None = None,
    ) -> TakenInput:
        """Raises `InvalidRequest` for the first invalid element, `PayloadTooLarge`.

        A repeated message has its first attachments, even if they were removed since; a `fresh` one is no repeat.
        `within` is the prefix of the fields in errors. `kept` are files that a channel keeps until they are read.
        `room` is the place that a channel uploads to, if the conversation there has another name now."""
        contents: list[JsonObject] = [element.to_wire() for element in message.contents]
        inline = inline_files(message.contents, within)
        named = {
            **{
                element.artifact_id: f"{within}contents.{number}.artifact_id"
                for number, element in enumerate(message.contents)
                if isinstance(element, ArtifactContent)
            },
            **{
                ref.artifact_id: f"{within}attachments.{number}.artifact_id"
                for number, ref in enumerate(message.attachments)
            },
        }
        if not inline and not named and not kept:
            return TakenInput(contents=tuple(contents))
        if len(kept) + len(inline) + max(len(named), len(message.attachments)) > ATTACHMENTS:
            raise InvalidRequest(
                f"a message has at most {ATTACHMENTS} attachments",
                reason="attachments",
                hint="send another message with the rest",
                field=f"{within}attachments",
                limit=ATTACHMENTS,
            )
        event = "" if place.conversation else "\n".join(key)
        storing = (
            asyncio.to_thread(self._store, file, place, by, event, f"{within}contents.{number}")
            for number, file in inline.items()
        )
        first, stored = await asyncio.gather(self._first(key, fresh=fresh), asyncio.gather(*storing))
        attached: dict[str, JsonObject] = {}
        files: dict[str, MessageFile] = {}
        for number, made in zip(inline, stored, strict=True):
            contents[number] = _element(made.artifact_id)
            attached[made.artifact_id] = first.get(made.artifact_id) or made.reference()
            files[made.artifact_id] = made
        for artifact_id, where in named.items():
            reference, found = await asyncio.to_thread(self._look_up, artifact_id, place, by, where, first, room)
            here = str(reference["artifact_id"])
            attached[here] = reference
            contents = [_element(here) if each.get("artifact_id") == artifact_id else each for each in contents]
            files |= {each.artifact_id: each for each in found}
        for number, file in enumerate(kept):
            check_file(self._terms, file.name, file.mime_type, None, f"{within}files.{number}")
            lazy = msgspec.structs.replace(file, expires_ms=self._terms.expires_ms(self._clock.now_ms()))
            attached[lazy.artifact_id] = first.get(lazy.artifact_id) or lazy.reference()
            files[lazy.artifact_id] = lazy
        standing = [each.get("artifact_id") for each in contents]
        contents += [_element(each) for each in attached if each not in standing]
        return TakenInput(contents=tuple(contents), attachments=tuple(attached.values()), files=tuple(files.values()))

    async def _first(self, key: EventKey, *, fresh: bool) -> dict[str, JsonObject]:
        """The attachments that the message had when it came first."""
        return {} if fresh else await self._known.attached(*key)

    def _store(self, file: InlineFile, place: Place, by: str, event: str, field: str) -> MessageFile:
        """Store the content of an inline file. Blocks. A repeated message stores nothing: its contents are there."""
        check_file(self._terms, file.name, file.mime_type, file.content, field)
        scrubber = self._redactor.scrubber(place.workspace)
        if scrubber.active and scrubber.holds_among((file.content,)):
            raise secret_in_file(field)
        made = MessageFile.new(
            place,
            by,
            name=file.name,
            mime_type=file.mime_type,
            sha256=self._blobs.put(file.content),
            size_bytes=len(file.content),
            event=event,
        )
        return msgspec.structs.replace(made, expires_ms=self._terms.expires_ms(self._clock.now_ms()))

    def _look_up(
        self, artifact_id: str, place: Place, by: str, field: str, first: Mapping[str, JsonObject], room: Place | None
    ) -> tuple[JsonObject, Sequence[MessageFile]]:
        """The reference of a named artifact; if it was uploaded for a message, also the file, which now lives as long
        as other artifacts. Blocks."""
        if artifact_id in first:
            return first[artifact_id], ()
        row = self._reach.made_in(place, artifact_id) if key_problem(artifact_id) is None else None
        if row is None and room is not None and (moved := self._moved(artifact_id, place, by, room)):
            return first.get(moved[0].artifact_id) or moved[0].reference(), moved
        if row is not None and row.source != MESSAGE_SOURCE:
            return artifact_ref(row).to_wire(), ()
        file = None if row is None else MessageFile.of_row(row)
        if file is None or (file.event_id is None and file.by != by):
            raise InvalidRequest(
                "this conversation has no such artifact",
                reason="attachment",
                hint="upload it for this conversation, or attach artifacts of the same conversation and thread",
                field=field,
            )
        file = msgspec.structs.replace(file, expires_ms=self._terms.expires_ms(self._clock.now_ms()))
        return file.reference(), (file,)

    def _moved(self, artifact_id: str, place: Place, by: str, room: Place) -> Sequence[MessageFile]:
        """The file that this sender uploaded for the room, as a file of the present conversation there. An upload that
        no message used becomes a file of the event too, so that an erasure of the sender finds it."""
        row = self._reach.made_in(room, artifact_id) if key_problem(artifact_id) is None else None
        file = None if row is None or row.source != MESSAGE_SOURCE else MessageFile.of_row(row)
        if file is None or file.by != by or file.sha256 is None:
            return ()
        made = MessageFile.new(
            place, by, name=file.name, mime_type=file.mime_type, sha256=file.sha256, size_bytes=file.size_bytes or 0
        )
        made = msgspec.structs.replace(made, expires_ms=self._terms.expires_ms(self._clock.now_ms()))
        return (made, file) if file.event_id is None else (made,)


def _element(artifact_id: str) -> JsonObject:
    return {"type": "artifact", "artifact_id": artifact_id}
