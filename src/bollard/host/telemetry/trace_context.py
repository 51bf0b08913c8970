"""W3C trace context: which trace something belongs to, and under which span. Pure.

A run's trace follows from its id, or from the `traceparent` that its event came with. It is therefore the same after a
restart, and costs nothing to keep.
"""

import re
from hashlib import blake2b
from typing import Final

import msgspec

__all__ = ["RunTrace", "TraceContext", "is_chosen", "parse_traceparent", "trace_of_run"]

_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_LONGEST: Final = 256
"""Characters of a header that is looked at; version 00 has 55."""
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16
_RATIO_DIGITS: Final = 16
"""The part of a trace id that decides whether the trace is recorded: its last 64 bits, as the SDKs do it."""


class TraceContext(msgspec.Struct, frozen=True, gc=False):
    """A span that others can be under."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""
    sampled: bool

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{'01' if self.sampled else '00'}"


class RunTrace(msgspec.Struct, frozen=True, gc=False):
    """Where a run stands in its trace."""

    context: TraceContext
    """The run's own span."""
    parent_id: str | None
    """The span that led to it."""
    traceparent: str
    """What its runner is told."""


def parse_traceparent(text: str | None) -> TraceContext | None:
    """The caller's context; nothing when there is none, or it is not well-formed: then a new trace begins."""
    if not text or len(text) > _LONGEST:
        return None
    found = _FORM.fullmatch(text.strip())
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or trace_id == _NO_TRACE or span_id == _NO_SPAN:
        return None
    return TraceContext(trace_id, span_id, bool(int(flags, 16) & 1))


def trace_of_run(run_id: str, traceparent: str | None, *, recorded: bool, ratio: float = 1.0) -> RunTrace:
    """The run's span: under the caller's where there is one, else the first of a trace of its own.

    Where this host records nothing, a runner is told of the caller's span and not of one that nobody will ever see.
    """
    digest = blake2b(run_id.encode(), digest_size=24).hexdigest()
    caller = parse_traceparent(traceparent)
    if caller is None:
        trace_id, sampled = digest[:32], recorded and is_chosen(digest[:32], ratio)
        own = TraceContext(trace_id, digest[32:], sampled)
        return RunTrace(own, None, own.traceparent)
    own = TraceContext(caller.trace_id, digest[32:], caller.sampled)
    return RunTrace(own, caller.span_id, own.traceparent if recorded else caller.traceparent)


def is_chosen(trace_id: str, ratio: float) -> bool:
    """Whether a new trace is one of the share that is recorded."""
    return ratio >= 1.0 or int(trace_id[-_RATIO_DIGITS:], 16) < ratio * 16**_RATIO_DIGITS
