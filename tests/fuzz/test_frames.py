"""The target of the fuzzer holds for bytes that hypothesis thinks of, so that it is not forgotten between two hunts."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

DELTA = (
    b'{"jsonrpc":"2.0","method":"run/result","params":{"run_id":"r","type":"message.delta",'
    b'"data":{"chunk":{"role":"assistant","content":"x"}},"sequence":1}}'
)
PIECES = [DELTA, b"\n", b'{"a":', b"[", b"]", b"}", b'"', b"\\u00e9", b"\\ud800", b"1e999", b"9007199254740993", b"NaN"]


def target() -> Callable[[bytes], None]:
    spec = importlib.util.spec_from_file_location("frames", Path(__file__).with_name("frames.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.any_bytes


any_bytes = target()


@pytest.mark.requirement("P11-41")
@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=20), max_size=12).map(b"".join))
@example(DELTA + b"\n" + DELTA + b"\n")
@example(b"\n" + DELTA.replace(b"x", b"\\u0000") + b"\n")
@example(b"\n" + DELTA.replace(b'"sequence":1', b'"sequence":1,"timestamp":-1.5') + b"\n")
def test_any_bytes_are_frames_or_faults_and_both_ways_of_reading_agree(data: bytes) -> None:
    any_bytes(data)
