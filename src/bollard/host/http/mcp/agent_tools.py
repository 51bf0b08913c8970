"""Agents as MCP tools, for clients with an API key.

A call is a message to the agent. It starts a run; the output of the run is the progress of the call, and its last
messages are the result.
"""

import asyncio
from collections.abc import Mapping
from functools import cached_property
from typing import Final, cast

import msgspec

from bollard.host.agents.agent import Agent, AgentRegistry
from bollard.host.capabilities.graph import short_names
from bollard.host.capabilities.sources import Progress
from bollard.host.clock import Clock
from bollard.host.core import Core
from bollard.host.errors import InvalidRequest
from bollard.host.events.acceptance import Accepted
from bollard.host.events.agent_calls import agent_capability
from bollard.host.http.auth.callers import speaker
from bollard.host.http.bodies import message_event, source_of
from bollard.host.http.mcp.messages import blocks_of, text_block, tool_answer
from bollard.host.http.resources.run_rows import RunRows
from bollard.host.http.run_output import RunOutput
from bollard.host.identity.caller import Caller
from bollard.host.limits import INPUT_TEXT_BYTES
from bollard.host.runs.event import NewEvent
from bollard.host.scope import Scope
from bollard.protocol import AgentInput, JsonObject

_ID_CHARACTERS: Final = 256
_INPUT: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "text": {
            "type": "string",
            "minLength": 1,
            "maxLength": INPUT_TEXT_BYTES // 4,
            "description": "The message to the agent.",
        },
        "conversation": {
            "type": "string",
            "minLength": 1,
            "maxLength": _ID_CHARACTERS,
            "description": "A name of your choice. Calls with the same name share one conversation.",
        },
    },
    "required": ["text"],
    "additionalProperties": False,
}


class MessageParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the host that agent tools use."""

    core: Core
    agents: AgentRegistry
    rows: RunRows
    clock: Clock


class AgentTools:
    """The agents that one caller may use. Implements `ToolServer`."""

    instructions = (
        "Each tool is an agent of a Bollard host. A call returns when its run has ended; that can take a while."
    )

    def __init__(self, caller: Caller, parts: MessageParts, message_id: str | None, traceparent: str | None) -> None:
        """`message_id` is the id that the caller chose: a repeat gets the first run."""
        self._caller = caller
        self._parts = parts
        self._message_id = message_id
        self._traceparent = traceparent

    def knows(self, name: str) -> bool:
        return name in self._agents

    def tools(self) -> Mapping[str, JsonObject]:
        return {
            name: {"name": name, "description": agent_capability(agent).description, "inputSchema": _INPUT}
            for name, agent in sorted(self._agents.items())
        }

    async def call(self, name: str, arguments: JsonObject, meta: JsonObject, progress: Progress) -> JsonObject:
        del meta
        text, conversation = _arguments(arguments)
        accepted = await self._send_message(self._agents[name].agent_id, text, conversation)
        if accepted.run_id is None:
            problem = "no agent accepted the message" if accepted.reason is None else accepted.reason.message
            return tool_answer([text_block(f"There is no run: {problem}.")], is_error=True)
        output = RunOutput()
        try:
            await output.follow(self._parts.core.reader, accepted, accepted.run_id, progress)
        finally:
            # A cancelled call cancels the run that it started, but no run that others share.
            if output.status is None and not output.closing and accepted.first and not accepted.steered:
                await self._parts.core.dispatcher.cancel(accepted.run_id, "cancelled")
        return _answer(accepted.run_id, output)

    @cached_property
    def _agents(self) -> dict[str, Agent]:
        """Agents by tool name, without those that would refuse the caller."""
        parts, caller = self._parts, self._caller
        event, now_ms = self._event("", None), parts.clock.now_ms()
        agents = {
            agent.agent_id: agent
            for agent in parts.agents.of(caller.workspace)
            if parts.core.gates.look(agent, event.scope.actor, now_ms, 0, new_run=False) is None
        }
        capabilities = {agent_id: agent_capability(agent) for agent_id, agent in agents.items()}
        names = short_names(capabilities.values())
        return {names[capabilities[agent_id].id]: agent for agent_id, agent in agents.items()}

    def _event(self, text: str, conversation: str | None) -> NewEvent:
        place = Scope(workspace=self._caller.workspace, conversation=conversation)
        return message_event(
            AgentInput(text=text),
            Scope.of(place, speaker(self._caller, None)),
            source_of(self._caller, self._message_id),
            self._message_id or self._parts.core.maker.new_id(),
            caller=self._caller.name,
            traceparent=self._traceparent,
        )

    async def _send_message(self, agent_id: str, text: str, conversation: str | None) -> Accepted:
        event = self._event(text, conversation)
        await self._parts.rows.check_entering(self._caller, event.scope)
        creating = asyncio.ensure_future(
            self._parts.core.intake.accept(event, agent_id, watch=True, fresh=self._message_id is None)
        )
        try:
            return await asyncio.shield(creating)
        except asyncio.CancelledError:
            creating.add_done_callback(self._stop_unwanted)
            raise

    def _stop_unwanted(self, creating: "asyncio.Future[Accepted]") -> None:
        """Cancel a run whose caller disconnected while it was being created."""
        if creating.cancelled() or creating.exception() is not None:
            return
        accepted = creating.result()
        if accepted.subscription is not None:
            accepted.subscription.close()
        run = self._parts.core.dispatcher.live.get(accepted.run_id or "")
        if run is not None and accepted.first and not accepted.steered:
            run.cancel("cancelled")


def _arguments(arguments: JsonObject) -> tuple[str, str | None]:
    text, conversation = arguments.get("text"), arguments.get("conversation")
    unknown = arguments.keys() - {"text", "conversation"}
    if unknown:
        name = min(unknown)[:64]
        raise InvalidRequest(
            f"there is no argument {name}", reason="tool_argument", hint="send text", field="arguments", argument=name
        )
    if not isinstance(text, str) or not 0 < len(text) <= INPUT_TEXT_BYTES // 4:
        raise InvalidRequest(
            "text is missing or too long", reason="tool_text", hint="send a message to the agent", field="text"
        )
    if conversation is None:
        return text, None
    if not isinstance(conversation, str) or not 0 < len(conversation) <= _ID_CHARACTERS:
        raise InvalidRequest(
            "the conversation is empty or too long",
            reason="tool_conversation",
            hint="use a short name, or leave it out",
            field="conversation",
        )
    return text, conversation


def _answer(run_id: str, output: RunOutput) -> JsonObject:
    elements: list[JsonObject] = []
    for message in output.messages:
        content = message.get("content")
        if isinstance(content, str):
            elements += [text_block(content)] if content else []
        elif isinstance(content, list):
            elements += cast("list[JsonObject]", content)
    status = output.status or "running"
    if status != "completed":
        code = f" ({output.code})" if output.code else ""
        end = "The host is stopping; the run continues." if output.closing else f"The run ended as {status}{code}."
        elements.append(text_block(end))
    structured: JsonObject = {"run_id": run_id, "status": status}
    return tool_answer(blocks_of(elements), structured, is_error=status != "completed")
