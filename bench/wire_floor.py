"""The cost of the machine itself: raw JSON lines over a socket pair and over pipes."""

import json
import socket
import subprocess
import sys
import time

import msgspec

__all__ = ["push_lines_per_s", "round_trip_s"]

_PUSH = r"""
import msgspec, socket, sys
out = socket.socket(fileno=int(sys.argv[1]))
encode = msgspec.json.Encoder().encode
for i in range(int(sys.argv[2])):
    out.sendall(encode({"jsonrpc": "2.0", "method": "run/result", "params": {
        "run_id": "run_0123456789abcdef", "type": "message.delta",
        "data": {"chunk": {"role": "assistant", "content": "tok-%06d " % i}}, "sequence": i + 1}}) + b"\n")
"""

_ECHO = r"""
import json, sys
r, w = sys.stdin.buffer, sys.stdout.buffer
for line in iter(r.readline, b""):
    w.write(json.dumps(json.loads(line)).encode() + b"\n"); w.flush()
"""


def push_lines_per_s(count: int) -> float:
    """A child pushes the same frames, one send each; the parent splits and decodes them. Nothing else."""
    ours, theirs = socket.socketpair()
    child = subprocess.Popen(
        [sys.executable, "-c", _PUSH, str(theirs.fileno()), str(count)], pass_fds=[theirs.fileno()]
    )
    theirs.close()
    decode = msgspec.json.Decoder().decode
    tail = ours.recv(1)  # the clock starts with the first byte: the start of the child is another figure
    started, got = time.perf_counter(), 0
    while got < count:
        *lines, tail = (tail + ours.recv(1 << 16)).split(b"\n")
        for line in lines:
            decode(line)
        got += len(lines)
    elapsed = time.perf_counter() - started
    ours.close()
    child.wait()
    return count / elapsed


def round_trip_s(count: int) -> list[float]:
    """A line of JSON to a child and back over pipes, blocking, parsed and written on both sides."""
    message: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}
    child = subprocess.Popen([sys.executable, "-c", _ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if child.stdin is None or child.stdout is None:
        raise RuntimeError("no pipes")
    took: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        child.stdin.write(json.dumps(message).encode() + b"\n")
        child.stdin.flush()
        json.loads(child.stdout.readline())
        took.append(time.perf_counter() - started)
    child.stdin.close()
    child.wait()
    return took
