"""The verification of a whole log: every link of every chain, against signed heads and witnesses. Pure.

Records come as plain tuples in the order of their ids, as fast as a database hands them out. A chain that is broken
somewhere is not followed any further; the others are.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from bollard.host.audit.heads import HeadLine, is_signed
from bollard.host.log.retention import ERASURES, STANDING
from bollard.host.store.rows import HeadRow, RecordRow
from bollard.trust import genesis
from bollard.trust.keys import VerifyKey

RECORD_COLUMNS: Final = RecordRow.__struct_fields__
"""The columns of a record tuple, in order."""
PROBLEMS_TOLD: Final = 100
"""The limit of collected problems."""
ProblemKind = Literal[
    "edited",
    "data_edited",
    "data_gone",
    "missing",
    "order",
    "unreadable",
    "head_mismatch",
    "head_signature",
    "head_unknown_key",
    "truncated",
    "unsigned_chain",
    "beyond_end",
    "witness",
    "archive",
]
_Chain = tuple[str, str]
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem and its position."""

    kind: ProblemKind
    workspace: str
    chain: str
    position: int
    detail: str
    record_id: int | None = None


class LogReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a verification. Without problems all signed records are unchanged."""

    records: int
    chains: int
    heads: int
    """Checked signed heads, including those of witnesses."""
    dropped: int
    """Records whose data retention dropped."""
    unsigned: int
    """Records after the last signed head of their chain."""
    unwitnessed: int
    """Chains without a witness. Their end could have been removed together with its heads."""
    witnessed: bool
    """Whether a witness has the chains of the newest incarnation."""
    problems: tuple[Problem, ...]


VerificationState = Literal["never", "running", "verified", "broken", "failed"]


class VerificationStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The newest verification."""

    state: VerificationState = "never"
    started_ms: int | None = None
    ended_ms: int | None = None
    done: int = 0
    """Verified records."""
    total: int = 0
    unsigned: int = 0
    """Records after the last signed head of their chain."""
    witnessed: bool = False
    problems: tuple[Problem, ...] = ()
    failure: str = ""
    """Why the log could not be read."""


@dataclass(slots=True)
class _Tip:
    """The verified end of a chain."""

    position: int
    hash: str
    wanted: dict[int, str]
    """The hashes of signed heads that are not reached yet, by position."""
    signed: int
    """The newest position with a head."""
    closed: int | None = None
    witnessed: bool = False
    broken: bool = False
    last_id: int | None = None


@dataclass(slots=True)
class _Drops:
    """Missing data, and the records that account for it."""

    total: int = 0
    gone: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """Missing data that must be accounted for, by workspace."""
    first: dict[tuple[str, str], Problem] = field(default_factory=dict[tuple[str, str], Problem])
    purged: Counter[str] = field(default_factory=Counter[str])
    erased: Counter[str] = field(default_factory=Counter[str])
    """The part of `purged` that erasures dropped: only they drop data that is in effect."""


