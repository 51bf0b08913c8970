"""Signs the ends of chains whose writer was killed: nobody else does, and what no head covers can never be proved.

A writer signs a chain with its first commit and at least every thousand records, so what it left unsigned is short. It
is followed from the last head, which must be signed by the same key: a chain that somebody made up is not vouched for.
"""

from collections.abc import Iterator
from itertools import islice

from bollard.host.limits import ENDS_CHAINS, ENDS_RECORDS, REPLAY_PAGE
from bollard.host.log.chaining import chained, new_head, signed_head
from bollard.host.store.boundary import Store
from bollard.host.store.rows import HeadRow
from bollard.trust import BadSignature, ChainedRecord, HeadSigner, verify_chain, verify_head

__all__ = ["sign_ends"]


def sign_ends(store: Store, key: HeadSigner, now_ms: int) -> list[HeadRow]:
    """Before this incarnation writes anything, in one commit; the heads that were signed. Raises `HostError`."""
    signed: list[HeadRow] = []
    left = ENDS_RECORDS
    for head in store.lagging_heads(key.verify_key.key_id, ENDS_CHAINS):
        if not _is_signed(head, key):
            continue
        rows = islice(_behind(store, head), left)
        end = verify_chain(head.workspace, head.chain, rows, after_position=head.position, after_hash=head.hash)
        left -= end.records
        if end.fault is None and end.records:  # what is not sound stays unsigned: `bollard audit verify` names it
            signed.append(new_head(head.workspace, head.chain, end.position, end.hash, now_ms, key))
    if signed:
        with store.write() as transaction:
            for row in signed:
                transaction.add_head(row)
    return signed


def _behind(store: Store, head: HeadRow) -> Iterator[ChainedRecord]:
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
