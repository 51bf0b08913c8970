"""An MCP server of the old era that means no good, by hand: `hostile.py MODE [FILE]`."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

MODE, FILE = sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None
CALLED: list[int] = []
PLAIN = {"name": "act", "description": "Act.", "inputSchema": {"type": "object"}}


def deep(levels: int) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": deep(levels - 1)}} if levels else {"type": "object"}


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {**PLAIN, "name": name, **fields}


ODD = [
    PLAIN,
    tool("a b"),
    tool("../../etc/passwd"),
    tool("\u202etxt.exe"),
    tool(""),
    tool("x" * 100),
    tool("twice"),
    tool("twice", description="Another one."),
    tool("wrong_type", inputSchema={"type": "object", "properties": {"x": {"type": "nonsense"}}}),
    tool("deep", inputSchema=deep(40)),
    tool("elsewhere", inputSchema={"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:9/schema"}}}),
    tool("wordy", description="a" * 20_000),
    tool("pattern", inputSchema={"type": "object", "properties": {"x": {"type": "string", "pattern": "(?=a)b"}}}),
    tool("heavy", inputSchema={"type": "object", "title": "t" * 100_000}),
]


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(request: dict[str, Any], result: dict[str, Any]) -> None:
    send({"id": request["id"], "result": result})


def listed() -> list[dict[str, Any]]:
    if MODE == "odd":
        return ODD
    if MODE == "changing":
        assert FILE is not None
        return [tool("act", description=FILE.read_text())]
    if MODE == "tells":
        return [tool("act", description=f"Act {len(CALLED)}.")]
    if MODE == "misshapen":
        return [PLAIN, tool("no_object", inputSchema={"type": "string"})]
    if MODE == "many":
        return [tool(f"tool{number}") for number in range(2000)]
    return [PLAIN]


def oversize(request: dict[str, Any]) -> None:
    """Answers that no line, or no parser, has room for."""
    if MODE == "huge":
        begun = json.dumps(
            {"jsonrpc": "2.0", "id": request["id"], "result": {"content": [{"type": "text", "text": ""}]}}
        )
        sys.stdout.write(begun.removesuffix('"}]}}'))
        for _ in range(1600):
            sys.stdout.write("x" * 65536)
    elif MODE == "stuffed":
        while FILE is not None and not FILE.exists():  # it reads nothing meanwhile
            time.sleep(0.01)
        sys.stdout.write("x" * (5 << 20))
    elif request["params"]["arguments"].get("hold"):
        CALLED.append(request["id"])
    else:
        # Its data looks like a message too, with the id of the call that is held.
        data = json.dumps({"id": CALLED[-1] if CALLED else 0, "method": "x"}).removesuffix("}")
        result = f'{{"structuredContent": {data}, "x": {"[" * 100_000}{"]" * 100_000}}}, "content": []}}'
        number = json.dumps(request["id"])
        # Some servers write the id first, others last.
        first = f'{{"jsonrpc": "2.0", "id": {number}, "result": {result}}}'
        last = f'{{"result": {result}, "jsonrpc": "2.0", "id": {number}}}'
        print(last if request["params"]["arguments"].get("last") else first, flush=True)
        while CALLED:
            answer({"id": CALLED.pop()}, {"content": [{"type": "text", "text": "acted"}]})


def call(request: dict[str, Any]) -> None:
    if MODE in {"huge", "stuffed", "bottomless"}:
        oversize(request)
    elif MODE == "dies":
        os._exit(3)
    elif MODE == "flood":
        token = request["params"]["_meta"]["progressToken"]
        for number in range(5000):
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": number}})
        answer(request, {"content": [{"type": "text", "text": "done"}]})
    elif MODE == "silent":
        return
    elif MODE == "tells":
        CALLED.append(request["id"])
        answer(request, {"content": []})
        send({"method": "notifications/tools/list_changed"})
    elif MODE == "lying":
        answer(request, {"content": "not a list", "structuredContent": [], "isError": "maybe"})
    elif MODE == "nested":
        answer(request, {"content": [], "structuredContent": deep(60)})
    else:
        answer(request, {"content": [{"type": "text", "text": "acted"}]})


def main() -> None:
    if MODE == "deaf":
        Path(FILE or "begun").touch()
        time.sleep(3600)
    if MODE == "noisy":
        for number in range(5000):
            print(f"line {number}", file=sys.stderr)
        print("this is no JSON")
        print(json.dumps({"jsonrpc": "2.0", "id": 99, "result": {}}))
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                version = request["params"]["protocolVersion"]
                who = {"name": MODE, "version": "0"}
                answer(request, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": who})
            case "tools/list":
                answer(request, {"tools": listed()})
            case "tools/call":
                call(request)
            case other if "id" in request:
                send({"id": request["id"], "error": {"code": -32601, "message": f"no {other}"}})
            case _:
                pass


main()