class LogWalk:
    """One verification: heads first, then all records, then the end."""

    def __init__(self, keys: Mapping[str, VerifyKey]) -> None:
        """`keys` are the trusted public keys, by id."""
        self._keys = keys
        self._tips: dict[_Chain, _Tip] = {}
        self._drops = _Drops()
        self._records = 0
        self._heads = 0
        self._newest = ""
        """The chain of the newest record."""
        self._problems: list[Problem] = []

    # --- heads ---

    def add_head(self, row: HeadRow) -> None:
        """Add a head of the store."""
        self._take_head(row, closed=False)

    def add_archived(self, line: HeadLine) -> None:
        """Add a head of an archive, which the store may no longer have."""
        self._take_head(line.row(), closed=line.closed)

    def add_witnessed(self, line: HeadLine) -> None:
        """Add a head of a witness."""
        if (tip := self._take_head(line.row(), closed=line.closed)) is not None:
            tip.witnessed = True

    def _take_head(self, row: HeadRow, *, closed: bool) -> "_Tip | None":
        if row.key_id not in self._keys:
            self._add(_of_head(row, "head_unknown_key", f"a head is signed by key {row.key_id}, which is not known"))
            return None
        if not is_signed(row, self._keys):
            self._add(_of_head(row, "head_signature", f"a head is not signed by key {row.key_id}"))
            return None
        self._heads += 1
        tip = self._tip(row.workspace, row.chain)
        if tip.wanted.setdefault(row.position, row.hash) != row.hash:
            self._add(_of_head(row, "head_mismatch", "two signed heads name different hashes"))
        tip.signed = max(tip.signed, row.position)
        if closed:
            tip.closed = row.position
        return tip

    # --- records ---

    def feed(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Verify records in the order of their ids; booleans may be 0 and 1. This is the hot loop of a verification."""
        sha256, encode, tips = hashlib.sha256, _encode, self._tips
        here = there = ""
        tip = _Tip(0, "", {}, 0)
        count = 0
        for row in rows:
            _id, workspace, chain, position, run, seq, epoch, source, kind, observed, at, data, digest, hash_ = row
            count += 1
            if chain != there or workspace != here:
                here, there = workspace, chain
                tip = tips.get((workspace, chain)) or self._tip(workspace, chain)
            if tip.broken:
                continue
            expected = tip.position + 1
            try:
                if observed.__class__ is int:  # SQLite has no booleans; no host writes another number
                    observed = _FLAGS[observed]
                header = (workspace, chain, position, run, seq, epoch, source, kind, observed, at, digest)
                linked = sha256(tip.hash.encode() + encode(header)).hexdigest()
                sound = position == expected and linked == hash_
                if data is None:
                    self._gone(row)
                elif sha256(data).hexdigest() != digest:
                    sound = False
            except (TypeError, ValueError, KeyError, msgspec.MsgspecError):  # a value of a type that no host writes
                linked, sound = "", False
            wanted = tip.wanted
            if not sound or (expected in wanted and wanted.pop(expected) != linked):
                self._break(tip, row, linked)
                continue
            if kind in _TELLING:
                self._hear(row)
            tip.position, tip.hash, tip.last_id = expected, linked, _id
        self._records += count
        self._newest = there or self._newest

    def _tip(self, workspace: str, chain: str) -> _Tip:
        tip = self._tips.get((workspace, chain))
        if tip is None:
            tip = self._tips[workspace, chain] = _Tip(0, genesis(workspace, chain), {}, 0)
        return tip

    def _break(self, tip: _Tip, row: tuple[Any, ...], linked: str) -> None:
        """Find the exact problem of a record that failed the check."""
        record_id, workspace, chain, position, *_, data, digest, hash_ = row
        expected = tip.position + 1
        kind: ProblemKind
        if not linked or not isinstance(position, int):
            kind, detail = "unreadable", "it holds a value that no host writes"
        elif position > expected:
            kind, detail = "missing", f"record {expected} is missing, {position} follows"
        elif position < expected:
            kind, detail = "order", f"record {position} stands where {expected} should"
        elif linked != hash_:
            kind, detail = "edited", "its header or its hash was changed, or a record before it"
        elif data is not None and hashlib.sha256(data).hexdigest() != digest:
            kind, detail = "data_edited", "its data was changed"
        else:
            kind, detail = (
                "head_mismatch",
                "a signed head has another hash: this record and earlier ones were rewritten",
            )
        self._add(
            Problem(
                kind=kind,
                workspace=str(workspace),
                chain=str(chain),
                position=expected,
                record_id=record_id if isinstance(record_id, int) else None,
                detail=detail,
            )
        )
        tip.broken = True

    def _gone(self, row: tuple[Any, ...]) -> None:
        record_id, workspace, chain, position, *_ = row
        kind: str = row[8]
        self._drops.total += 1
        self._drops.gone.setdefault(workspace, Counter())[kind] += 1
        problem = Problem(
            kind="data_gone", workspace=workspace, chain=chain, position=position, record_id=record_id, detail=kind
        )
        self._drops.first.setdefault((workspace, kind), problem)

    def _hear(self, row: tuple[Any, ...]) -> None:
        """Read a record that accounts for missing data."""
        workspace, kind, data = row[1], row[8], row[11]
        if kind == "workspace.imported":
            # Data that an export withheld is not accounted for. Later drops happened on this host, and are.
            for each in self._drops.gone.pop(workspace, ()):
                del self._drops.first[workspace, each]
        elif data is not None:
            for dropped, count in _decode(data).get("dropped", {}).items():
                self._drops.purged[dropped] += count
                self._drops.erased[dropped] += count if kind in ERASURES else 0

    # --- the end ---

    def finish(self) -> LogReport:
        unsigned = 0
        for (workspace, chain), tip in self._tips.items():
            if not tip.broken:
                unsigned += max(0, tip.position - tip.signed)
                self._check_end(workspace, chain, tip)
        self._check_drops()
        return LogReport(
            records=self._records,
            chains=len(self._tips),
            heads=self._heads,
            dropped=self._drops.total,
            unsigned=unsigned,
            unwitnessed=sum(not tip.witnessed for tip in self._tips.values()),
            witnessed=bool(self._newest)
            and all(tip.witnessed for (_, chain), tip in self._tips.items() if chain == self._newest),
            problems=tuple(self._problems),
        )

    def _check_end(self, workspace: str, chain: str, tip: _Tip) -> None:
        kind: ProblemKind
        position = tip.position + 1
        if tip.wanted:
            kind, detail = (
                "truncated",
                f"a signed head names record {max(tip.wanted)}, the chain ends at {tip.position}",
            )
        elif not tip.signed:
            kind, position, detail = "unsigned_chain", 1, "no signed head names any record of this chain"
        elif tip.closed is not None and tip.position > tip.closed:
            kind, position = "beyond_end", tip.closed + 1
            detail = f"its writer ended with record {tip.closed}, and records follow"
        else:
            return
        self._add(
            Problem(
                kind=kind, workspace=workspace, chain=chain, position=position, record_id=tip.last_id, detail=detail
            )
        )

    def _check_drops(self) -> None:
        """Compare the missing data with the drops that retention recorded. More is missing only after tampering."""
        drops = self._drops
        gone = sum(drops.gone.values(), Counter[str]())
        for kind, count in gone.items():
            first = next(drops.first[workspace, kind] for workspace in drops.gone if (workspace, kind) in drops.first)
            if kind in STANDING and count <= drops.erased[kind]:
                continue
            if kind in STANDING:
                detail = f"the data of a {kind} record is gone, but retention never drops it"
            elif kind == _PURGED and not drops.purged[kind]:
                detail = f"the data of {count} {kind} records is gone, but no later record says that it was dropped"
            elif count > drops.purged[kind] and not gone[_PURGED]:  # otherwise the number of dropped records is unknown
                detail = f"the data of {count} {kind} records is gone, but the log says that "
                detail += f"{drops.purged[kind]} were dropped"
            else:
                continue
            self._add(
                Problem(
                    kind="data_gone",
                    workspace=first.workspace,
                    chain=first.chain,
                    position=first.position,
                    record_id=first.record_id,
                    detail=detail,
                )
            )

    def add_problem(self, problem: Problem) -> None:
        """Add a problem of a witness or an archive that cannot be read."""
        self._add(problem)

    def _add(self, problem: Problem) -> None:
        if len(self._problems) < PROBLEMS_TOLD:
            self._problems.append(problem)


_FLAGS: Final[Mapping[object, bool]] = {0: False, 1: True}
_PURGED: Final = "retention.purged"
_TELLING: Final = frozenset({_PURGED, "workspace.imported", *ERASURES})


def _of_head(row: HeadRow, kind: ProblemKind, detail: str) -> Problem:
    return Problem(kind=kind, workspace=row.workspace, chain=row.chain, position=row.position, detail=detail)
