"""One performance figure: how it is printed and judged."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Figure", "Measured", "median", "print_measured"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value, its floor, and its bounds. `must` and `aim` bound the ratio if there is a floor, otherwise the
    value."""

    figure: str
    value: float
    unit: str
    better: Literal["higher", "lower"]
    must: float | None
    aim: float | None
    floor: float | None = None
    scope: Literal["quick", "full"] = "quick"

    @property
    def ratio(self) -> float | None:
        return None if self.floor is None else self.value / self.floor

    def meets(self, bound: float | None) -> bool:
        if bound is None:
            return True
        judged = self.value if self.ratio is None else self.ratio
        return judged >= bound if self.better == "higher" else judged <= bound

    def as_json(self) -> str:
        return json.dumps(
            {
                "figure": self.figure,
                "value": _short(self.value),
                "unit": self.unit,
                "floor": _short(self.floor),
                "ratio": _short(self.ratio),
                "must": self.must,
                "aim": self.aim,
                "ok": self.meets(self.must),
                "aim_met": self.meets(self.aim),
                "scope": self.scope,
            }
        )

    def as_line(self) -> str:
        sign = "≥" if self.better == "higher" else "≤"
        ratio = "" if self.ratio is None else f"  {self.ratio:.2f} × floor {_short(self.floor)}"
        bounds = f"must {sign} {self.must:g}" if self.must is not None else "no bound"
        bounds += f", aim {sign} {self.aim:g}" if self.aim is not None else ""
        verdict = "ok  " if self.meets(self.must) else "MISS"
        return f"{verdict} {self.figure:<34} {_short(self.value):>10} {self.unit:<10}{ratio}  ({bounds})"


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Every figure of a suite, and the figures that could not be measured."""

    figures: Sequence[Figure]
    missing: Sequence[str] = ()


def print_measured(measured: Measured, *, as_json: bool) -> bool:
    """Print every figure; true if everything was measured and no must was missed."""
    for figure in measured.figures:
        print(figure.as_json() if as_json else figure.as_line(), flush=True)
    return not measured.missing and all(figure.meets(figure.must) for figure in measured.figures)
