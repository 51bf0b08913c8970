"""Draws the growth figures as an SVG: the length of the log to the right, cost per run and runs per second upwards."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Point", "plot"]

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 70, 60, 60
STYLE = """<style>
.ground { fill: #ffffff; stroke: #d5dae1; }
.grid { stroke: #d5dae1; }
.line { fill: none; stroke-width: 2; }
.line.cpu { stroke: #b06a00; } .line.rate { stroke: #1f5fae; }
text { font-family: system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; font-size: 13px; fill: #1d2530; }
.name { font-size: 15px; font-weight: 600; }
.cpu { fill: #b06a00; } .rate { fill: #1f5fae; }
polyline.line { fill: none; }
@media (prefers-color-scheme: dark) {
.ground { fill: #12161c; stroke: #313a46; }
.grid { stroke: #313a46; }
.line.cpu { stroke: #f0a83c; } .line.rate { stroke: #6ea8fe; }
text { fill: #e8edf3; }
.cpu { fill: #f0a83c; } .rate { fill: #6ea8fe; }
polyline.line { fill: none; }
}
</style>"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The cost of a run on a log of this length."""

    records: int
    cpu_ms: float
    runs_per_s: float


def plot(points: Sequence[Point]) -> str:
    """Both axes start at zero, so that a flat line looks flat."""
    top_cpu = _round_up(max(point.cpu_ms for point in points) * 1.2)
    top_rate = _round_up(max(point.runs_per_s for point in points) * 1.8)  # so that the lines do not cross
    said = "; ".join(
        f"{_count(point.records)}: {point.cpu_ms:.2f} ms, {point.runs_per_s:.0f} runs/s" for point in points
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-labelledby="title description">',
        '<title id="title">Cost of a run by the length of the log</title>',
        f'<desc id="description">Records in the log, host CPU per run, and runs per second. {said}.</desc>',
        STYLE,
        f'<rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
        _text(WIDTH / 2, 28, "Cost of a run by the length of the log", look="name"),
        _text(WIDTH / 2, HEIGHT - 14, "records in the log (16 clients, 10 deltas a run)"),
        _text(LEFT + 22, TOP - 14, "host CPU per run, ms", look="cpu"),
        _text(WIDTH - RIGHT, TOP - 14, "runs/s", look="rate"),
        *_grid(top_cpu, top_rate),
        *(_text(_x(points, point), HEIGHT - BOTTOM + 20, _count(point.records)) for point in points),
        *_series(points, top_cpu, "cpu", lambda point: point.cpu_ms, "{:.2f}"),
        *_series(points, top_rate, "rate", lambda point: point.runs_per_s, "{:.0f}"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(points: Sequence[Point], point: Point) -> float:
    first, last = math.log10(points[0].records), math.log10(points[-1].records)
    share = (math.log10(point.records) - first) / (last - first)
    return LEFT + 40 + share * (WIDTH - LEFT - RIGHT - 80)


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM)


def _grid(top_cpu: float, top_rate: float) -> list[str]:
    parts: list[str] = []
    for step in range(5):
        y = _y(step, 4)
        parts.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>')
        parts.append(_text(LEFT - 10, y + 4, f"{top_cpu * step / 4:g}", anchor="end", look="cpu"))
        parts.append(_text(WIDTH - RIGHT + 10, y + 4, f"{top_rate * step / 4:g}", anchor="start", look="rate"))
    return parts


def _series(points: Sequence[Point], top: float, look: str, value: Callable[[Point], float], shown: str) -> list[str]:
    places = [(_x(points, point), _y(value(point), top), value(point)) for point in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
    parts = [f'<polyline class="line {look}" points="{path}"/>']
    for x, y, number in places:
        parts.append(f'<circle class="{look}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>')
        parts.append(_text(x, y + (22 if look == "rate" else -10), shown.format(number), look=look))
    return parts


def _text(x: float, y: float, text: str, *, anchor: str = "middle", look: str = "plain") -> str:
    return f'<text class="{look}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _count(records: int) -> str:
    return f"{records // 1_000_000} M" if records >= 1_000_000 else f"{records // 1_000} k"


def _round_up(value: float) -> float:
    """To a number that four grid lines divide well."""
    unit = 10 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if step * unit >= value)
