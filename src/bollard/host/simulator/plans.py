"""What a simulated message asks of its runner: drawn from dice, carried by the event, read by the scripted worker."""

from random import Random
from typing import Final, Literal

import msgspec

__all__ = ["Plan", "draw_plan", "plan_of", "plan_of_text"]

Ending = Literal["completes", "fails", "quits", "dies", "hangs", "deaf", "mute"]
"""One that quits calls its failure a cancel."""

_Weights = dict[Ending, int]
_ENDINGS: Final[_Weights] = {"completes": 14, "fails": 2, "quits": 1, "dies": 1, "hangs": 1, "deaf": 1, "mute": 1}
_CHILD_ENDINGS: Final[_Weights] = {"completes": 5, "fails": 1, "hangs": 1}
_DEEPEST: Final = 5
"""One more than may be, so that the limit is met."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How one run goes."""

    deltas: int = 0
    pauses: float = 0.0
    """How often it rests for a moment behind a delta."""
    lasts_s: float = 0.0
    """Time spread over its steps."""
    pulls: int = 0
    """How often it asks for messages that came meanwhile."""
    hasty: float = 0.0
    """How often it gives such a call up before its answer is there, or ends without waiting for it."""
    calls: int = 0
    """How often it writes state through the run API."""
    states: int = 0
    """How often it writes state as a result."""
    child: "Plan | None" = None
    """What it asks of another agent."""
    message: bool = True
    """Whether it says something whole before its end."""
    ending: Ending = "completes"


def draw_plan(dice: Random) -> Plan:
    """A plan for an event of a client."""
    return Plan(
        deltas=dice.choice([0, 1, 2, 6]),
        pauses=dice.choice([0.0, 0.5]),
        lasts_s=dice.choice([0.0, 0.1, 0.5, 1.5]),
        pulls=dice.choice([0, 1, 3, 5]),
        hasty=dice.choice([0.0, 0.0, 0.5]),
        calls=dice.choice([0, 0, 0, 2]),
        states=dice.choice([0, 0, 1]),
        child=_draw_child(dice, 1) if dice.random() < 0.12 else None,
        message=dice.random() < 0.9,
        ending=_draw_ending(dice, _ENDINGS),
    )


def _draw_child(dice: Random, depth: int) -> Plan:
    deeper = depth < _DEEPEST and dice.random() < 0.6
    return Plan(
        deltas=dice.choice([0, 1]),
        lasts_s=dice.choice([0.0, 0.2]),
        child=_draw_child(dice, depth + 1) if deeper else None,
        ending=_draw_ending(dice, _CHILD_ENDINGS),
    )


def _draw_ending(dice: Random, weights: _Weights) -> Ending:
    [ending] = dice.choices(list(weights), list(weights.values()))
    return ending


def plan_of(data: object) -> Plan:
    """The plan that an event's data is."""
    return msgspec.convert(data, Plan)


def plan_of_text(text: str) -> Plan:
    """The plan that a parent run wrote as its child's input."""
    return msgspec.json.decode(text, type=Plan)
