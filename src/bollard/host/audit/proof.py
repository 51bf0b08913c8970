"""The proof of a run in one file: its event, its grant, its records, and the signed heads that cover them.

A third party verifies it with the host's public key alone. Between the records of the run are the headers of other
records, without their data, because the links of the chain cover them. Building a proof blocks; verifying one is pure.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from bollard.host.audit.heads import HeadLine, is_signed
from bollard.host.errors import ExplainedError, InvalidRequest, NotFound
from bollard.host.limits import PROOF_RECORDS, REPLAY_PAGE
from bollard.host.reason import Why, why
from bollard.host.store.rows import HeadRow, RecordRow, RunRow
from bollard.host.store.store import Store
from bollard.trust import ChainedRecord, Header, genesis, sha256_of, verify_chain
from bollard.trust.keys import VerifyKey

KIND: Final = "bollard-proof-1"


class ProvedRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A record. `data` is present if the record belongs to the run, unless retention dropped it."""

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
    """Consecutive records of one chain, up to the first signed head after the proved records."""

    chain: str
    after_hash: str
    records: tuple[ProvedRecord, ...]
    head: HeadLine | None = None
    """`None` if no head was signed since."""


class ProvedGraph(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The capabilities of the run, in the bytes that its grant hashes."""

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
    """The host's public keys in hex, by id. A verifier that does not trust the file uses its own copy."""
    sections: tuple[Section, ...]
    graph: ProvedGraph | None = None


def write_proof(proof: Proof) -> bytes:
    return msgspec.json.format(msgspec.json.encode(proof), indent=1) + b"\n"


def prove(store: Store, run_id: str, public_keys: Mapping[str, str], now_ms: int) -> Proof:
    """Build the proof of a run. Raises `NotFound`, and `InvalidRequest` if it would be too large."""
    run = store.run(run_id)
    if run is None:
        raise NotFound("there is no such run", reason="no_run", hint="`bollard runs` lists the newest")
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
    """The record of the event; none if retention dropped the event."""
    event = store.event(run.workspace, run.event_id)
    if event is None:
        return []
    return [row for row in store.records(event.record_id - 1, 1) if row.id == event.record_id]


def _sections(
    store: Store, workspace: str, points: Sequence[RecordRow], heads: Mapping[str, Sequence[HeadRow]]
) -> Iterator[Section]:
    """Group the records by the head that covers them."""
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
                reason="proof_too_large",
                hint="use `bollard backup` instead, which contains the whole chain",
                field="run_id",
                limit=PROOF_RECORDS,
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


# Verifies the proof of a run with the file and a public key, without the host. Pure.


T = TypeVar("T", bound=msgspec.Struct)
PROOF_BYTES: Final = 1 << 30
"""The largest accepted file."""


class ProofReport(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a verified proof."""

    run_id: str
    workspace: str
    records: int
    """Records of the run, and its event."""
    without_data: int
    """Records without data: it was dropped, or withheld."""
    unsigned: int
    """Records that no signed head covers."""
    ended: bool
    key_ids: tuple[str, ...]
    """The keys that signed."""
    problems: tuple[Why, ...]

    @property
    def proved(self) -> bool:
        return not self.problems and not self.unsigned


class _Created(msgspec.Struct, frozen=True):
    run_id: str
    event_id: str
    grant_sha256: str


class _Event(msgspec.Struct, frozen=True):
    event_id: str


class UnreadableProof(ExplainedError):
    """A file is not a proof that this version knows."""


def read_proof(text: bytes) -> Proof:
    """Raises `UnreadableProof`."""
    if len(text) > PROOF_BYTES:
        raise UnreadableProof(f"it has more than {PROOF_BYTES} bytes", "proof.too_large", limit=PROOF_BYTES)
    try:
        proof = msgspec.json.decode(text, type=Proof)
    except msgspec.MsgspecError as error:
        inner = {"problem": str(error)}
        raise UnreadableProof(f"it is not a proof: {error}", "proof.not_a_proof", inner=inner) from error
    if proof.kind != KIND:
        problem = f"it is a {proof.kind!r}, and this version knows {KIND}"
        raise UnreadableProof(problem, "proof.kind", kind=proof.kind, known=KIND)
    return proof


def check_proof(proof: Proof, keys: Mapping[str, VerifyKey]) -> ProofReport:
    """`keys` are the trusted public keys, by id."""
    problems: list[Why] = []
    own: list[ProvedRecord] = []
    unsigned = 0
    for section in proof.sections:
        problems.extend(_section_problems(proof.workspace, section, keys))
        found = [record for record in section.records if _is_own(record, proof)]
        own += found
        unsigned += len(found) if section.head is None else 0
    problems.extend(_story_problems(proof, own))
    problems.extend(_hole_problems(proof))
    return ProofReport(
        run_id=proof.run_id,
        workspace=proof.workspace,
        records=len(own),
        without_data=sum(record.data is None for record in own),
        unsigned=unsigned,
        ended=any(record.type == "run.ended" for record in own),
        key_ids=tuple(sorted({each.head.key_id for each in proof.sections if each.head is not None})),
        problems=tuple(problems),
    )


def _is_own(record: ProvedRecord, proof: Proof) -> bool:
    if record.run_id is not None:
        return record.run_id == proof.run_id
    return record.type == "event.received" and record.data is not None


def _section_problems(workspace: str, section: Section, keys: Mapping[str, VerifyKey]) -> Iterator[Why]:
    if not section.records:
        sentence = f"a section of chain {section.chain} holds no records"
        yield why(sentence, "proof.empty_section", chain=section.chain)
        return
    head, first = section.head, section.records[0].position
    report = verify_chain(
        workspace,
        section.chain,
        (_chained(workspace, section.chain, record) for record in section.records),
        after_position=first - 1,
        after_hash=section.after_hash,
        heads={} if head is None else {head.position: head.hash},
    )
    if (fault := report.fault) is not None:
        sentence = f"chain {section.chain}, record {fault.position}: {fault.detail}"
        inner = {"problem": fault.detail, "problem_type": f"log.{fault.kind}", "position": fault.position}
        yield why(sentence, "proof.fault", chain=section.chain, position=fault.position, inner=inner)
    if head is None:
        return
    if (head.workspace, head.chain, head.position) != (workspace, section.chain, section.records[-1].position):
        yield why(f"chain {section.chain}: its head is of another place", "proof.other_head", chain=section.chain)
    try:
        known = is_signed(head.row(), keys)
    except ValueError:
        known = False
    if not known:
        doubt, kind = "and the signature does not fit", "proof.bad_signature"
        if head.key_id not in keys:
            doubt, kind = "which is not the one you trust", "proof.untrusted_key"
        sentence = f"chain {section.chain}: its head at {head.position} names key {head.key_id}, {doubt}"
        yield why(sentence, kind, chain=section.chain, position=head.position, key=head.key_id)


def _chained(workspace: str, chain: str, record: ProvedRecord) -> ChainedRecord:
    header = Header(
        workspace,
        chain,
        record.position,
        record.run_id,
        record.seq,
        record.epoch,
        record.source_seq,
        record.type,
        record.observed,
        record.created_ms,
        record.data_sha256,
    )
    return ChainedRecord(header, None if record.data is None else record.data.encode(), record.hash)


def _story_problems(proof: Proof, own: list[ProvedRecord]) -> Iterator[Why]:
    """The differences between the proved records and the subject that the file states."""
    by_type = {record.type: record for record in reversed(own)}
    created, granted = by_type.get("run.created"), by_type.get("grant.issued")
    if created is None or granted is None:
        yield why("the records of the run's creation and grant are missing", "proof.no_origin")
        return
    numbers = [record.seq for record in own if record.seq is not None]
    if numbers != sorted(set(numbers)):
        yield why("the records of the run are not in order", "proof.order")
    # Retention never drops this record, so its absence is an attempt to deceive.
    facts = None if created.data is None else _read(created.data, _Created)
    if facts is None or (facts.run_id, facts.event_id) != (proof.run_id, proof.event_id):
        sentence = "the run was created for another event, is another run, or does not name its event"
        yield why(sentence, "proof.other_event")
    elif granted.data_sha256 != facts.grant_sha256 or proof.grant_sha256 != facts.grant_sha256:
        yield why("the grant is not the one that the run was created with", "proof.other_grant")
    event = by_type.get("event.received")
    if event is not None and event.data is not None:
        recorded = _read(event.data, _Event)
        if recorded is None or recorded.event_id != proof.event_id:
            yield why("the event is not the one that the run is for", "proof.event")
    yield from _graph_problems(proof, granted)


def _graph_problems(proof: Proof, granted: ProvedRecord) -> Iterator[Why]:
    quoted = None if granted.data is None else _read(granted.data, _Granted)
    if proof.graph is None:
        return
    digest = sha256_of(proof.graph.json.encode())
    if quoted is None:
        yield why("the grant has no data, so the digest of the graph cannot be checked", "proof.no_grant_data")
    elif digest != proof.graph.sha256 or quoted.graph_sha256 != digest:
        yield why("the graph is not the one that the grant quotes", "proof.other_graph")


def _hole_problems(proof: Proof) -> Iterator[Why]:
    """Records of one chain whose neighbours are missing must have consecutive numbers; otherwise records of the run may
    have been left out. This cannot be checked between two chains."""
    before: tuple[Section, int] | None = None
    for section in proof.sections:
        numbers = [record.seq for record in section.records if record.run_id == proof.run_id and record.seq is not None]
        if not numbers:
            continue
        if before is not None and before[0].chain == section.chain:
            follows = section.records[0].position == before[0].records[-1].position + 1
            if not follows and numbers[0] != before[1] + 1:
                first, last = before[1], numbers[0]
                sentence = f"chain {section.chain}: records between the numbers {first} and {last} were left out"
                yield why(sentence, "proof.left_out", chain=section.chain, first=first, last=last)
        before = (section, numbers[-1])


def _read(data: str, shape: type[T]) -> T | None:
    try:
        return msgspec.json.decode(data, type=shape)
    except msgspec.MsgspecError:
        return None
