"""One file that proves what a run was: its event, its grant, its records, and the signed heads that they lead to.

A stranger checks it with the host's public key and nothing else. Between the records of the run stand the headers of
others, without their data: a link of the chain covers each of them. Making it blocks; checking it is pure.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from bollard.host.audit.heads import HeadLine
from bollard.host.errors import InvalidRequest, NotFound
from bollard.host.limits import PROOF_RECORDS, REPLAY_PAGE
from bollard.host.store.boundary import Store
from bollard.host.store.rows import HeadRow, RecordRow, RunRow
from bollard.trust import genesis

__all__ = ["KIND", "Proof", "ProvedGraph", "ProvedRecord", "Section", "prove", "write_proof"]

KIND: Final = "bollard-proof-1"


class ProvedRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A record as it was written. `data` is there where the record is about the run, unless retention dropped it."""

    position: int
    run_id: str | None = None
    seq: int | None = None
    epoch: int | None = None
    source_seq: int | None = None
    type: str
    observed: bool
    created_ms: int
    data_sha256: str
    hash: str
    data: str | None = None


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Records of one chain without a hole, up to the first signed head behind what is proved."""

    chain: str
    after_hash: str
    records: tuple[ProvedRecord, ...]
    head: HeadLine | None = None
    """Nothing where no head was signed since."""


class ProvedGraph(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the run could use, in the bytes that its grant quotes."""

    sha256: str
    json: str


class Proof(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The whole file."""

    kind: str = KIND
    run_id: str
    workspace: str
    event_id: str
    grant_sha256: str
    made_ms: int
    public_keys: dict[str, str]
    """Hex, by id: those of the host that made the proof. Who does not trust the file brings their own."""
    sections: tuple[Section, ...]
    graph: ProvedGraph | None = None


def write_proof(proof: Proof) -> bytes:
    return msgspec.json.format(msgspec.json.encode(proof), indent=1) + b"\n"


def prove(store: Store, run_id: str, public_keys: Mapping[str, str], now_ms: int) -> Proof:
    """Raises `NotFound`, and `InvalidRequest` where it would be too large."""
    run = store.run(run_id)
    if run is None:
        raise NotFound("there is no such run", hint="`bollard runs` lists them")
    points = [*_event_of(store, run), *_records_of(store, run_id)]
    heads: dict[str, list[HeadRow]] = defaultdict(list)
    for head in store.heads(run.workspace):
        heads[head.chain].append(head)
    return Proof(
        run_id=run_id,
        workspace=run.workspace,
        event_id=run.event_id,
        grant_sha256=run.grant_sha256,
        made_ms=now_ms,
        public_keys=dict(public_keys),
        sections=tuple(_sections(store, run.workspace, points, heads)),
        graph=_graph_of(store, run.workspace, points),
    )


def _records_of(store: Store, run_id: str) -> Iterator[RecordRow]:
    after = 0
    while rows := store.records_of_run(run_id, after, REPLAY_PAGE):
        yield from rows
        after = rows[-1].seq or 0


def _event_of(store: Store, run: RunRow) -> list[RecordRow]:
    """The record that the event came with; nothing where retention has forgotten the event."""
    event = store.event(run.workspace, run.event_id)
    if event is None:
        return []
    return [row for row in store.records(event.record_id - 1, 1) if row.id == event.record_id]


def _sections(
    store: Store, workspace: str, points: Sequence[RecordRow], heads: Mapping[str, Sequence[HeadRow]]
) -> Iterator[Section]:
    """The points that one head vouches for stand together."""
    together: dict[tuple[str, int | None], list[RecordRow]] = defaultdict(list)
    for row in points:
        signed = [head.position for head in heads.get(row.chain, ())]
        place = bisect_left(signed, row.position)
        together[row.chain, place if place < len(signed) else None].append(row)
    left = PROOF_RECORDS
    before_it: dict[str, tuple[int, int]] = {}
    """By chain: the number of the newest record of the run, and where its section ended."""
    for (chain, place), own in together.items():
        head = None if place is None else heads[chain][place]
        positions = [row.position for row in own]
        first, last = min(positions), max(positions) if head is None else head.position
        number, ended = before_it.get(chain, (0, first - 1))
        if (own[0].seq or number + 1) != number + 1:
            first = ended + 1  # deltas have numbers and no records: that nothing else was there is seen without a hole
        before_it[chain] = (own[-1].seq or 0, last)
        left -= last - first + 1
        if left < 0:
            raise InvalidRequest(
                f"the proof would have more than {PROOF_RECORDS} records",
                hint="take a backup instead: `bollard backup` holds the whole chain",
                field="run_id",
            )
        rows = list(_range(store, workspace, chain, first - 1, last))
        before = store.chain(workspace, chain, first - 2, 1) if first > 1 else []
        wanted = frozenset(positions)
        yield Section(
            chain=chain,
            after_hash=before[0].hash if before else genesis(workspace, chain),
            records=tuple(_proved(row, row.position in wanted) for row in rows),
            head=None if head is None else HeadLine.of(head),
        )


def _range(store: Store, workspace: str, chain: str, after: int, last: int) -> Iterator[RecordRow]:
    while after < last and (rows := store.chain(workspace, chain, after, min(REPLAY_PAGE, last - after))):
        yield from rows
        after = rows[-1].position


def _proved(row: RecordRow, with_data: bool) -> ProvedRecord:
    return ProvedRecord(
        position=row.position,
        run_id=row.run_id,
        seq=row.seq,
        epoch=row.epoch,
        source_seq=row.source_seq,
        type=row.type,
        observed=row.observed,
        created_ms=row.created_ms,
        data_sha256=row.data_sha256,
        hash=row.hash,
        data=row.data.decode() if with_data and row.data is not None else None,
    )


class _Granted(msgspec.Struct, frozen=True):
    graph_sha256: str | None = None


def _graph_of(store: Store, workspace: str, points: Sequence[RecordRow]) -> ProvedGraph | None:
    grant = next((row for row in points if row.type == "grant.issued" and row.data is not None), None)
    if grant is None or grant.data is None:
        return None
    sha256 = msgspec.json.decode(grant.data, type=_Granted).graph_sha256
    kept = None if sha256 is None else store.kept("graph", workspace, sha256)
    return None if sha256 is None or kept is None else ProvedGraph(sha256=sha256, json=kept.body.decode())
