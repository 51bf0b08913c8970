"""What a run can do, as tools of MCP: its graph, and the actions of the run API that a harness needs. Every call passes
the gate of the run API, and every tool the executor, as if the runner itself had asked."""

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
from bollard.host.http.mcp.messages import (
    TOOL_LIST_TTL_MS,
    blocks_of,
    refused_call,
    text_block,
    tool_answer,
    without_headers,
)
from bollard.host.run_api.gateway_calls import ask
from bollard.host.run_api.tools import ToolCalls
from bollard.host.runs.live_run import LiveRun
from bollard.protocol import ACTIONS, AgentAPIError, Bytes64, JsonObject, JsonValue, Strict, first_problem
from bollard.wire import encode

CALL_ID_KEY: Final = "bollard/call_id"
"""In `_meta` of a call: the caller's own id of it. The same again gets the recorded outcome."""
_PREFIX: Final = "bollard_"
_WRITE: Final = "artifacts.write"
"""No action of its own: an upload in one step."""
_WORDS: Final[Mapping[str, str]] = {
    "history.page": "Read what was said in this conversation, a page at a time, the newest page first. "
    "`before` is the `next_cursor` of the page before.",
    "history.search": "Find what was said in this conversation.",
    "knowledge.list": "List the knowledge bases of this agent.",
    "knowledge.retrieve": "Look something up in a knowledge base of this agent.",
    "steering.pull": "Take the messages that people sent to this run since it began.",
    "artifacts.metadata": "What is known of an artifact: its name, its type, its size.",
    "artifacts.read": "Read an artifact, as base64, a piece at a time.",
    _WRITE: "Keep a file as an artifact of this conversation: give `text`, or `content_base64`.",
    "state.get": "Read a value that is kept between runs.",
    "state.set": "Keep a value between runs. `if_version` sets it only where nobody else did meanwhile.",
    "state.delete": "Remove a value that is kept between runs.",
    "state.list": "List the names of the values that are kept between runs.",
}
"""The actions that a harness is shown, and what a model is told of each."""
_NEEDS: Final = {_WRITE: "artifacts.begin"}
_READS: Final = frozenset({"page", "search", "list", "retrieve", "metadata", "read", "get"})


class _Write(Strict):
    """Parameters of the upload in one step."""

    name: str
    mime_type: str = "text/plain"
    artifact_type: str = "file"
    text: str | None = Field(default=None, description="The content, where it is text.")
    content_base64: Bytes64 | None = Field(default=None, description="The content, where it is not.")


