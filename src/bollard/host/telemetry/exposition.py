"""The Prometheus text format, version 0.0.4. Pure: families in, text out."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, Literal

import msgspec

from bollard.host.telemetry.histogram import Histogram

__all__ = ["CONTENT_TYPE", "Family", "Sample", "counter", "gauge", "histogram", "render"]

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]


class Sample(msgspec.Struct, frozen=True):
    """One line. `suffix` is what a histogram puts behind its name."""

    value: float
    labels: Labels = msgspec.field(default_factory=dict[str, str])
    suffix: str = ""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One metric with everything that is known of it."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Sequence[Sample]


def counter(name: str, said: str, *samples: Sample) -> Family:
    """Only ever grows. Its name ends in `_total`."""
    return Family(name=name, kind="counter", help=said, samples=samples)


def gauge(name: str, said: str, *samples: Sample) -> Family:
    """How things stand."""
    return Family(name=name, kind="gauge", help=said, samples=samples)


def histogram(name: str, said: str, counted: Histogram) -> Family:
    """Buckets are cumulative, as the format wants them; they were counted each for itself."""
    upto = list(accumulate(counted.counts))
    bounds = [f"{bound:g}" for bound in counted.bounds] + ["+Inf"]
    samples = [Sample(count, {"le": bound}, "_bucket") for bound, count in zip(bounds, upto, strict=True)]
    samples += [Sample(counted.total, suffix="_sum"), Sample(upto[-1], suffix="_count")]
    return Family(name=name, kind="histogram", help=said, samples=samples)


def render(families: Iterable[Family]) -> str:
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escaped(family.help)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines.extend(
            f"{family.name}{each.suffix}{_labels(each.labels)} {_number(each.value)}" for each in family.samples
        )
    return "\n".join(lines) + "\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_quoted(value)}"' for name, value in labels.items()) + "}"


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
