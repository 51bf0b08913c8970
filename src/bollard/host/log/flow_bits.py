"""What data brought along, as records say it: bits of `Flow`, 1 private, 2 untrusted, 4 sent out. Pure.

What outlives a run says what the run had touched when it was written. What only a run itself sees is said when there is
something new, by the next record of the host: so whoever replays a run knows as much as its owner did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["NO_BITS", "PRIVATE_BIT", "UNTRUSTED_BIT", "flow_in", "flow_told", "says_flow"]

NO_BITS: Final = 0
PRIVATE_BIT: Final = 1
UNTRUSTED_BIT: Final = 2
_ALL_BITS: Final = 7

_KEPT: Final = frozenset({"message.completed", "state.updated", "storage.updated", "artifact.created"})
"""What others read later."""
_TELLING: Final = frozenset({"run.started", "api.called", "steering.injected"})
"""What the host writes when a run has taken something in."""
_OTHERS: Final = frozenset(
    {"run.created", "action.started", "action.completed", "action.failed", "action.rejected", "action.unknown"}
)
"""What says it by itself."""
_ALL: Final = _KEPT | _TELLING | _OTHERS


def flow_in(data: JsonObject) -> int:
    """The bits that the data of a record has; one of before there were any has none."""
    bits = data.get("flow")
    return bits & _ALL_BITS if isinstance(bits, int) else NO_BITS


def flow_told(kind: str, data: JsonObject) -> int:
    """What a record of a run tells of what the run has touched. What a runner may write itself tells nothing."""
    return flow_in(data) if kind in _ALL else NO_BITS


def says_flow(kind: str, touched: int, told: int) -> bool:
    """Whether a record that is written now must say what its run has touched; `told` is what records said before."""
    return (kind in _KEPT and touched != NO_BITS) or (kind in _TELLING and touched != told)