class RunTools:
    """One run, as one client sees it. Implements `ToolServer`."""

    ttl_ms = TOOL_LIST_TTL_MS

    def __init__(self, run: LiveRun, calls: ToolCalls, answered: frozenset[str], hide: Callable[[str], str]) -> None:
        """`answered` are the actions that this host answers; `hide` takes secrets out of a text."""
        self._run = run
        self._calls = calls
        self._answered = answered
        self._hide = hide

    @property
    def instructions(self) -> str:
        return (
            "Tools of one run of a Bollard host. What needs a person's yes waits for it. Names that begin with "
            f"{_PREFIX} reach the conversation and what the host keeps for this agent."
        )

    def knows(self, name: str) -> bool:
        return self._run.session.graph.node(name) is not None or name in self._actions()

    def tools(self) -> Mapping[str, JsonObject]:
        graph = self._run.session.graph
        found = {
            str(planned["name"]): _tool(graph, planned)
            for planned in graph.for_planner()
            if self._allowed("tools.call", (str(planned["name"]),))
        }
        found |= {name: _action_tool(name, action) for name, action in self._actions().items()}
        return dict(sorted(found.items()))

    async def call(self, name: str, arguments: JsonObject, meta: JsonObject, progress: Progress) -> JsonObject:
        if self._run.session.graph.node(name) is None:
            return await self._act(self._action(name), arguments)
        wanted = meta.get(CALL_ID_KEY)
        call_id = wanted if isinstance(wanted, str) else f"mcp_{secrets.token_hex(12)}"
        params: JsonObject = {"name": name, "parameters": arguments, "call_id": call_id}

        def told(done: float, total: float | None, message: str | None) -> None:
            progress(done, total, None if message is None else self._hide(message))

        with self._calls.heard(self._run, call_id, told):
            answer = await ask(self._run, "tools.call", params)
        return refused_call(answer) if isinstance(answer, AgentAPIError) else _result(cast("JsonObject", answer))

    async def _act(self, action: str, arguments: JsonObject) -> JsonObject:
        answer = await (self._write(arguments) if action == _WRITE else ask(self._run, action, arguments))
        if isinstance(answer, AgentAPIError):
            return refused_call(answer)
        return tool_answer([text_block(encode(answer).decode())], answer)

    async def _write(self, arguments: JsonObject) -> JsonValue | AgentAPIError:
        """Begin, append, finish: each through the gate."""
        try:
            wanted = _Write.from_wire(arguments)
        except ValidationError as error:
            field, problem = first_problem(error)
            return AgentAPIError(code="invalid_argument", message=f"{field}: {problem}", details={"field": field})
        if (wanted.text is None) == (wanted.content_base64 is None):
            return AgentAPIError(code="invalid_argument", message="give text or content_base64, and one of them")
        content = base64.b64decode(wanted.content_base64 or "") if wanted.text is None else wanted.text.encode()
        head: JsonObject = {
            "name": wanted.name,
            "mime_type": wanted.mime_type,
            "artifact_type": wanted.artifact_type,
        }
        begun = await ask(self._run, "artifacts.begin", head)
        if not isinstance(begun, dict):
            return begun
        upload: JsonObject = {"upload_id": begun["upload_id"]}
        piece: JsonObject = {**upload, "offset": 0, "content_base64": base64.b64encode(content).decode()}
        appended = await ask(self._run, "artifacts.append", piece) if content else begun
        if isinstance(appended, AgentAPIError):
            return appended
        return await ask(self._run, "artifacts.finish", {**upload, "sha256": sha256(content).hexdigest()})

    # --- what there is ---

    def _actions(self) -> dict[str, str]:
        """Actions by the names of their tools: those that the host answers, and that the run may use for something."""
        graph = self._run.session.graph
        found: dict[str, str] = {}
        for action in _WORDS:
            needed = _NEEDS.get(action, action)
            if needed in self._answered and self._allowed(needed, self._things(needed)):
                found[_free_name(graph, action)] = action
        return found

    def _action(self, name: str) -> str:
        """What was there a moment ago may have been revoked. Raises `NotFound`."""
        action = self._actions().get(name)
        if action is None:
            raise NotFound("this run has no such tool", reason="run_tool", hint="list its tools again")
        return action

    def _things(self, action: str) -> Iterable[str | None]:
        """What an action could be about in this run; nothing in particular, for most."""
        rule, grant = RULES[action], self._run.grant
        if rule.family == "state":
            return grant.state_keys
        if rule.listed:
            return grant.access.rights.resources.get(rule.family, {})
        return (None,)

    def _allowed(self, action: str, things: Iterable[str | None]) -> bool:
        run = self._run
        return any(not isinstance(check(run.grant, run.revoked, action, thing), Denied) for thing in things)


def _free_name(graph: CapabilityGraph, action: str) -> str:
    """The name of an action: a tool of the same name keeps its own, and both can be called."""
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
    """Hints only, as MCP has them: what may be done is decided here."""
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
        "description": _WORDS[action],
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
    """A `ToolResult` of ours."""
    content, kept = (cast("list[JsonObject]", answer.get(name) or []) for name in ("content", "artifact_refs"))
    blocks = blocks_of(content, kept)
    result = tool_answer(blocks, answer.get("structured"), is_error=answer.get("is_error") is True)
    return {**result, "_meta": {CALL_ID_KEY: answer.get("call_id")}}
