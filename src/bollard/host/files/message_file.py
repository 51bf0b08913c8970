"""A file of a message: an artifact of the conversation that a caller sent or uploaded. Pure.

The id is the digest of place, sender, name, type and content, so the same file sent again is the same artifact.
"""

import hashlib
from typing import Final

import msgspec

from bollard.host.errors import HostError, InvalidRequest
from bollard.host.files.media_types import HEAD_BYTES, artifact_type_of, fits
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.scope import Place, Scope
from bollard.host.store.artifact_terms import ArtifactTerms, name_problem
from bollard.host.store.rows import MESSAGE_SOURCE, ArtifactRow
from bollard.protocol import JsonObject, JsonValue

_ID_CHARACTERS: Final = 40


class _FileMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata column of the row."""

    by: str = ""
    bot: str | None = None
    thread: str | None = None
    event_id: str | None = None
    fetch: str | None = None


_metadata: Final = msgspec.json.Decoder(_FileMetadata).decode


class MessageFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a message."""

    artifact_id: str
    workspace: str
    bot: str | None
    conversation: str | None
    thread: str | None
    by: str
    """The caller that sent it."""
    name: str | None
    mime_type: str
    size_bytes: int | None = None
    sha256: str | None = None
    """`None` until a file behind a handle is fetched."""
    expires_ms: int | None = None
    event_id: str | None = None
    """The newest event that brought it; `None` for an upload that no message has used."""
    fetch: str | None = None
    """The channel's handle of a content that is fetched on the first read."""
    flow: int = 0

    @classmethod
    def new(
        cls, place: Place, by: str, *, name: str | None, mime_type: str, sha256: str, size_bytes: int, event: str = ""
    ) -> "MessageFile":
        """A file with this content. Without a conversation, it belongs to one `event`."""
        identity = [place.workspace, place.bot, place.conversation, place.thread, by, name, mime_type, sha256, event]
        return cls(
            artifact_id=_id_of(identity),
            workspace=place.workspace,
            bot=place.bot,
            conversation=place.conversation,
            thread=place.thread,
            by=by,
            name=name,
            mime_type=mime_type,
            size_bytes=size_bytes,
            sha256=sha256,
        )

    @classmethod
    def behind(
        cls, place: Place, by: str, *, handle: str, name: str | None, mime_type: str, size_bytes: int | None, event: str
    ) -> "MessageFile":
        """A file of one event that is fetched on the first read."""
        made = cls.new(place, by, name=name, mime_type=mime_type, sha256=handle, size_bytes=0, event=event)
        return msgspec.structs.replace(made, sha256=None, size_bytes=size_bytes, fetch=handle)

    @classmethod
    def of_row(cls, row: ArtifactRow) -> "MessageFile":
        """The file of a row whose source is `MESSAGE_SOURCE`."""
        more = _metadata(row.metadata)
        return cls(
            artifact_id=row.artifact_id,
            workspace=row.workspace,
            bot=more.bot,
            conversation=row.conversation,
            thread=more.thread,
            by=more.by,
            name=row.name,
            mime_type=row.mime_type or "",
            size_bytes=row.size_bytes,
            sha256=row.sha256,
            expires_ms=row.expires_ms,
            event_id=more.event_id,
            fetch=more.fetch,
            flow=row.flow,
        )

    @property
    def place(self) -> Scope:
        return Scope(workspace=self.workspace, bot=self.bot, conversation=self.conversation, thread=self.thread)

    def reference(self) -> JsonObject:
        """The file as an `ArtifactRef`."""
        expires_at = None if self.expires_ms is None else self.expires_ms / 1000
        return _present(
            artifact_id=self.artifact_id,
            artifact_type=artifact_type_of(self.mime_type),
            mime_type=self.mime_type,
            name=self.name,
            size_bytes=self.size_bytes,
            sha256=self.sha256,
            expires_at=expires_at,
        )

    def record(self, created_ms: int, *, event_id: str | None = None, run_id: str | None = None) -> NewRecord:
        """`artifact.created`. The run is named only without a conversation: it is then the only reader."""
        data = _present(
            artifact_id=self.artifact_id,
            artifact_type=artifact_type_of(self.mime_type),
            mime_type=self.mime_type,
            name=self.name,
            size_bytes=self.size_bytes,
            sha256=self.sha256,
            source=MESSAGE_SOURCE,
            by=self.by,
            bot=self.bot,
            conversation=self.conversation,
            thread=self.thread,
            event_id=event_id or self.event_id,
            run_id=None if self.conversation else run_id,
            expires_ms=self.expires_ms,
            fetch=self.fetch,
            flow=self.flow or None,
        )
        return NewRecord(
            workspace=self.workspace, type="artifact.created", data=encode_data(data), created_ms=created_ms
        )


def check_file(terms: ArtifactTerms, name: str | None, mime_type: str, head: bytes | None, field: str) -> None:
    """Refuse a name or type that is not allowed, and a type that the first bytes contradict. Raises
    `InvalidRequest`."""
    if name is not None and (problem := name_problem(name) or _path_problem(name)) is not None:
        raise InvalidRequest(
            f"{field}: the file name {problem}",
            reason="message_file_name",
            hint="send the name without folders",
            field=field,
            problem=problem,
        )
    if (problem := terms.type_problem(mime_type)) is not None:
        raise InvalidRequest(
            f"{field}: {problem}",
            reason="message_file_type",
            hint="send another type, or add it to the setting artifact_mime_types",
            field=field,
            problem=problem,
        )
    if head is not None and not fits(mime_type, head[:HEAD_BYTES]):
        raise InvalidRequest(
            f"{field}: the content is not {mime_type[:64]}",
            reason="message_file_content",
            hint="declare the type that the content has",
            field=field,
            mime_type=mime_type[:64],
        )


def secret_in_file(field: str) -> HostError:
    return InvalidRequest(
        "the file contains a secret of the workspace",
        reason="file_has_secret",
        hint="remove it: runners get secrets through `secret` fields of their configuration",
        field=field,
    )


def _path_problem(name: str) -> str | None:
    return "has a folder" if name in (".", "..") or any(each in name for each in "/\\") else None


def _id_of(identity: list[str | None]) -> str:
    return f"art_msg_{hashlib.sha256(msgspec.json.encode(identity)).hexdigest()[:_ID_CHARACTERS]}"


def _present(**fields: JsonValue) -> JsonObject:
    return {name: value for name, value in fields.items() if value is not None}
