"""`Toolset`: the functions that a model may call, which are the granted tools and agents of the run, and its platform
actions if the settings offer them.

The prompt lists the names and descriptions of skills; built-in tools of the host load their texts and files.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from bollard.protocol import FunctionTool, FunctionToolSpec, JsonObject, Message
from bollard.protocol.platform_actions import ACTION_FORMS
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.context import RunContext
from bollard.sdk.errors import AgentAPIException

TOOLS_AT_MOST: Final = 128
"""Functions of one request. Providers accept no more."""
DETAILS_AT_ONCE: Final = 32
SKILLS_AT_MOST: Final = 100
DESCRIPTION_CHARACTERS: Final = 1024
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_ANYTHING: Final[JsonObject] = {"type": "object"}
_TARGET: Final[JsonObject] = {
    "type": "string",
    "description": "The conversation, by the id of the platform. The default is the conversation of this run.",
}
_CHANNEL: Final[JsonObject] = {"type": "string", "description": "The channel. The default is the one of this run."}
_TEXT: Final[JsonObject] = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "What the agent is told. It knows nothing else."}},
    "required": ["text"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTarget:
    """One function of the model, and its tool, agent or platform action."""

    name: str
    kind: Literal["tool", "agent", "action"]
    target: str
    """Its name in the run API."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """All functions that a model may call."""

    functions: tuple[FunctionTool, ...]
    by_name: Mapping[str, ToolTarget]


EMPTY_TOOLSET: Final = Toolset(functions=(), by_name={})


async def build_toolset(ctx: RunContext[Any], config: AgentSettings) -> Toolset:
    """Build the toolset of a run. Its order is stable between runs, so that prompt caches of providers apply."""
    if config.tool_choice == "none":
        return EMPTY_TOOLSET
    found = [*(await _tools(ctx)), *_agents(ctx)]
    if config.platform_actions:
        found += _actions(ctx)
    wanted = frozenset(config.only_tools)
    functions: list[FunctionTool] = []
    by_name: dict[str, ToolTarget] = {}
    for offered, spec in sorted(found, key=lambda each: each[0].name):
        kept = not wanted or offered.name in wanted or offered.target in wanted
        if kept and offered.name not in by_name and len(functions) < TOOLS_AT_MOST:
            by_name[offered.name] = offered
            functions.append(FunctionTool(function=spec))
    if len(found) > TOOLS_AT_MOST:
        ctx.log("more tools are granted than a model takes", "warning", granted=len(found), most=TOOLS_AT_MOST)
    return Toolset(functions=tuple(functions), by_name=by_name)


def skills_text(ctx: RunContext[Any]) -> str:
    """The list of the run's skills for the prompt; empty without skills."""
    skills = ctx.resources.skills[:SKILLS_AT_MOST]
    if not skills:
        return ""
    lines = [f"- {each.skill_name}: {_short(each.description or each.display_name or '')}" for each in skills]
    head = "Skills you have. When one fits the task, read it with the tool for skills before you begin:"
    return "\n".join((head, *lines))


def append_to_prompt(messages: list[Message], text: str) -> None:
    """Append a text to the system message, which stays the first."""
    if not text:
        return
    if messages and messages[0].role == "system" and isinstance(messages[0].content, str):
        messages[0] = messages[0].model_copy(update={"content": f"{messages[0].content}\n\n{text}"})
    else:
        messages.insert(0, Message(role="system", content=text))


async def _tools(ctx: RunContext[Any]) -> list[tuple[ToolTarget, FunctionToolSpec]]:
    """The callable tools. Without readable definitions, they have the facts of the grant and no schema."""
    callable_ = [each for each in ctx.resources.tools if "call" in each.operations]
    details = await _details(ctx, [each.tool_name for each in callable_ if "detail" in each.operations])
    found: list[tuple[ToolTarget, FunctionToolSpec]] = []
    for each in callable_:
        name, description, schema = details.get(each.tool_name) or (_plain(each.tool_name), None, _ANYTHING)
        spec = FunctionToolSpec(name=name, description=_short(description or each.description or ""), parameters=schema)
        offered = ToolTarget(name=name, kind="tool", target=each.tool_name)
        found.append((offered, spec))
    return found


async def _details(ctx: RunContext[Any], names: Sequence[str]) -> dict[str, tuple[str, str | None, JsonObject]]:
    """By granted name: the name for models, the description, the schema."""
    found: dict[str, tuple[str, str | None, JsonObject]] = {}
    for some in _groups(names, DETAILS_AT_ONCE):
        try:
            details = await ctx.api.tools.detail(some)
        except AgentAPIException as error:
            ctx.log("the definitions of tools cannot be read", "warning", code=error.code, tools=len(some))
            continue
        for name, detail in zip(some, details, strict=True):
            found[name] = (_plain(detail.tool_name), detail.description, detail.input_schema)
    return found


def _agents(ctx: RunContext[Any]) -> Iterator[tuple[ToolTarget, FunctionToolSpec]]:
    """The callable agents that are not tools already."""
    tools = {each.tool_name for each in ctx.resources.tools}
    for each in ctx.resources.agents:
        if f"agent:{each.agent_id}" in tools:
            continue
        name = _plain(f"agent_{each.agent_id}")
        about = each.description or f"Ask the agent {each.name or each.agent_id}."
        spec = FunctionToolSpec(name=name, description=_short(about), parameters=_TEXT)
        yield ToolTarget(name=name, kind="agent", target=each.agent_id), spec


def _actions(ctx: RunContext[Any]) -> Iterator[tuple[ToolTarget, FunctionToolSpec]]:
    """The platform actions that the run may request."""
    answers = ctx.delivery.reply_target is not None
    for action in ctx.resources.platform_capabilities:
        form = ACTION_FORMS.get(action)
        about = f"Carry out {action}" if form is None else form.description
        schema = _action_schema(_ANYTHING if form is None else form.input_schema, answers=answers)
        name = _plain(action)
        spec = FunctionToolSpec(name=name, description=f"{about} on the chat platform.", parameters=schema)
        yield ToolTarget(name=name, kind="action", target=action), spec


def _action_schema(schema: JsonObject, *, answers: bool) -> JsonObject:
    """The arguments of an action, with its channel. A run that answers in a channel acts there by default."""
    properties, required = schema.get("properties"), schema.get("required")
    known = properties if isinstance(properties, dict) else {}
    needed = [each for each in required if each != "target" or not answers] if isinstance(required, list) else []
    return {
        **schema,
        "properties": {**known, "target": _TARGET, "channel": _CHANNEL},
        "required": needed if answers else [*needed, "channel"],
    }


def _groups(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]


def _plain(name: str) -> str:
    """A name that every provider accepts."""
    return _NO_NAME.sub("_", name).strip("_")[:64] or "tool"


def _short(text: str) -> str:
    return text if len(text) <= DESCRIPTION_CHARACTERS else f"{text[: DESCRIPTION_CHARACTERS - 1]}…"
