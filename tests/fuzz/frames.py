"""What must hold for any bytes of a peer, as one function. `scripts/fuzz` looks for bytes that break it.

Nothing here needs the fuzzer: `test_frames.py` calls the same function with hypothesis on every run of the tests.
"""

import json
import sys

__all__ = ["any_bytes"]

if __name__ == "__main__":
    import atheris

    with atheris.instrument_imports(include=["bollard.wire"]):
        import bollard.wire  # noqa: F401 -- here first, so that the fuzzer sees its branches

from bollard.wire import FrameError, decode
from bollard.wire.delta_frame import read_delta
from bollard.wire.envelope import Note, open_envelope
from bollard.wire.framing import LineFramer
from bollard.wire.strict_json import encode_frame


def any_bytes(data: bytes) -> None:
    """Cut a stream into frames, wherever it was split, and read each; raises `AssertionError` for what must not be."""
    split = data[0] if data else 0
    framer, whole = LineFramer(), LineFramer()
    frames = [*framer.feed(data[:split]), *framer.feed(data[split:])]
    assert frames == whole.feed(data)
    for frame in frames:
        assert isinstance(frame, bytes)  # the limit is far above what a fuzzer sends
        _any_frame(frame)


def _any_frame(frame: bytes) -> None:
    delta = read_delta(frame)
    try:
        value = decode(frame)
    except FrameError:
        assert delta is None
        return
    assert value == json.loads(frame)
    assert decode(encode_frame(value)) == value
    try:
        envelope = open_envelope(value)
    except FrameError:
        assert delta is None
        return
    if delta is not None:
        assert isinstance(envelope, Note)
        assert delta.to_wire() == envelope.params


if __name__ == "__main__":
    atheris.Setup(sys.argv, any_bytes)
    atheris.Fuzz()
