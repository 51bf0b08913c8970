"""What a model is offered: the tools and agents that the run was granted, and nothing else.

Skills are shown in three steps: their names and descriptions here, their text and files by the host's own tools.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from bollard.protocol import FunctionTool, FunctionToolSpec, JsonObject, Message
from bollard.sdk.agent.settings import AgentSettings
from bollard.sdk.context import RunContext
from bollard.sdk.errors import AgentAPIException

TOOLS_AT_MOST: Final = 128
"""Functions that a model is offered; providers take no more."""
DETAILS_AT_ONCE: Final = 32
SKILLS_AT_MOST: Final = 100
DESCRIPTION_CHARACTERS: Final = 1024
_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_ANYTHING: Final[JsonObject] = {"type": "object"}
_TEXT: Final[JsonObject] = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "What the agent is told. It knows nothing else."}},
    "required": ["text"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """One function of the model, and what it stands for."""

    name: str
    kind: Literal["tool", "agent"]
    target: str
    """What the run API calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offering:
    """Everything that a model may call."""

    functions: tuple[FunctionTool, ...]
    by_name: Mapping[str, Offered]


NOTHING: Final = Offering(functions=(), by_name={})


async def offering_of(ctx: RunContext[Any], config: AgentSettings) -> Offering:
    """In an order that does not change between runs, so that providers can keep what they have read."""
    if config.tool_choice == "none":
        return NOTHING
    found = [*(await _tools(ctx)), *_agents(ctx)]
    wanted = frozenset(config.only_tools)
    functions: list[FunctionTool] = []
    by_name: dict[str, Offered] = {}
    for offered, spec in sorted(found, key=lambda each: each[0].name):
        kept = not wanted or offered.name in wanted or offered.target in wanted
        if kept and offered.name not in by_name and len(functions) < TOOLS_AT_MOST:
            by_name[offered.name] = offered
            functions.append(FunctionTool(function=spec))
    if len(found) > TOOLS_AT_MOST:
        ctx.log("more tools are granted than a model takes", "warning", granted=len(found), most=TOOLS_AT_MOST)
    return Offering(functions=tuple(functions), by_name=by_name)


def skills_told(ctx: RunContext[Any]) -> str:
    """The names of the run's skills, for the prompt. Empty without any."""
    skills = ctx.resources.skills[:SKILLS_AT_MOST]
    if not skills:
        return ""
    lines = [f"- {each.skill_name}: {_short(each.description or each.display_name or '')}" for each in skills]
    head = "Skills you have. When one fits the task, read it with the tool for skills before you begin:"
    return "\n".join((head, *lines))


def tell(messages: list[Message], text: str) -> None:
    """Add to the prompt. It stays one message, and the first."""
    if not text:
        return
    if messages and messages[0].role == "system" and isinstance(messages[0].content, str):
        messages[0] = messages[0].model_copy(update={"content": f"{messages[0].content}\n\n{text}"})
    else:
        messages.insert(0, Message(role="system", content=text))


async def _tools(ctx: RunContext[Any]) -> list[tuple[Offered, FunctionToolSpec]]:
    """Tools that may be called. Where their definitions may not be read, or cannot, what is known of them must do."""
    callable_ = [each for each in ctx.resources.tools if "call" in each.operations]
    told = await _details(ctx, [each.tool_name for each in callable_ if "detail" in each.operations])
    found: list[tuple[Offered, FunctionToolSpec]] = []
    for each in callable_:
        name, description, schema = told.get(each.tool_name) or (_plain(each.tool_name), None, _ANYTHING)
        spec = FunctionToolSpec(name=name, description=_short(description or each.description or ""), parameters=schema)
        offered = Offered(name=name, kind="tool", target=each.tool_name)
        found.append((offered, spec))
    return found


async def _details(ctx: RunContext[Any], names: Sequence[str]) -> dict[str, tuple[str, str | None, JsonObject]]:
    """By the name that the grant has: the name for models, the description, the schema."""
    told: dict[str, tuple[str, str | None, JsonObject]] = {}
    for some in _groups(names, DETAILS_AT_ONCE):
        try:
            details = await ctx.api.tools.detail(some)
        except AgentAPIException as error:
            ctx.log("the definitions of tools cannot be read", "warning", code=error.code, tools=len(some))
            continue
        for name, detail in zip(some, details, strict=True):
            told[name] = (_plain(detail.tool_name), detail.description, detail.input_schema)
    return told


def _agents(ctx: RunContext[Any]) -> Iterator[tuple[Offered, FunctionToolSpec]]:
    """Agents that are no tools already."""
    tools = {each.tool_name for each in ctx.resources.tools}
    for each in ctx.resources.agents:
        if f"agent:{each.agent_id}" in tools:
            continue
        name = _plain(f"agent_{each.agent_id}")
        said = each.description or f"Ask the agent {each.name or each.agent_id}."
        spec = FunctionToolSpec(name=name, description=_short(said), parameters=_TEXT)
        yield Offered(name=name, kind="agent", target=each.agent_id), spec


def _groups(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]


def _plain(name: str) -> str:
    """A name as every provider takes it."""
    return _NO_NAME.sub("_", name).strip("_")[:64] or "tool"


def _short(text: str) -> str:
    return text if len(text) <= DESCRIPTION_CHARACTERS else f"{text[: DESCRIPTION_CHARACTERS - 1]}…"
