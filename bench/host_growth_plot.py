"""Draws the growth figures as an SVG: the length of the log to the right, cost per run and runs per second upwards."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["Point", "plot"]

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 70, 70, 60, 60
CPU, RATE, INK, FAINT = "#b3541e", "#1e6fb3", "#5a5a5a", "#8a8a8a"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What a run cost on a log of this length."""

    records: int
    cpu_ms: float
    runs_per_s: float


def plot(points: Sequence[Point]) -> str:
    """Both axes start at zero, so that a flat line looks flat and nothing else does."""
    top_cpu = _round_up(max(point.cpu_ms for point in points) * 1.3)
    top_rate = _round_up(max(point.runs_per_s for point in points) * 1.3)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="13" fill="{INK}" role="img" aria-label="Cost of a run by the length of the log">',
        _text(WIDTH / 2, 24, "Cost of a run by the length of the log", size=16),
        _text(WIDTH / 2, HEIGHT - 14, "records in the log before the measurement (16 clients, 10 deltas a run)"),
        _text(LEFT, TOP - 12, "host CPU per run, ms", colour=CPU),
        _text(WIDTH - RIGHT, TOP - 12, "runs/s", colour=RATE),
        *_grid(top_cpu, top_rate),
        *(_text(_x(points, point), HEIGHT - BOTTOM + 20, _count(point.records)) for point in points),
        *_series(points, top_cpu, CPU, lambda point: point.cpu_ms, "{:.2f}"),
        *_series(points, top_rate, RATE, lambda point: point.runs_per_s, "{:.0f}"),
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
        parts.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{FAINT}" stroke-opacity="0.3"/>'
        )
        parts.append(_text(LEFT - 10, y + 4, f"{top_cpu * step / 4:g}", anchor="end", colour=CPU))
        parts.append(_text(WIDTH - RIGHT + 10, y + 4, f"{top_rate * step / 4:g}", anchor="start", colour=RATE))
    return parts


def _series(points: Sequence[Point], top: float, colour: str, value: Callable[[Point], float], shown: str) -> list[str]:
    places = [(_x(points, point), _y(value(point), top), value(point)) for point in points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>']
    for x, y, number in places:
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>')
        parts.append(_text(x, y - 9, shown.format(number), colour=colour))
    return parts


def _text(x: float, y: float, text: str, *, anchor: str = "middle", colour: str = INK, size: int = 13) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}">{text}</text>'


def _count(records: int) -> str:
    return f"{records // 1_000_000} M" if records >= 1_000_000 else f"{records // 1_000} k"


def _round_up(value: float) -> float:
    """To a number that four grid lines divide well."""
    unit = 10 ** math.floor(math.log10(value))
    return next(step * unit for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10) if step * unit >= value)
