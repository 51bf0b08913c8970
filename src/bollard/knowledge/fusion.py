"""Puts several orders of the same things into one: reciprocal rank fusion. Pure."""

from collections.abc import Sequence
from typing import Final

__all__ = ["fused"]

_DAMPING: Final = 60
"""How little the first places differ: the usual number."""


def fused(orders: Sequence[Sequence[int]]) -> list[tuple[int, float]]:
    """Best first, with a score: 1 for what is first everywhere, and near 0 for what is last in one order only."""
    scores: dict[int, float] = {}
    for order in orders:
        for place, number in enumerate(order):
            scores[number] = scores.get(number, 0.0) + 1.0 / (_DAMPING + 1 + place)
    best = len(orders) / (_DAMPING + 1)
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    return [(number, score / best) for number, score in ranked]
