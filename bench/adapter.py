"""Describes the requests of this host for other load drivers.

Start a host with `BOLLARD_BUILTIN_PLUGINS=false bollard up --plugins bench/plugins/benchecho.py` and put its token into
BOLLARD_BENCH_TOKEN. A request is (method, path, headers, body, mark of a delta, mark of the end).
"""

import json
import os

__all__ = ["BASE", "MODES", "READY"]

BASE = os.environ.get("BOLLARD_BENCH_URL", "http://127.0.0.1:8420")
READY = "/readyz"

_HEADERS = {
    "content-type": "application/json",
    "accept": "text/event-stream",
    "authorization": f"Bearer {os.environ.get('BOLLARD_BENCH_TOKEN', '')}",
}


def _run(session: int, deltas: int, extra: object = None) -> tuple[str, str, dict[str, str], bytes, bytes, bytes]:
    del session, extra
    body = json.dumps({"agent": "benchecho", "input": {"text": "hi"}, "data": {"deltas": deltas}}).encode()
    return "POST", "/api/v1/runs", _HEADERS, body, b'"content":"tok-', b'"status":"completed"'


MODES = {"run": _run}
