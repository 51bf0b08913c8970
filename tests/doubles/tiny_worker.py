#!/usr/bin/env python3
"""A worker that shares no code with Bollard: plain JSON-RPC lines on the inherited socket. It echoes, prints its
arguments, and exits with code 7 at the message `crash`."""

import json
import os
import socket
import sys

AUTHOR, NAME, VERSION = "acme", "tiny", "1.0.0"
connection = socket.socket(fileno=int(os.environ.pop("BOLLARD_CHANNEL_FD")))
lines = connection.makefile("rb")


def send(**message):
    connection.sendall(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def introduce():
    return {
        "protocol": 1,
        "worker": {"name": "tiny", "version": "1", "language": "other"},
        "plugin": {"author": AUTHOR, "name": NAME, "version": VERSION},
        "limits": {"frame_bytes": 2097152, "window_results": 256, "window_bytes": 4194304},
    }


def runners():
    manifest = {"id": f"plugin:{AUTHOR}/{NAME}/default", "name": "default", "label": {"en_US": "Tiny", "zh_Hans": "小"}}
    entry = {"plugin_author": AUTHOR, "plugin_name": NAME, "runner_name": "default", "plugin_version": VERSION}
    return {"runners": [{**entry, "manifest": {**manifest, "description": {"en_US": "Echoes."}}}]}


def run(request):
    run_id, text = request["context"]["run_id"], request["context"]["input"].get("text")
    print("arguments", *sys.argv[1:], "in", os.getcwd(), "with", *sorted(os.environ), flush=True)
    if text == "crash":
        os._exit(7)
    results = [("message.delta", {"chunk": {"role": "assistant", "content": f"tiny: {text}"}})]
    results.append(("run.completed", {"finish_reason": "end"}))
    for number, (kind, data) in enumerate(results, start=1):
        result = {"run_id": run_id, "type": kind, "data": data, "sequence": number, "timestamp": 0.0}
        send(method="run/result", params=result)
    return {"last_sequence": len(results)}


for line in lines:
    frame = json.loads(line)
    method, params = frame.get("method"), frame.get("params", {})
    if "id" not in frame:
        continue
    if method == "initialize":
        send(id=frame["id"], result=introduce())
    elif method == "runners/list":
        send(id=frame["id"], result=runners())
    elif method == "run/start":
        send(id=frame["id"], result=run(params))
    elif method in ("ping", "shutdown"):
        send(id=frame["id"], result={})
        if method == "shutdown":
            break
    else:
        send(id=frame["id"], error={"code": -32601, "message": f"no method {method}"})
