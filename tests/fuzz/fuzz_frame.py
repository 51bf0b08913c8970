"""Coverage-guided fuzzing of one frame: decode and envelope. Run by scripts/fuzz; pytest does not collect it.

A frame is refused with a FrameError or accepted, and an accepted frame means the same when it is written again.
"""

import sys

import atheris
from corpus import FRAMES, plant

with atheris.instrument_imports(include=["bollard.wire"]):
    from bollard.wire.envelope import read_delta, read_envelope
    from bollard.wire.errors import FrameError
    from bollard.wire.strict_json import check_written, decode, encode


def one_frame(data: bytes) -> None:
    delta = read_delta(data)
    try:
        value = decode(data)
    except FrameError:
        if delta is not None:
            raise AssertionError("the quick way took what the general way refuses") from None
        return
    written = encode(value)
    check_written(written, value)
    if repr(decode(written)) != repr(value):
        raise AssertionError("the value changed on its way")
    if delta is not None and value != {"jsonrpc": "2.0", "method": "run/result", "params": delta.to_wire()}:
        raise AssertionError("the quick way read something else than the general way")
    try:
        read_envelope(value)
    except FrameError:
        return


if __name__ == "__main__":
    plant(sys.argv, FRAMES)
    atheris.Setup(sys.argv, one_frame)
    atheris.Fuzz()
