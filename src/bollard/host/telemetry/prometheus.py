"""The Prometheus text format, version 0.0.4. Pure: families in, text out."""

import os
import resource
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final, Literal

import msgspec

from bollard.host.telemetry.counts import Histogram

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]


class Sample(msgspec.Struct, frozen=True):
    """One line. `suffix` follows the name of a histogram."""

    value: float
    labels: Labels = msgspec.field(default_factory=dict[str, str])
    suffix: str = ""


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """One metric with all of its samples."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Sequence[Sample]


def counter(name: str, help_text: str, *samples: Sample) -> Family:
    """A counter. Its name ends in `_total`."""
    return Family(name=name, kind="counter", help=help_text, samples=samples)


def gauge(name: str, help_text: str, *samples: Sample) -> Family:
    """A gauge."""
    return Family(name=name, kind="gauge", help=help_text, samples=samples)


def histogram(name: str, help_text: str, counted: Histogram) -> Family:
    """A histogram. The format needs cumulative buckets."""
    upto = list(accumulate(counted.counts))
    bounds = [f"{bound:g}" for bound in counted.bounds] + ["+Inf"]
    samples = [Sample(count, {"le": bound}, "_bucket") for bound, count in zip(bounds, upto, strict=True)]
    samples += [Sample(counted.total, suffix="_sum"), Sample(upto[-1], suffix="_count")]
    return Family(name=name, kind="histogram", help=help_text, samples=samples)


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


# Resource usage of this process. Blocks for a moment, because it lists the open files.


_STATM: Final = Path("/proc/self/statm")
_DESCRIPTORS: Final = Path("/proc/self/fd") if sys.platform == "linux" else Path("/dev/fd")


class ProcessNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """Resources of this process; `None` if the system does not report them."""

    cpu_s: float
    resident_bytes: int | None
    open_files: int | None
    most_files: int


def process_numbers() -> ProcessNumbers:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return ProcessNumbers(
        cpu_s=used.ru_utime + used.ru_stime,
        resident_bytes=_resident(),
        open_files=_open_files(),
        most_files=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    )


def _resident() -> int | None:
    try:
        return int(_STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def _open_files() -> int | None:
    try:
        return len(os.listdir(_DESCRIPTORS)) - 1  # the listing itself opens one file
    except OSError:
        return None
