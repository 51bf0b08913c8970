"""Where fuzzing begins: one frame of each kind, right and wrong."""

from collections.abc import Sequence
from pathlib import Path

DELTA = (
    b'{"jsonrpc":"2.0","method":"run/result","params":{"run_id":"r","type":"message.delta",'
    b'"data":{"chunk":{"role":"assistant","content":"hi"}},"sequence":1}}'
)
FRAMES = [
    DELTA,
    DELTA.replace(b'"hi"', b'"\\ud83d\\ude00 \\n"').replace(b":1}", b":2}"),
    DELTA.replace(b":1}", b':9,"timestamp":1.5}'),
    b'{"jsonrpc":"2.0","method":"run/result","params":{"run_id":"r","type":"run.completed","data":{"finish_reason":"end"},"sequence":3}}',
    b'{"jsonrpc":"2.0","id":7,"method":"api/call","params":{"run_id":"r","action":"answer","params":{"k":[1,-2.5e3,null]}}}',
    b'{"jsonrpc":"2.0","id":"s","method":"api/stream","params":{"run_id":"r","stream_id":"s1","action":"wait"}}',
    b'{"jsonrpc":"2.0","method":"api/credit","params":{"stream_id":"s1","index":1}}',
    b'{"jsonrpc":"2.0","method":"api/cancel","params":{"run_id":"r","id":"s"}}',
    b'{"jsonrpc":"2.0","method":"log","params":{"level":"info","message":"m","fields":{"a":true}}}',
    b'{"jsonrpc":"2.0","id":2,"result":{"last_sequence":3}}',
    b'{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"no","data":{"code":"not_found"}}}',
    b' { "a" : [ { } , [ ] , "\\"\\\\" , 9007199254740992 , 1e-7 ] } ',
    b'{"a":1,"\\u0061":2}',
    b'["\\ud800",NaN,1e999]',
]


def plant(argv: list[str], seeds: Sequence[bytes]) -> None:
    """Put the seeds into the corpus directory, which is the last argument of the fuzzer."""
    corpus = Path(argv[-1])
    if corpus.is_dir():
        for number, seed in enumerate(seeds):
            (corpus / f"seed-{number}").write_bytes(seed)
