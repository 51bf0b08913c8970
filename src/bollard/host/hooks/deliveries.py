"""The last requests of a webhook route, in memory.

They are not in the log: an accepted request is an event there already, and a stranger must not be able to fill the disk
with refused ones. Accepted and refused requests have places of their own, so that a flood of forged requests hides no
accepted one. A restart empties the list.
"""

from collections import deque
from typing import Literal

import msgspec

from bollard.host.hooks.limits import HOOK_DELIVERIES

Outcome = Literal["accepted", "repeated", "handshake", "ignored", "refused", "failed"]
"""`refused`: not verified; `failed`: verified, but not accepted."""


class HookDelivery(msgspec.Struct, frozen=True, kw_only=True):
    """One request. `reason` is the verdict of the verifier, or the reason of an error."""

    received_ms: int
    outcome: Outcome
    size_bytes: int
    reason: str | None = None
    topic: str | None = None
    message_id: str | None = None
    event_id: str | None = None
    run_id: str | None = None


class HookDeliveries:
    """The last requests of one route."""

    def __init__(self) -> None:
        self._count = 0
        self._verified: deque[tuple[int, HookDelivery]] = deque(maxlen=HOOK_DELIVERIES)
        self._refused: deque[tuple[int, HookDelivery]] = deque(maxlen=HOOK_DELIVERIES)

    def add(self, delivery: HookDelivery) -> None:
        self._count += 1  # several requests may come in one millisecond
        (self._refused if delivery.outcome == "refused" else self._verified).append((self._count, delivery))

    def newest_first(self) -> list[HookDelivery]:
        numbered = sorted((*self._verified, *self._refused), key=lambda each: -each[0])
        return [delivery for _, delivery in numbered]
