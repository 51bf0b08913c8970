"""A worker that calls the run API by hand for foreign resources. Arguments: author and name it claims.

An event names the frames to send: `calls` are sent one after another, each after the answer to the previous one, always
under the same id; `flood` is a number of calls that are sent at once. The run repeats the answers.
"""

import json
import os
import socket
import sys
from itertools import count

AUTHOR, NAME = sys.argv[1:3]
MIB = 1024 * 1024
CALL_ID = "c"
BATCH = 200
"""Calls of a flood that are unanswered at the same time: the capacity of a socket, and far more than a run may have."""


class Channel:
    def __init__(self) -> None:
        self._socket = socket.socket(fileno=int(os.environ["BOLLARD_CHANNEL_FD"]))
        self._lines = self._socket.makefile("rb")

    def send(self, *frames: dict) -> None:
        self._socket.sendall(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))

    def answer(self, request: dict, result: object) -> None:
        self.send({"jsonrpc": "2.0", "id": request["id"], "result": result})

    def next(self) -> bytes:
        return self._lines.readline()


class Worker:
    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.waiting: list[dict] = []
        """Frames that came while answers were awaited."""

    def frames(self):
        while True:
            if self.waiting:
                yield self.waiting.pop(0)
            elif line := self.channel.next():
                yield json.loads(line)
            else:
                return

    def answers(self, number: int) -> list[str]:
        """The next answers, unchanged."""
        found: list[str] = []
        while len(found) < number:
            line = self.channel.next()
            frame = json.loads(line)
            if frame.get("method") == "ping":
                self.channel.answer(frame, {})
            elif "method" in frame:
                self.waiting.append(frame)
            elif "error" in frame or "result" in frame:
                found.append(line.decode().rstrip("\n"))
        return found

    def call(self, envelope: dict, call_id: str = CALL_ID) -> dict:
        method = "api/stream" if "stream_id" in envelope else "api/call"
        return {"jsonrpc": "2.0", "id": call_id, "method": method, "params": envelope}

    def run(self, start: dict) -> None:
        context = start["params"]["context"]
        run_id, data = context["run_id"], context["event"]["data"]
        said: object = []
        if data.get("calls"):
            said = [self.one(call, run_id) for call in data["calls"]]
        if data.get("flood"):
            said = self.flood(run_id, data["flood"])
        for frame in data.get("frames", []):
            self.channel.send(frame)
        if data.get("never"):
            return
        body = {"message": {"role": "assistant", "content": json.dumps(said)}}
        for sequence, (kind, result) in enumerate(
            [("message.completed", body), ("run.completed", {"finish_reason": "end"})], start=1
        ):
            params = {"run_id": run_id, "type": kind, "data": result, "sequence": sequence}
            self.channel.send({"jsonrpc": "2.0", "method": "run/result", "params": params})
        self.channel.answer(start, {"last_sequence": 2})

    def one(self, call: dict, run_id: str) -> str:
        self.channel.send(self.call({"run_id": run_id, **call}))
        return self.answers(1)[0]

    def flood(self, run_id: str, number: int) -> dict[str, int]:
        """How many answers of each kind a flood got."""
        kinds: dict[str, int] = {}
        numbers = count()
        envelope = {"run_id": run_id, "action": "host.info", "params": {}}
        for _ in range(number // BATCH):
            self.channel.send(*(self.call(envelope, f"f{next(numbers)}") for _ in range(BATCH)))
            for line in self.answers(BATCH):
                frame = json.loads(line)
                kind = frame["error"]["data"]["code"] if "error" in frame else "ok"
                kinds[kind] = kinds.get(kind, 0) + 1
        return kinds


def introduction() -> dict:
    return {
        "protocol": 1,
        "worker": {"name": "malicious", "version": "1", "language": "python"},
        "plugin": {"author": AUTHOR, "name": NAME, "version": "1"},
        "limits": {"frame_bytes": 2 * MIB, "window_results": 256, "window_bytes": 4 * MIB},
    }


def runners() -> dict:
    manifest = {
        "id": f"plugin:{AUTHOR}/{NAME}/default",
        "name": "default",
        "label": {"en_US": "Malicious"},
        "capabilities": {"steering": True},
        "permissions": {"history": ["page", "search"], "events": ["get", "page"], "artifacts": ["metadata", "read"]},
        "config_schema": [],
    }
    entry = {"plugin_author": AUTHOR, "plugin_name": NAME, "runner_name": "default", "manifest": manifest}
    return {"runners": [entry]}


def main() -> None:
    channel = Channel()
    worker = Worker(channel)
    for frame in worker.frames():
        match frame.get("method"):
            case "initialize":
                channel.answer(frame, introduction())
            case "runners/list":
                channel.answer(frame, runners())
            case "tools/list":
                channel.answer(frame, {"tools": []})
            case "run/start":
                worker.run(frame)
            case "ping":
                channel.answer(frame, {})
            case "shutdown":
                channel.answer(frame, {})
                return


main()
