"""Signed heads as JSON lines, as a witness stores them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from bollard.host.log.chain import signed_head
from bollard.host.reason import Why, why
from bollard.host.store.rows import HeadRow
from bollard.trust import BadSignature, SignedHead, verify_head
from bollard.trust.keys import VerifyKey

_HASH_CHARACTERS: Final = 64
_encode: Final = msgspec.json.Encoder().encode


class UnreadableHead(Exception):
    """A line is not a head. `line` counts from 1."""

    def __init__(self, line: int, why: Why) -> None:
        super().__init__(why.sentence)
        self.line = line
        self.why = why


class HeadLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A head as it is written outside of the log."""

    workspace: str
    chain: str
    position: int
    hash: str
    created_ms: int
    key_id: str
    signature: str
    """Hex."""
    closed: bool = False
    """Whether the writer of the chain has ended: no record may follow."""

    @classmethod
    def of(cls, row: HeadRow, *, closed: bool = False) -> HeadLine:
        return cls(
            workspace=row.workspace,
            chain=row.chain,
            position=row.position,
            hash=row.hash,
            created_ms=row.created_ms,
            key_id=row.key_id,
            signature=row.signature.hex(),
            closed=closed,
        )

    def row(self) -> HeadRow:
        """The head as a row. Raises `ValueError` if the signature is not hex."""
        return HeadRow(
            workspace=self.workspace,
            chain=self.chain,
            position=self.position,
            hash=self.hash,
            created_ms=self.created_ms,
            key_id=self.key_id,
            signature=bytes.fromhex(self.signature),
        )

    def signed(self) -> SignedHead:
        return signed_head(self.row())


_decode: Final = msgspec.json.Decoder(HeadLine).decode


def head_line(row: HeadRow, *, closed: bool = False) -> bytes:
    """The line for a witness, with its line end."""
    return _encode(HeadLine.of(row, closed=closed)) + b"\n"


def read_heads_of(lines: Iterable[bytes]) -> Iterator[HeadLine]:
    """Parse the heads of a witness. An incomplete last line was never confirmed, and is skipped. Raises
    `UnreadableHead`."""
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            return
        if not line.strip() or (line.startswith(b"{") and not line.endswith(b"}\n")):
            continue
        try:
            head = _decode(line)
            head.signed()
        except (msgspec.MsgspecError, ValueError) as error:
            inner = {"problem": str(error)}
            problem = why(f"it is not a signed head: {error}", "head.not_signed", line=number, inner=inner)
            raise UnreadableHead(number, problem) from error
        if head.position < 1 or len(head.hash) != _HASH_CHARACTERS:
            raise UnreadableHead(number, why("it names no place in a chain", "head.no_place", line=number))
        yield head


def is_signed(row: HeadRow, keys: Mapping[str, VerifyKey]) -> bool:
    """Whether one of these keys signed the head; false if its key is unknown."""
    key = keys.get(row.key_id)
    if key is None:
        return False
    try:
        verify_head(signed_head(row), key)
    except BadSignature:
        return False
    return True
