"""Hash chains: records get their position in their workspace's chain, and heads are signed.

Each workspace has one chain per incarnation of the host. The first commit of a chain is signed at once, so a chain
without a signed head was not written by a host.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import msgspec

from bollard.host.clock import Clock
from bollard.host.limits import ENDS_CHAINS, ENDS_RECORDS, REPLAY_PAGE
from bollard.host.log.records import NewRecord
from bollard.host.store.rows import HeadRow, RecordRow
from bollard.host.store.store import Store
from bollard.trust import (
    BadSignature,
    ChainedRecord,
    Head,
    Header,
    HeadSigner,
    SignedHead,
    genesis,
    link,
    sha256_of,
    sign_head,
    verify_chain,
    verify_head,
)


class _Tip(msgspec.Struct, frozen=True):
    position: int
    hash: str
    signed_position: int
    signed_at: float


class ChainGrowth(NamedTuple):
    """A chain that has grown, and its new end."""

    workspace: str
    chain: str
    position: int
    hash: str


class Chains:
    """The tips of this incarnation's chains. A commit works on a fork, which is adopted once it is on disk."""

    def __init__(self, incarnation: str, key: HeadSigner, clock: Clock, *, every_records: int, every_s: float) -> None:
        self._incarnation = incarnation
        self._key = key
        self._clock = clock
        self._every_records = every_records
        self._every_s = every_s
        self._tips: dict[str, _Tip] = {}

    def fork(self) -> "Chains":
        fork = Chains(
            self._incarnation, self._key, self._clock, every_records=self._every_records, every_s=self._every_s
        )
        fork._tips = dict(self._tips)
        return fork

    def adopt(self, fork: "Chains") -> None:
        self._tips = fork._tips

    def tip_of(self, workspace: str) -> tuple[str, int, str]:
        """The chain of a workspace, its newest position and the hash there."""
        tip = self._tip(workspace)
        return self._incarnation, tip.position, tip.hash

    def resume(self, workspace: str, position: int, hash_: str, signed_position: int) -> bool:
        """Continue after the newest record on disk. Returns whether the tip has changed."""
        before = self._tip(workspace)
        self._tips[workspace] = _Tip(position, hash_, signed_position, before.signed_at)
        return (before.position, before.signed_position) != (position, signed_position)

    def grown_since(self, before: "Chains") -> list[ChainGrowth]:
        """Each chain that is longer than in `before`."""
        return [
            ChainGrowth(workspace, self._incarnation, tip.position, tip.hash)
            for workspace, tip in self._tips.items()
            if tip.position > (before._tips[workspace].position if workspace in before._tips else 0)
        ]

    def chain(self, records: Sequence[NewRecord], first_id: int) -> list[RecordRow]:
        """Build the rows of `records`, linked in this order."""
        rows: list[RecordRow] = []
        for offset, record in enumerate(records):
            tip = self._tip(record.workspace)
            header = Header(
                record.workspace,
                self._incarnation,
                tip.position + 1,
                record.run_id,
                record.seq,
                record.epoch,
                record.source_seq,
                record.type,
                record.observed,
                record.created_ms,
                sha256_of(record.data),
            )
            hash_ = link(tip.hash, header)
            self._tips[record.workspace] = _Tip(tip.position + 1, hash_, tip.signed_position, tip.signed_at)
            rows.append(
                RecordRow(
                    id=first_id + offset,
                    workspace=record.workspace,
                    chain=self._incarnation,
                    position=header.position,
                    run_id=record.run_id,
                    seq=record.seq,
                    epoch=record.epoch,
                    source_seq=record.source_seq,
                    type=record.type,
                    observed=record.observed,
                    created_ms=record.created_ms,
                    data=record.data,
                    data_sha256=header.data_sha256,
                    hash=hash_,
                )
            )
        return rows

    def due_heads(self, *, closing: bool = False) -> list[HeadRow]:
        """Sign the heads that are due; when closing, all unsigned heads."""
        now = self._clock.monotonic()
        due: list[HeadRow] = []
        for workspace, tip in self._tips.items():
            unsigned = tip.position - tip.signed_position
            old = now - tip.signed_at >= self._every_s
            new = not tip.signed_position
            if unsigned >= self._every_records or (unsigned and (new or old or closing)):
                due.append(self._sign(workspace, tip))
                self._tips[workspace] = _Tip(tip.position, tip.hash, tip.position, now)
        return due

    def seconds_until_due(self) -> float:
        """Seconds until the oldest unsigned head must be signed."""
        now = self._clock.monotonic()
        waits = [
            self._every_s - (now - tip.signed_at) for tip in self._tips.values() if tip.position > tip.signed_position
        ]
        return max(0.0, min(waits, default=self._every_s))

    def _tip(self, workspace: str) -> _Tip:
        tip = self._tips.get(workspace)
        if tip is None:
            tip = _Tip(0, genesis(workspace, self._incarnation), 0, self._clock.monotonic())
            self._tips[workspace] = tip
        return tip

    def _sign(self, workspace: str, tip: _Tip) -> HeadRow:
        return new_head(workspace, self._incarnation, tip.position, tip.hash, self._clock.now_ms(), self._key)


