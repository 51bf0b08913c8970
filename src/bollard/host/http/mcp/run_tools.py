"""The tools of a run over MCP: its capability graph, and the actions of the run API that a harness needs. Every call
passes the gate of the run API and the executor, like a call of the runner itself."""

import base64
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from hashlib import sha256
from typing import Final, cast

from pydantic import Field, ValidationError

from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.graph import CapabilityGraph
from bollard.host.capabilities.sources import Progress
from bollard.host.errors import NotFound
from bollard.host.grants.check import RULES, Denied, check
from bollard.host.http.mcp.messages import blocks_of, refused_call, text_block, tool_answer, without_headers
from bollard.host.run_api.gateway import ask
from bollard.host.run_api.tools import ToolCalls
from bollard.host.runs.live_run import LiveRun
from bollard.protocol import ACTIONS, AgentAPIError, Bytes64, JsonObject, JsonValue, Strict, first_problem
from bollard.wire import encode

CALL_ID_KEY: Final = "bollard/call_id"
"""In `_meta` of a call: the id that the caller chose. A repeat gets the recorded result."""
_PREFIX: Final = "bollard_"
_WRITE: Final = "artifacts.write"
"""Not an action of the run API: an upload in one step."""
_DESCRIPTIONS: Final[Mapping[str, str]] = {
    "history.page": "Read the messages of this conversation page by page, the newest page first. "
    "`before` is the `next_cursor` of the page before.",
    "history.search": "Search the messages of this conversation.",
    "knowledge.list": "List the knowledge bases of this agent.",
    "knowledge.retrieve": "Search a knowledge base of this agent.",
    "steering.pull": "Get the messages that people sent to this run since it began.",
    "artifacts.metadata": "Show the name, type and size of an artifact.",
    "artifacts.read": "Read an artifact in pieces, as base64.",
    _WRITE: "Save a file as an artifact of this conversation: pass `text` or `content_base64`.",
    "state.get": "Read a value of the state that persists between runs.",
    "state.set": "Save a value between runs. With `if_version`, only if the value has not changed since that version.",
    "state.delete": "Delete a value of the state that persists between runs.",
    "state.list": "List the keys of the state that persists between runs.",
}
"""The actions for a harness, with their descriptions for a model."""
_NEEDS: Final = {_WRITE: "artifacts.begin"}
_READS: Final = frozenset({"page", "search", "list", "retrieve", "metadata", "read", "get"})


class _Write(Strict):
    """Parameters of the upload in one step."""

    name: str
    mime_type: str = "text/plain"
    artifact_type: str = "file"
    text: str | None = Field(default=None, description="The content, if it is text.")
    content_base64: Bytes64 | None = Field(default=None, description="The content, if it is not text.")


