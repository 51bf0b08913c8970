"""What the kit sends: contexts and scripts for the scripted runner (docs/reference/conformance.md)."""

from typing import Final

from bollard.protocol import JsonObject, JsonValue, runner_id

__all__ = ["AUTHOR", "PLUGIN", "RUNNERS", "TOOLS", "run_request", "step", "tool_call"]

AUTHOR: Final = "bollard"
PLUGIN: Final = "conformance"
RUNNERS: Final = ("scripted", "stubborn")
TOOLS: Final = ("broken", "echo", "slow")


def step(do: str, **fields: JsonValue) -> JsonObject:
    """One step of a script."""
    return {"do": do, **fields}


def run_request(
    run_id: str, script: list[JsonObject], *, runner: str = "scripted", context: JsonObject | None = None
) -> JsonObject:
    """The parameters of `run/start`; `context` replaces or adds fields of the context."""
    body: JsonObject = {
        "run_id": run_id,
        "trigger": {"type": "message", "source": "api"},
        "event": {"event_id": f"event-{run_id}", "event_type": "message.received", "source": "conformance"},
        "input": {"text": "hello"},
        "delivery": {"surface": "conformance", "supports_streaming": True},
        "config": {"script": [*script]},
    }
    return {"runner_id": runner_id(AUTHOR, PLUGIN, runner), "runner_name": runner, "context": body | (context or {})}


def tool_call(call_id: str, tool: str, arguments: JsonObject, *, timeout_ms: int = 10_000) -> JsonObject:
    """The parameters of `tool/call`."""
    return {
        "call_id": call_id,
        "tool": tool,
        "arguments": arguments,
        "timeout_ms": timeout_ms,
        "context": {"run_id": "run-of-the-tool", "workspace_id": "w", "agent_id": "a"},
    }
