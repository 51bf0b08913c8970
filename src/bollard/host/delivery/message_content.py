"""The content of a completed message: text, other elements and artifacts.

A runner may name any artifact. Only those that its run made, or that belong to the place of the run, are delivered.
"""

from typing import Any, Final

import msgspec

from bollard.host.clock import Clock
from bollard.host.run_api.history import artifact_ref
from bollard.host.run_api.reach import ArtifactReach
from bollard.host.store.rows import ArtifactRow, OutboxRow
from bollard.host.store.store import Store
from bollard.protocol import JsonObject


class _Ref(msgspec.Struct):
    artifact_id: str


class _Message(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None
    artifact_refs: list[_Ref] | None = None


class _Completed(msgspec.Struct):
    """The part of `message.completed` that can be sent."""

    message: _Message


_completed: Final = msgspec.json.Decoder(_Completed).decode


class MessageContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one message."""

    text: str = ""
    contents: tuple[JsonObject, ...] = ()
    """The elements besides text; an artifact with its name, type and size."""
    artifacts: tuple[str, ...] = ()
    """The ids of the artifacts among them."""


class MessageContents:
    """Reads messages of runs. Blocks."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._reach = ArtifactReach(store, clock)

    def of(self, row: OutboxRow, data: bytes) -> MessageContent:
        """The content of a `message.completed` record, for its delivery."""
        message = _completed(data).message
        elements = message.content if isinstance(message.content, list) else []
        text = message.content or "" if not isinstance(message.content, list) else _text_of(elements)
        others: list[JsonObject] = [each for each in elements if each.get("type") != "text"]
        standing = {str(each["artifact_id"]) for each in others if _is_artifact(each)}
        refs = dict.fromkeys(ref.artifact_id for ref in message.artifact_refs or ())
        others += [_element(each) for each in refs if each not in standing]
        contents: list[JsonObject] = []
        artifacts: list[str] = []
        for element in others:
            if not _is_artifact(element):
                contents.append(element)
            elif (found := self._readable(row, str(element["artifact_id"]))) is not None:
                contents.append({**artifact_ref(found).to_wire(), "type": "artifact"})
                artifacts.append(found.artifact_id)
        return MessageContent(text=text, contents=tuple(contents), artifacts=tuple(artifacts))

    def artifact(self, row: OutboxRow, artifact_id: str) -> ArtifactRow | None:
        """An artifact of this delivery; `None` for any other."""
        record = next(iter(self._store.records(row.record_id - 1, 1)), None)
        if record is None or record.data is None or record.type != "message.completed":
            return None
        return self._readable(row, artifact_id) if artifact_id in self.of(row, record.data).artifacts else None

    def _readable(self, row: OutboxRow, artifact_id: str) -> ArtifactRow | None:
        run = self._store.run(row.run_id)
        return None if run is None else self._reach.of_run(run, artifact_id)


def _element(artifact_id: str) -> JsonObject:
    return {"type": "artifact", "artifact_id": artifact_id}


def _is_artifact(element: JsonObject) -> bool:
    return element.get("type") == "artifact" and isinstance(element.get("artifact_id"), str)


def _text_of(elements: list[JsonObject]) -> str:
    texts = [each.get("text") for each in elements if each.get("type") == "text"]
    return "\n".join(text for text in texts if isinstance(text, str))
