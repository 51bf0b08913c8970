"""Shared check of log tests: a store's chains verify under their signed heads."""

from collections.abc import Callable

import pytest

from bollard.host.store.store import Store
from bollard.trust import ChainedRecord, Head, Header, SignedHead, verify_chain, verify_head
from bollard.trust.keys import SigningKey


@pytest.fixture
def verified(signing_key: SigningKey) -> Callable[..., None]:
    """Fails unless a chain is whole, `length` long, and every signed head of it fits."""

    def verify(store: Store, chain: str, length: int, workspace: str = "default") -> None:
        rows = store.chain(workspace, chain, 0, 100_000)
        heads = [head for head in store.heads(workspace) if head.chain == chain]
        for row in heads:
            head = Head(
                workspace=row.workspace,
                chain=row.chain,
                position=row.position,
                hash=row.hash,
                created_ms=row.created_ms,
            )
            verify_head(SignedHead(head=head, key_id=row.key_id, signature=row.signature), signing_key.verify_key)
        chained = [
            ChainedRecord(
                Header(
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
                ),
                row.data,
                row.hash,
            )
            for row in rows
        ]
        report = verify_chain(workspace, chain, chained, heads={row.position: row.hash for row in heads})
        assert report.fault is None, report.fault
        assert report.position == length

    return verify
