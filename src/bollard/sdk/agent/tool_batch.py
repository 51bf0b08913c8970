"""`ToolBatch`: the tool calls of one answer, made in parallel, with their results in the order of the calls.

Every call gets a result message, also a call that was refused, failed, timed out or never began, so that no history has
a call without its result. The host waits for approvals; here such a call only takes longer.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from bollard.protocol import ArtifactContent, ArtifactRef, JsonObject, Message, TextContent, ToolCall, ToolResult
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.agent.toolset import Toolset, ToolTarget
from bollard.sdk.context import RunContext
from bollard.sdk.errors import AgentAPIException

ARGUMENTS_CHARACTERS: Final = 200_000
UNFINISHED: Final = "Error: the run was stopped before this call ended."
_PLACE: Final = ("channel", "target")
"""The arguments of an action that say where."""
_WHY: Final = {
    "approval_denied": "a person was asked, and said no",
    "approval_expired": "a person was asked, and nobody answered in time",
    "approval_required": "it needs a person's yes, and this agent does not wait for one",
}


class ToolBatch:
    """The tool calls of one answer. `results` has a message for each, also before they have ended."""

    def __init__(
        self, ctx: RunContext[Any], config: AgentSettings, toolset: Toolset, calls: Sequence[ToolCall]
    ) -> None:
        self._ctx = ctx
        self._config = config
        self._toolset = toolset
        self._calls = tuple(calls)
        self._ended: dict[str, _Outcome] = {}

    async def run(self, refused: Mapping[str, str]) -> None:
        """Make the calls, except the refused ones, whose texts become their results. Cancelling stops all of them."""
        for call_id, sentence in refused.items():
            self._ended[call_id] = _Outcome(text=sentence, is_error=True)
        gate = asyncio.Semaphore(self._config.parallel_tools)
        async with asyncio.TaskGroup() as group:
            for call in self._calls:
                if call.id not in self._ended:
                    group.create_task(self._run_one(call, gate))

    @property
    def results(self) -> tuple[Message, ...]:
        """One message for each call, in order."""
        lost = _Outcome(text=UNFINISHED, is_error=True)
        return tuple(_message(call, self._ended.get(call.id, lost)) for call in self._calls)

    async def _run_one(self, call: ToolCall, gate: asyncio.Semaphore) -> None:
        async with gate:
            self._ended[call.id] = await self._outcome_of(call)

    async def _outcome_of(self, call: ToolCall) -> "_Outcome":
        name = call.function.name
        offered = self._toolset.by_name.get(name)
        if offered is None:
            known = ", ".join(self._toolset.by_name) or "none"
            return _failure(f"there is no tool {name}. Tools: {known}")
        arguments = arguments_of(call)
        if arguments is None:
            return _failure(f"the arguments of {name} are no JSON object. Write them again")
        within_s = self._time_for(offered)
        limit = asyncio.timeout(within_s)
        try:
            async with limit:
                return await self._call(offered, arguments, call.id)
        except AgentAPIException as error:
            why = _WHY.get(error.code, error.error.message)
            return _failure(f"{name} was not carried out ({error.code}): {why}")
        except TimeoutError:
            if not limit.expired():
                raise
            return _failure(f"{name} did not answer within {within_s:g} seconds, and was given up")

    def _time_for(self, offered: ToolTarget) -> float | None:
        """The timeout in seconds. `None` leaves it to the host, which does not count the time of an approval."""
        single = self._config.tool_timeouts
        return single.get(offered.name) or single.get(offered.target) or self._config.tool_timeout_s

    async def _call(self, offered: ToolTarget, arguments: JsonObject, call_id: str) -> "_Outcome":
        if offered.kind == "agent":
            return await self._ask_agent(offered, arguments)
        if offered.kind == "action":
            return await self._request_action(offered, arguments)
        result = await self._ctx.api.tools.call(offered.target, arguments, call_id)
        text = result_text(result, self._config.tool_result_characters)
        return _Outcome(text=text, is_error=result.is_error, refs=result.artifact_refs)

    async def _request_action(self, offered: ToolTarget, arguments: JsonObject) -> "_Outcome":
        target = {name: value for name, value in arguments.items() if name in _PLACE}
        payload = {name: value for name, value in arguments.items() if name not in _PLACE}
        outcome = await self._ctx.api.platform.request(offered.target, target or None, payload)
        said = outcome.outcome if outcome.result is None else json.dumps(outcome.result, ensure_ascii=False)
        return _Outcome(text=_cut(said, self._config.tool_result_characters), is_error=False)

    async def _ask_agent(self, offered: ToolTarget, arguments: JsonObject) -> "_Outcome":
        question = arguments.get("text")
        if not isinstance(question, str) or not question:
            return _failure(f"{offered.name} needs a text")
        child = await self._ctx.api.agents.call(offered.target, question)
        words = [
            each.content if isinstance(each.content, str) else _joined(each.content)
            for each in child.messages
            if each.role == "assistant"
        ]
        text = _cut("\n".join(word for word in words if word), self._config.tool_result_characters)
        if child.status == "completed":
            return _Outcome(text=text or "(it said nothing)", is_error=False)
        return _failure(f"the run of {offered.name} ended as {child.status} ({child.code}). {text}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    text: str
    is_error: bool
    refs: tuple[ArtifactRef, ...] = ()


def _failure(sentence: str) -> _Outcome:
    return _Outcome(text=f"Error: {sentence}.", is_error=True)


def _message(call: ToolCall, ended: _Outcome) -> Message:
    return Message(
        role="tool",
        content=ended.text,
        tool_call_id=call.id,
        name=call.function.name,
        artifact_refs=ended.refs or None,
        metadata={"is_error": True} if ended.is_error else None,
    )


def arguments_of(call: ToolCall) -> JsonObject | None:
    """The arguments of a call; `None` if they are not a JSON object. An empty text means no arguments."""
    text = call.function.arguments.strip() or "{}"
    if len(text) > ARGUMENTS_CHARACTERS:
        return None
    try:
        value: object = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return cast("JsonObject", value) if isinstance(value, dict) else None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def result_text(result: ToolResult, most: int) -> str:
    """The text of a tool result for the model: its text, otherwise its JSON. Other content is named."""
    text = _joined(result.content)
    if not text and result.structured is not None:
        text = json.dumps(result.structured, ensure_ascii=False)
    text = _cut(text or "(no output)", most)
    return f"Error: {text}" if result.is_error and not text.startswith("Error") else text


def _joined(content: Sequence[Any]) -> str:
    parts: list[str] = []
    for element in content:
        if isinstance(element, TextContent):
            parts.append(element.text)
        elif isinstance(element, ArtifactContent):
            parts.append(f"[artifact {element.artifact_id}]")
        else:
            parts.append(f"[{element.type}]")
    return "\n".join(part for part in parts if part)


def _cut(text: str, most: int) -> str:
    """The beginning and the end of a long text: errors tend to be at the end."""
    if len(text) <= most:
        return text
    head, tail = most * 2 // 3, most - most * 2 // 3
    return f"{text[:head]}\n[… {len(text) - most} characters left out …]\n{text[len(text) - tail :]}"
