"""A message of the transcript as runners get it, and the artifacts it refers to. Pure."""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from pydantic import ValidationError

from bollard.host.runapi.pages import size_of
from bollard.host.store.rows import ArtifactRow, TranscriptRow
from bollard.protocol import ArtifactRef, JsonValue, TranscriptItem, limits

__all__ = ["artifact_ref", "item_of", "refs_of"]

REFS_PER_ITEM: Final = 32
"""Artifacts of one message that are named with it."""
SHORT_CHARACTERS: Final = limits.PAGE_BYTES // 8
"""What is kept of a text that no page could hold: JSON needs six bytes for a character at most."""

_decode: Final = msgspec.json.Decoder().decode


def item_of(row: TranscriptRow, cursor: str, refs: tuple[ArtifactRef, ...]) -> TranscriptItem:
    """One message. One that is larger than a page is cut, and says so."""
    item = TranscriptItem(
        transcript_id=row.transcript_id,
        event_id=row.event_id,
        conversation_id=row.conversation,
        thread_id=row.thread,
        role=row.role,
        content=row.content,
        content_json=None if row.content_json is None else _decode(row.content_json),
        artifact_refs=refs,
        seq=row.seq,
        cursor=cursor,
        created_at=row.created_ms / 1000,
    )
    if size_of(item) <= limits.PAGE_BYTES:
        return item
    short = None if row.content is None else row.content[:SHORT_CHARACTERS]
    return item.model_copy(
        update={"content": short, "content_json": None, "artifact_refs": (), "metadata": {"shortened": True}}
    )


def refs_of(row: TranscriptRow, find: Callable[[str], ArtifactRow | None]) -> tuple[ArtifactRef, ...]:
    """What the message says of its artifacts, and what is known of those that stand in its content; each once."""
    found: dict[str, ArtifactRef] = {}
    content = None if row.content_json is None else _decode(row.content_json)
    for named in _named(content):
        if len(found) == REFS_PER_ITEM:
            break
        if isinstance(named, ArtifactRef):
            found.setdefault(named.artifact_id, named)
        elif (kept := find(named)) is not None:
            found.setdefault(kept.artifact_id, artifact_ref(kept))
    return tuple(found.values())


def _named(content: JsonValue) -> Iterator[ArtifactRef | str]:
    if isinstance(content, dict):  # a whole message
        refs = content.get("artifact_refs")
        for ref in refs if isinstance(refs, list) else ():
            try:
                yield ArtifactRef.from_wire(ref)
            except ValidationError:
                continue  # the log keeps what a runner said; what is no reference is none
        content = content.get("content")
    for element in content if isinstance(content, list) else ():
        artifact_id = element.get("artifact_id") if isinstance(element, dict) else None
        if isinstance(artifact_id, str):
            yield artifact_id


def artifact_ref(row: ArtifactRow) -> ArtifactRef:
    """An artifact, as messages name it."""
    return ArtifactRef(
        artifact_id=row.artifact_id,
        artifact_type=row.type,
        mime_type=row.mime_type,
        name=row.name,
        size_bytes=row.size_bytes,
        sha256=row.sha256,
        expires_at=None if row.expires_ms is None else row.expires_ms / 1000,
    )
