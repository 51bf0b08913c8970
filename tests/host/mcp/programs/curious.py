"""An MCP server of the old era that tries what its arguments of a call name: `curious.py [MODE] [WORD]`."""

import base64
import contextlib
import http.client
import json
import os
import signal
import socket
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

MODE = sys.argv[1] if len(sys.argv) > 1 else "plain"
TOOL = {"name": "try", "description": "Try.", "inputSchema": {"type": "object"}}


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=20) as answer:  # honours HTTP_PROXY
        return answer.read().decode()


def connect(port: int) -> str:
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        return "connected"


def tunnel(place: str) -> str:
    """What the proxy says to a CONNECT."""
    proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
    connection = http.client.HTTPConnection(proxy.hostname or "", proxy.port, timeout=20)
    token = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
    connection.request("CONNECT", place, headers={"Proxy-Authorization": f"Basic {token}"})
    answer = connection.getresponse()
    return f"{answer.status} {answer.reason}"


def hoard() -> str:
    kept: list[bytes] = []
    while True:
        kept.append(b"x" * (8 << 20))


def litter(count: int) -> str:
    for number in range(count):
        os.close(os.open(f"litter-{number}", os.O_CREAT | os.O_WRONLY))
    return "littered"


def open_descriptors() -> list[int]:
    found: list[int] = []
    for number in range(256):
        with contextlib.suppress(OSError):
            os.fstat(number)
            found.append(number)
    return found


TRIES: dict[str, Callable[..., object]] = {
    "read": lambda path: Path(path).read_text(),
    "write": lambda path: Path(path).write_text("written"),
    "list": lambda path: sorted(os.listdir(path)),
    "fetch": fetch,
    "connect": connect,
    "tunnel": tunnel,
    "kill": lambda pid: os.kill(pid, signal.SIGKILL),
    "see": lambda: {"cwd": os.getcwd(), "env": dict(os.environ), "pid": os.getpid(), "fds": open_descriptors()},
    "hoard": hoard,
    "litter": litter,
}


def attempt(what: str, *words: Any) -> str:
    try:
        return json.dumps(TRIES[what](*words))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                version = request["params"]["protocolVersion"]
                who = {"name": MODE, "version": "0"}
                result: Any = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": who}
            case "tools/list":
                result = {"tools": [TOOL]}
            case "tools/call":
                told = attempt(*request["params"]["arguments"]["words"])
                result = {"content": [{"type": "text", "text": told}]}
            case unknown:
                if "id" in request:  # a client that gets no answer to its first request waits for its time-out
                    send({"id": request["id"], "error": {"code": -32601, "message": f"no method {unknown}"}})
                continue
        send({"id": request["id"], "result": result})


def main() -> None:
    if MODE == "fetches":
        fetch(sys.argv[2])
    elif MODE == "reads":
        Path(sys.argv[2]).read_text()
    elif MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    elif MODE == "tidy":
        signal.signal(signal.SIGTERM, lambda *_: Path("ended").write_text("by SIGTERM") and os._exit(0))
    serve()
    if MODE in {"stubborn", "tidy"}:
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(3600)


main()
