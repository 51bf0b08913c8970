"""Secrets are removed from streamed messages, wherever a text is cut and in every field of a delta."""

from typing import Any

import msgspec
import pytest

from bollard.host.runs.scrubber import RunScrubber
from bollard.host.secrets.redactor import MARK, Scrubber
from bollard.protocol import JsonObject, MessageDelta
from bollard.wire import WorkerResult

SECRET = "CANARY-0123456789"


def content(text: str) -> JsonObject:
    return {"content": text}


def reasoning(text: str) -> JsonObject:
    return {"reasoning": text}


def elements(text: str) -> JsonObject:
    return {"content": [{"type": "text", "text": text}]}


def arguments(text: str) -> JsonObject:
    return {"tool_calls": [{"index": 1, "id": "c1", "function": {"name": "send", "arguments": text}}]}


@pytest.fixture
def scrub() -> RunScrubber:
    secrets = Scrubber()
    secrets.add([SECRET])
    return RunScrubber(secrets)


def piece(scrub: RunScrubber, chunk: JsonObject, message_id: str = "m") -> Any:
    """A chunk as it is shown."""
    data: JsonObject = {"message_id": message_id, "chunk": {"role": "assistant", **chunk}}
    result = WorkerResult(run_id="r", type="message.delta", data=data, sequence=1, timestamp=None, size_bytes=0)
    return scrub.delta(result).data["chunk"]


def texts(chunk: Any) -> str:
    """Every text of a chunk in pieces, one behind the other."""
    shown = chunk.get("content") or ""
    shown = shown if isinstance(shown, str) else "".join(each["text"] for each in shown)
    calls = chunk.get("tool_calls") or ()
    return shown + (chunk.get("reasoning") or "") + "".join(each["function"]["arguments"] for each in calls)


@pytest.mark.parametrize("form", [content, reasoning, elements, arguments])
@pytest.mark.parametrize("size", [1, 5, 16, 100])
def test_a_secret_is_removed_from_every_text_sent_in_pieces(scrub: RunScrubber, form: Any, size: int) -> None:
    whole = f"before {SECRET} behind CANARY-01"
    chunks = [piece(scrub, form(whole[at : at + size])) for at in range(0, len(whole), size)]
    rest = [msgspec.json.decode(data) for _, _, data in scrub.rest()]

    shown = [*chunks, *(data["chunk"] for data in rest)]

    assert "".join(map(texts, shown)) == f"before {MARK} behind CANARY-01"
    for chunk in shown:
        assert MessageDelta.from_wire({"message_id": "m", "chunk": chunk})


def test_the_arguments_of_each_call_are_scrubbed_separately(scrub: RunScrubber) -> None:
    first, second = SECRET[:8], SECRET[8:]
    calls = [{"index": 0, "function": {"arguments": first}}, {"index": 1, "function": {"arguments": second}}]

    shown = piece(scrub, {"tool_calls": calls})

    assert [each["function"]["arguments"] for each in shown["tool_calls"]] == ["", second]
    assert [data for _, _, data in scrub.rest()] == [
        msgspec.json.encode(
            {
                "chunk": {
                    "role": "assistant",
                    "content": "",
                    "tool_calls": [{"index": 0, "function": {"arguments": first}}],
                },
                "message_id": "m",
            }
        )
    ]


def test_other_fields_of_a_message_are_scrubbed_piece_by_piece(scrub: RunScrubber) -> None:
    image = {"type": "image_url", "image_url": {"url": f"https://example.org/?key={SECRET}"}}

    shown = piece(scrub, {"content": [image], "name": SECRET, "tool_calls": [{"index": 0, "id": SECRET}]})

    assert SECRET not in msgspec.json.encode(shown).decode()
    assert shown["content"][0]["image_url"]["url"] == f"https://example.org/?key={MARK}"
