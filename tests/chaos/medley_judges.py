"""Invariants of the store that a medley leaves, in addition to those of every store."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.chaos.medley_crowd import CHAT, Crowd
from tests.chaos.receiver import Receiver, failure_sentence
from tests.simulation.ledger import all_records, ledger_of

from bollard.host.approvals.decisions import OUTLIVED
from bollard.host.log.records import data_of
from bollard.host.store.action_rows import ApprovalRow
from bollard.host.store.store import Store

Lines = list[dict[str, Any]]
"""Acknowledged steps of runners, and the effects of tools."""
_STANDS = {"allow_once": {"granted", "used"}, "deny": {"denied"}}
"""How an approval stands that was answered so."""


def deeds(store: Store, lines: Lines, blobs: Path) -> Iterator[str]:
    """Counts that were compared and set, uploads and calls of other agents."""
    counted: dict[str, list[tuple[int, int]]] = {}
    made: Counter[str] = Counter()
    for record in all_records(store):
        if record.type == "state.updated":
            agent = store.run(record.run_id).agent_id
            counted.setdefault(agent, []).append((data_of(record)["value"], record.id))
        elif record.type == "artifact.created":
            made[data_of(record)["artifact_id"]] += 1
    for agent, counts in counted.items():
        if [value for value, _ in counts] != list(range(1, len(counts) + 1)):
            yield f"{agent} counted {counts}"
    yield from (f"{artifact_id} was made {times} times" for artifact_id, times in made.items() if times > 1)
    for line in lines:
        match line["did"]:
            case "count" if (line["value"], line["version"]) not in counted[store.run(line["run"]).agent_id]:
                yield f"{line} is not in the log"
            case "upload":
                row, digest = store.artifact("default", line["artifact"]), line["sha256"]
                if row is None or row.sha256 != digest or not (blobs / "sha256" / digest[:2] / digest).exists():
                    yield f"{line} is not there: {row}"
            case "call":
                child = store.run(line["child"])
                if child is None or (child.status, child.parent_run_id) != (line["status"], line["run"]):
                    yield f"{line}, and it is {child}"


def parcels(store: Store, lines: Lines, crowd: Crowd) -> Iterator[str]:
    """A call that needs an approval is made at most once, and never after a denial."""
    delivered = Counter(line["parcel"] for line in lines if line["did"] == "deliver")
    yield from (f"{parcel} was delivered {times} times" for parcel, times in delivered.items() if times > 1)
    yield from (f"{line} and it was not" for line in lines if line["did"] == "ask" and not delivered[line["parcel"]])
    for row in store.approvals("default", None, None, 10_000):
        parcel, decision = json.loads(row.body)["arguments"]["parcel"], crowd.decided.get(row.approval_id)
        call = store.tool_call(row.run_id, row.call_id)
        stands = decision is None or row.status in _STANDS[decision] or _is_withdrawn(store, row)
        if row.status == "requested" or not stands:
            yield f"{row.approval_id} was decided as {decision} and is {row.status}: {store.run(row.run_id)}"
        if delivered[parcel] and (row.status != "used" or call.status == "rejected"):
            yield f"{parcel} was delivered, its approval is {row.status}, its call {call}"
        if not delivered[parcel] and call is not None and call.status == "completed":
            yield f"{parcel} was not delivered, and its call is completed"


def _is_withdrawn(store: Store, row: ApprovalRow) -> bool:
    """Whether the run was stopped between the grant and the call. A grant of a lost run stands."""
    run = store.run(row.run_id)
    return row.status == "expired" and run is not None and run.reason not in OUTLIVED


def promises(store: Store, crowd: Crowd) -> Iterator[str]:
    """Cancels, revocations, and external results."""
    kinds = {run_id: [record.type for record in ledger_of(store, run_id)] for run_id in crowd.stopped | crowd.revoked}
    yield from (
        f"{run_id} was stopped: {kinds[run_id]}" for run_id in crowd.stopped if "run.cancelled" not in kinds[run_id]
    )
    yield from (
        f"{run_id} was revoked: {kinds[run_id]}" for run_id in crowd.revoked if "grant.revoked" not in kinds[run_id]
    )
    for name, run in crowd.externals.items():
        records = [record for record in ledger_of(store, run.run_id) if record.type == "message.completed"]
        said = [json.loads(record.json)["data"]["message"]["content"] for record in records]
        wanted = [f"{name}-{number}." for number in range(1, run.acknowledged + 1)]
        if said[: len(wanted)] != wanted or len(said) != len(set(said)):
            yield f"{name} was told that {wanted} is on disk, and it is {said}"
        if run.ended and store.run(run.run_id).status != "completed":
            yield f"{name} was told that it ended, and it is {store.run(run.run_id).status}"


def letters(store: Store, crowd: Crowd, receiver: Receiver) -> Iterator[str]:
    """Messages of the channel, and every answer to them."""
    for number, found in crowd.written.items():
        event = store.event("default", found["event_id"]) if found else None
        if found and (event is None or event.run_id != found["run_id"]):
            yield f"letter {number} was acknowledged as {found} and is {event}"
    due = dict(_due(store))
    outbox = {row.delivery_id: row for row in store.outbox("default", None, None, 100_000)}
    yield from (f"{delivery_id} is in the outbox or due, not both" for delivery_id in outbox.keys() ^ due.keys())
    for delivery_id, row in outbox.items():
        text = receiver.texts.get(f"{delivery_id}.0")
        if row.status != "sent" or text is None or text != due.get(delivery_id):
            yield f"{delivery_id} is {row.status}, and {text!r} arrived for {due.get(delivery_id)!r}"


def _due(store: Store) -> Iterator[tuple[str, str]]:
    """Every message for the channel by its delivery, and a sentence for each failed run."""
    for record in all_records(store):
        if record.type in ("message.completed", "run.ended") and store.run(record.run_id).agent_id == CHAT:
            data = data_of(record)
            if record.type == "message.completed":
                yield f"{record.run_id}.{record.seq}", data["message"]["content"]
            elif data["status"] == "failed":
                yield f"{record.run_id}.{record.seq}", failure_sentence(record.run_id, data.get("code"))
