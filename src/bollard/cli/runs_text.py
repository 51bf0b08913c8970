"""One run as a person reads it. Everything there is to know is in its JSON; `--json` prints it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

from bollard.cli.columns import printable, shorten
from bollard.cli.language import Text
from bollard.cli.moments import second_of

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["run_lines"]

_CHARACTERS: Final = 2000
_PLACES: Final = (
    ("run_shown.conversation", "conversation_id"),
    ("run_shown.thread", "thread_id"),
    ("run_shown.bot", "bot_id"),
    ("run_shown.parent", "parent_run_id"),
)


def run_lines(body: JsonObject, text: Text) -> Iterator[str]:
    """What it is, where it happened, when, and what is left to say."""
    run = cast("dict[str, Any]", body)
    yield text("run_shown.head", run=run["run_id"], status=_status(run, text))
    yield text("run_shown.of", agent=printable(run["agent_id"]), runner=printable(run["runner_id"]))
    yield text("run_shown.because", event=run["event_id"], binding=printable(run["binding_id"]))
    if (actor := run.get("actor")) is not None:
        yield text("run_shown.who", actor=printable(f"{actor.get('actor_type')}:{actor.get('actor_id') or '-'}"))
    for key, name in _PLACES:
        if run.get(name) is not None:
            yield text(key, value=printable(str(run[name])))
    yield from _times(run, text)
    yield text("run_shown.grant", digest=run["grant_sha256"])
    for key, name in (("run_shown.usage", "usage"), ("run_shown.metadata", "metadata")):
        if run.get(name):
            yield text(key, value=shorten(json.dumps(run[name], ensure_ascii=False), _CHARACTERS))


def _status(run: dict[str, Any], text: Text) -> str:
    key = f"status.{run['status']}"
    said = text(key) if key in text else printable(str(run["status"]))
    reason = run.get("status_reason")
    return f"{said} ({printable(str(reason))})" if reason else said


def _times(run: dict[str, Any], text: Text) -> Iterator[str]:
    yield text("run_shown.created", when=second_of(run["created_at"]))
    started, finished = run.get("started_at"), run.get("finished_at")
    if started is not None:
        yield text("run_shown.started", when=second_of(started))
    if finished is not None:
        yield text("run_shown.finished", when=second_of(finished), seconds=f"{finished - run['created_at']:.2f}")
    elif run.get("cancel_requested_at") is not None:
        yield text("run_shown.stopping", when=second_of(run["cancel_requested_at"]))
