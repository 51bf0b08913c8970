"""Contents and attachments of a message, made ready for its event.

A file inside the message becomes an artifact: its content is stored first, and its record is in the commit of the
event. An artifact that the message names must belong to the same conversation and thread, so that the run of the
message can read it. The host looks up name, type and size of an artifact; it does not trust the message.
"""

import asyncio
import hashlib
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
    ) -> TakenInput:
        """Raises `InvalidRequest` for the first invalid element, `PayloadTooLarge`.

        A repeated message has its first attachments, even if they were removed since; a `fresh` one is no repeat.
        `within` is the prefix of the fields in errors. `kept` are files that a channel keeps until they are read."""
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
        first = {} if fresh else await self._known.attached(*key)
        event = "" if place.conversation else "\n".join(key)
        attached: dict[str, JsonObject] = {}
        files: dict[str, MessageFile] = {}
        for number, file in inline.items():
            made = await asyncio.to_thread(self._store, file, place, by, event, f"{within}contents.{number}", first)
            contents[number] = _element(made.artifact_id)
            attached[made.artifact_id] = first.get(made.artifact_id) or made.reference()
            files[made.artifact_id] = made
        for artifact_id, where in named.items():
            reference, found = await asyncio.to_thread(self._look_up, artifact_id, place, by, where, first)
            attached[artifact_id] = reference
            if found is not None:
                files[artifact_id] = found
        for number, file in enumerate(kept):
            check_file(self._terms, file.name, file.mime_type, None, f"{within}files.{number}")
            lazy = msgspec.structs.replace(file, expires_ms=self._terms.expires_ms(self._clock.now_ms()))
            attached[lazy.artifact_id] = first.get(lazy.artifact_id) or lazy.reference()
            files[lazy.artifact_id] = lazy
        standing = [each.get("artifact_id") for each in contents]
        contents += [_element(each) for each in attached if each not in standing]
        return TakenInput(contents=tuple(contents), attachments=tuple(attached.values()), files=tuple(files.values()))

    def _store(
        self, file: InlineFile, place: Place, by: str, event: str, field: str, first: Mapping[str, JsonObject]
    ) -> MessageFile:
        """Store the content of an inline file, unless the message is a repeat. Blocks."""
        check_file(self._terms, file.name, file.mime_type, file.content, field)
        made = MessageFile.new(
            place,
            by,
            name=file.name,
            mime_type=file.mime_type,
            sha256=hashlib.sha256(file.content).hexdigest(),
            size_bytes=len(file.content),
            event=event,
        )
        if made.artifact_id in first:
            return made
        scrubber = self._redactor.scrubber(place.workspace)
        if scrubber.active and scrubber.holds_among((file.content,)):
            raise secret_in_file(field)
        self._blobs.put(file.content)
        return msgspec.structs.replace(made, expires_ms=self._terms.expires_ms(self._clock.now_ms()))

    def _look_up(
        self, artifact_id: str, place: Place, by: str, field: str, first: Mapping[str, JsonObject]
    ) -> tuple[JsonObject, MessageFile | None]:
        """The reference of a named artifact; if it was uploaded for a message, also the file, which now lives as long
        as other artifacts. Blocks."""
        if artifact_id in first:
            return first[artifact_id], None
        row = self._reach.made_in(place, artifact_id) if key_problem(artifact_id) is None else None
        if row is not None and row.source != MESSAGE_SOURCE:
            return artifact_ref(row).to_wire(), None
        file = None if row is None else MessageFile.of_row(row)
        if file is None or (file.event_id is None and file.by != by):
            raise InvalidRequest(
                "this conversation has no such artifact",
                reason="attachment",
                hint="upload it for this conversation, or attach artifacts of the same conversation and thread",
                field=field,
            )
        file = msgspec.structs.replace(file, expires_ms=self._terms.expires_ms(self._clock.now_ms()))
        return file.reference(), file


def _element(artifact_id: str) -> JsonObject:
    return {"type": "artifact", "artifact_id": artifact_id}