def new_head(workspace: str, chain: str, position: int, hash_: str, now_ms: int, key: HeadSigner) -> HeadRow:
    """Sign a head."""
    head = Head(workspace=workspace, chain=chain, position=position, hash=hash_, created_ms=now_ms)
    signed = sign_head(head, key)
    return HeadRow(
        workspace=workspace,
        chain=chain,
        position=position,
        hash=hash_,
        created_ms=now_ms,
        key_id=signed.key_id,
        signature=signed.signature,
    )


def chained(row: RecordRow) -> ChainedRecord:
    """Convert a stored record for the chain verifier."""
    header = Header(
        row.workspace,
        row.chain,
        row.position,
        row.run_id,
        row.seq,
        row.epoch,
        row.source_seq,
        row.type,
        row.observed,
        row.created_ms,
        row.data_sha256,
    )
    return ChainedRecord(header, row.data, row.hash)


def signed_head(row: HeadRow) -> SignedHead:
    """Convert a stored head for the signature verifier."""
    head = Head(
        workspace=row.workspace, chain=row.chain, position=row.position, hash=row.hash, created_ms=row.created_ms
    )
    return SignedHead(head=head, key_id=row.key_id, signature=row.signature)


def sign_ends(store: Store, key: HeadSigner, now_ms: int) -> list[HeadRow]:
    """Sign the unsigned ends of chains whose writer was killed, in one commit. Returns the new heads.

    Runs before this incarnation writes anything. Records without a head could never be proved. The end of a chain is
    verified from its last head, which must be signed by the same key, so a forged chain is not signed. Raises
    `HostError`.
    """
    signed: list[HeadRow] = []
    left = ENDS_RECORDS
    for head in store.lagging_heads(key.verify_key.key_id, ENDS_CHAINS):
        if not _is_signed(head, key):
            continue
        rows = islice(_records_after(store, head), left)
        end = verify_chain(head.workspace, head.chain, rows, after_position=head.position, after_hash=head.hash)
        left -= end.records
        if end.fault is None and end.records:  # a damaged end stays unsigned: `bollard audit verify` reports it
            signed.append(new_head(head.workspace, head.chain, end.position, end.hash, now_ms, key))
    if signed:
        with store.write() as transaction:
            for row in signed:
                transaction.add_head(row)
    return signed


def _records_after(store: Store, head: HeadRow) -> Iterator[ChainedRecord]:
    after = head.position
    while rows := store.chain(head.workspace, head.chain, after, REPLAY_PAGE):
        yield from map(chained, rows)
        after = rows[-1].position


def _is_signed(head: HeadRow, key: HeadSigner) -> bool:
    try:
        verify_head(signed_head(head), key.verify_key)
    except BadSignature:
        return False
    return True
