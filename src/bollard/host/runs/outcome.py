"""The outcome of an ended run, read from its records: its status, its messages and its flow."""

from typing import Any

import msgspec

from bollard.host.limits import REPLAY_PAGE
from bollard.host.log.records import NO_BITS, data_of, flow_of_run
from bollard.host.store.store import Store
from bollard.protocol import JsonValue


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a run leaves to others. A run without an end counts as failed."""

    status: str = "failed"
    code: JsonValue = None
    messages: tuple[JsonValue, ...] = ()
    flow: int = NO_BITS
    """The bits of `Flow` of everything that the run has read."""

    @property
    def answer(self) -> str | None:
        """The text of the last message of the assistant."""
        for message in reversed(self.messages):
            if isinstance(message, dict) and message.get("role", "assistant") == "assistant":
                text = _text_of(message.get("content"))
                if text:
                    return text
        return None


def read_outcome(store: Store, run_id: str) -> RunOutcome:
    """Blocks."""
    messages: list[JsonValue] = []
    after, flow = 0, NO_BITS
    while rows := store.records_of_run(run_id, after, REPLAY_PAGE):
        for row in rows:
            data = data_of(row)
            flow |= flow_of_run(row.type, data)
            if row.type == "message.completed":
                messages.append(data.get("message"))
            elif row.type == "run.ended":
                return RunOutcome(
                    status=str(data.get("status")), code=data.get("code"), messages=tuple(messages), flow=flow
                )
        after = rows[-1].seq or 0
    return RunOutcome(messages=tuple(messages), flow=flow)


def _text_of(content: JsonValue) -> str:
    if isinstance(content, str):
        return content
    elements = content if isinstance(content, list) else []
    parts: list[Any] = [item.get("text") for item in elements if isinstance(item, dict)]
    return "\n".join(part for part in parts if isinstance(part, str))