class RunTools:
    """The tools of one run, for one client. Implements `ToolServer`."""

    def __init__(self, run: LiveRun, calls: ToolCalls, answered: frozenset[str], hide: Callable[[str], str]) -> None:
        """`answered` are the actions that this host supports; `hide` removes secrets from a text."""
        self._run = run
        self._calls = calls
        self._answered = answered
        self._hide = hide

    @property
    def instructions(self) -> str:
        return (
            "Tools of one run of a Bollard host. A call that needs an approval waits for it. Tools whose names begin "
            f"with {_PREFIX} give access to the conversation and the stored data of this agent."
        )

    def knows(self, name: str) -> bool:
        return self._run.session.graph.node(name) is not None or name in self._actions()

    def tools(self) -> Mapping[str, JsonObject]:
        graph = self._run.session.graph
        tools = {
            str(planned["name"]): _tool(graph, planned)
            for planned in graph.for_planner()
            if self._allowed("tools.call", (str(planned["name"]),))
        }
        tools |= {name: _action_tool(name, action) for name, action in self._actions().items()}
        return dict(sorted(tools.items()))

    async def call(self, name: str, arguments: JsonObject, meta: JsonObject, progress: Progress) -> JsonObject:
        if self._run.session.graph.node(name) is None:
            return await self._act(self._action(name), arguments)
        wanted = meta.get(CALL_ID_KEY)
        call_id = wanted if isinstance(wanted, str) else f"mcp_{secrets.token_hex(12)}"
        params: JsonObject = {"name": name, "parameters": arguments, "call_id": call_id}

        def report(done: float, total: float | None, message: str | None) -> None:
            progress(done, total, None if message is None else self._hide(message))

        with self._calls.heard(self._run, call_id, report):
            answer = await ask(self._run, "tools.call", params)
        return refused_call(answer) if isinstance(answer, AgentAPIError) else _result(cast("JsonObject", answer))

    async def _act(self, action: str, arguments: JsonObject) -> JsonObject:
        answer = await (self._write(arguments) if action == _WRITE else ask(self._run, action, arguments))
        if isinstance(answer, AgentAPIError):
            return refused_call(answer)
        return tool_answer([text_block(encode(answer).decode())], answer)

    async def _write(self, arguments: JsonObject) -> JsonValue | AgentAPIError:
        """Upload an artifact: begin, append and finish, each through the gate."""
        try:
            wanted = _Write.from_wire(arguments)
        except ValidationError as error:
            field, problem = first_problem(error)
            return AgentAPIError(code="invalid_argument", message=f"{field}: {problem}", details={"field": field})
        if (wanted.text is None) == (wanted.content_base64 is None):
            return AgentAPIError(code="invalid_argument", message="pass either text or content_base64")
        content = base64.b64decode(wanted.content_base64 or "") if wanted.text is None else wanted.text.encode()
        head: JsonObject = {"name": wanted.name, "mime_type": wanted.mime_type, "artifact_type": wanted.artifact_type}
        begun = await ask(self._run, "artifacts.begin", head)
        if not isinstance(begun, dict):
            return begun
        upload: JsonObject = {"upload_id": begun["upload_id"]}
        piece: JsonObject = {**upload, "offset": 0, "content_base64": base64.b64encode(content).decode()}
        appended = await ask(self._run, "artifacts.append", piece) if content else begun
        if isinstance(appended, AgentAPIError):
            return appended
        return await ask(self._run, "artifacts.finish", {**upload, "sha256": sha256(content).hexdigest()})

    # --- available actions ---

    def _actions(self) -> dict[str, str]:
        """Actions by tool name: those that the host supports and the grant allows for at least one resource."""
        graph = self._run.session.graph
        actions: dict[str, str] = {}
        for action in _DESCRIPTIONS:
            needed = _NEEDS.get(action, action)
            if needed in self._answered and self._allowed(needed, self._resources(needed)):
                actions[_free_name(graph, action)] = action
        return actions

    def _action(self, name: str) -> str:
        """The action of a tool. Raises `NotFound` if it was revoked."""
        action = self._actions().get(name)
        if action is None:
            raise NotFound("this run has no such tool", reason="run_tool", hint="list its tools again")
        return action

    def _resources(self, action: str) -> Iterable[str | None]:
        """The resources of this run that an action can use; `None` for actions without a resource."""
        rule, grant = RULES[action], self._run.grant
        if rule.family == "state":
            return grant.state_keys
        if rule.listed:
            return grant.access.rights.resources.get(rule.family, {})
        return (None,)

    def _allowed(self, action: str, resources: Iterable[str | None]) -> bool:
        run = self._run
        return any(not isinstance(check(run.grant, run.revoked, action, resource), Denied) for resource in resources)


def _free_name(graph: CapabilityGraph, action: str) -> str:
    """The tool name of an action, which never hides a tool of the graph."""
    name = _PREFIX + action.replace(".", "_")
    while graph.node(name) is not None:
        name = f"{_PREFIX}{name}"
    return name


def _tool(graph: CapabilityGraph, planned: JsonObject) -> JsonObject:
    name = str(planned["name"])
    tool: JsonObject = {
        "name": name,
        "description": planned["description"],
        "inputSchema": {"type": "object", **without_headers(cast("JsonObject", planned["input_schema"]))},
    }
    capability = graph.get(name)
    if capability is not None:
        tool |= {"annotations": _annotations(capability), "_meta": {"bollard/capability": capability.id}}
    return tool


def _annotations(capability: Capability) -> JsonObject:
    """Hints for the client; the host enforces the rules."""
    return {
        "readOnlyHint": capability.effects == "none",
        "idempotentHint": capability.effects != "at_most_once",
        "destructiveHint": capability.risk in ("high", "critical"),
        "openWorldHint": capability.flow.sends_out or capability.flow.brings_untrusted,
    }


def _action_tool(name: str, action: str) -> JsonObject:
    reads = action.rpartition(".")[2] in _READS
    return {
        "name": name,
        "description": _DESCRIPTIONS[action],
        "inputSchema": _schema_of(action),
        "annotations": {"readOnlyHint": reads, "openWorldHint": False},
    }


@cache
def _schema_of(action: str) -> JsonObject:
    shape = _Write if action == _WRITE else ACTIONS[action].params
    schema = cast("JsonObject", shape.model_json_schema())
    schema.pop("title", None)
    schema.pop("description", None)
    return {"type": "object", **schema}


def _result(answer: JsonObject) -> JsonObject:
    """A `ToolResult` of the run API as a `CallToolResult`."""
    content, artifacts = (cast("list[JsonObject]", answer.get(name) or []) for name in ("content", "artifact_refs"))
    blocks = blocks_of(content, artifacts)
    result = tool_answer(blocks, answer.get("structured"), is_error=answer.get("is_error") is True)
    return {**result, "_meta": {CALL_ID_KEY: answer.get("call_id")}}
