"""Whole agents as tools of MCP, for clients outside with a key of their own.

A call is a message to the agent: it starts a run, what the run says is its progress, and its last messages are the
answer.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, cast

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
from bollard.host.http.bodies import message_of, source_of
from bollard.host.http.mcp.messages import ANSWER_MESSAGES, TOOL_LIST_TTL_MS, blocks_of, text_block, tool_answer
from bollard.host.http.resources.run_rows import RunRows
from bollard.host.identity.audience import RunPlace as Conversation
from bollard.host.identity.caller import Caller
from bollard.host.limits import INPUT_TEXT_BYTES
from bollard.host.runs.event import NewEvent
from bollard.host.runs.hub import StreamRecord
from bollard.host.runs.stream import StreamPosition
from bollard.protocol import AgentInput, JsonObject

_ID_CHARACTERS: Final = 256
_INPUT: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "text": {
            "type": "string",
            "minLength": 1,
            "maxLength": INPUT_TEXT_BYTES // 4,
            "description": "What the agent is told.",
        },
        "conversation": {
            "type": "string",
            "minLength": 1,
            "maxLength": _ID_CHARACTERS,
            "description": "A name of your choice. With the same name again the agent knows what was said before.",
        },
    },
    "required": ["text"],
    "additionalProperties": False,
}
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


class MessageParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts that a message passes."""

    core: Core
    agents: AgentRegistry
    rows: RunRows
    clock: Clock


@dataclass(slots=True)
class _Said:
    """What a run said so far."""

    messages: deque[JsonObject] = field(default_factory=lambda: deque[JsonObject](maxlen=ANSWER_MESSAGES))
    pieces: int = 0
    status: str | None = None
    code: str | None = None
    place: StreamPosition | None = None
    closing: bool = False


class AgentTools:
    """The agents that one caller may talk to. Implements `ToolServer`."""

    ttl_ms = TOOL_LIST_TTL_MS
    instructions = "Each tool is an agent of a Bollard host. It answers when its run has ended, which may take a while."

    def __init__(self, caller: Caller, talking: MessageParts, message_id: str | None, traceparent: str | None) -> None:
        """`message_id` is the caller's own name for the message: the same again gets the first run."""
        self._caller = caller
        self._talking = talking
        self._message_id = message_id
        self._traceparent = traceparent

    def knows(self, name: str) -> bool:
        return name in self._found

    def tools(self) -> Mapping[str, JsonObject]:
        return {
            name: {"name": name, "description": agent_capability(agent).description, "inputSchema": _INPUT}
            for name, agent in sorted(self._found.items())
        }

    async def call(self, name: str, arguments: JsonObject, meta: JsonObject, progress: Progress) -> JsonObject:
        del meta
        text, conversation = _arguments(arguments)
        accepted = await self._tell(self._found[name].agent_id, text, conversation)
        if accepted.run_id is None:
            why = "nobody took the message" if accepted.reason is None else accepted.reason.message
            return tool_answer([text_block(f"There is no run: {why}.")], is_error=True)
        said = _Said()
        try:
            await self._follow(accepted, accepted.run_id, said, progress)
        finally:
            # Whoever stops waiting stops what was begun for it, and nothing that others have part in.
            if said.status is None and not said.closing and accepted.first and not accepted.steered:
                await self._talking.core.dispatcher.cancel(accepted.run_id, "cancelled")
        return _answer(accepted.run_id, said)

    @cached_property
    def _found(self) -> dict[str, Agent]:
        """By the names of their tools. What an agent would refuse to this caller is not there."""
        talking, caller = self._talking, self._caller
        event, now_ms = self._event("", None), talking.clock.now_ms()
        found = {
            agent.agent_id: agent
            for agent in talking.agents.of(caller.workspace)
            if talking.core.gates.look(agent, event, now_ms, 0, new_run=False) is None
        }
        capabilities = {agent_id: agent_capability(agent) for agent_id, agent in found.items()}
        names = short_names(capabilities.values())
        return {names[capabilities[agent_id].id]: agent for agent_id, agent in found.items()}

    def _event(self, text: str, conversation: str | None) -> NewEvent:
        return message_of(
            AgentInput(text=text),
            speaker(self._caller, None),
            self._message_id or self._talking.core.maker.new_id(),
            caller=self._caller.name,
            source=source_of(self._caller, self._message_id),
            conversation=conversation,
            traceparent=self._traceparent,
        )

    async def _tell(self, agent_id: str, text: str, conversation: str | None) -> Accepted:
        if conversation is not None:
            place = Conversation(bot=None, conversation=conversation, thread=None)
            await self._talking.rows.check_entering(self._caller, place)
        creating = asyncio.ensure_future(
            self._talking.core.intake.accept(
                self._event(text, conversation),
                self._caller.workspace,
                agent_id,
                watch=True,
                fresh=self._message_id is None,
            )
        )
        try:
            return await asyncio.shield(creating)
        except asyncio.CancelledError:
            creating.add_done_callback(self._stop_unwanted)
            raise

    def _stop_unwanted(self, creating: "asyncio.Future[Accepted]") -> None:
        """A run that was on its way to the disk when its caller hung up."""
        if creating.cancelled() or creating.exception() is not None:
            return
        accepted = creating.result()
        if accepted.subscription is not None:
            accepted.subscription.close()
        run = self._talking.core.dispatcher.live.get(accepted.run_id or "")
        if run is not None and accepted.first and not accepted.steered:
            run.cancel("cancelled")

    async def _follow(self, accepted: Accepted, run_id: str, said: _Said, progress: Progress) -> None:
        """Until the run has ended. A reader that fell behind reads on from the disk."""
        reader = self._talking.core.reader
        said.place = None if accepted.place is None else StreamPosition(*accepted.place)
        subscription = accepted.subscription
        while said.status is None and not said.closing:
            before, replayed = said.place, subscription is None
            batches: AsyncGenerator[list[StreamRecord]] = (
                reader.read(run_id, before) if subscription is None else reader.follow(run_id, subscription, 0)
            )
            subscription = None
            async with contextlib.aclosing(batches):
                async for batch in batches:
                    for record in batch:
                        _hear(said, record, progress)
            said.closing = said.closing or (replayed and said.place == before)  # nobody here goes on with it


def _hear(said: _Said, record: StreamRecord, progress: Progress) -> None:
    body = _decode(record.json)
    data = body["data"]
    if record.type == "gap":
        said.closing = data.get("reason") == "closing"
        return
    said.place = StreamPosition(record.epoch, record.seq)
    match record.type:
        case "message.delta":
            said.pieces += 1
            progress(said.pieces, None, str(data["chunk"].get("content") or ""))
        case "message.completed":
            said.messages.append(data["message"])
        case "run.ended":
            said.status, said.code = str(data["status"]), data.get("code")
        case _:
            pass


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


def _answer(run_id: str, said: _Said) -> JsonObject:
    elements: list[JsonObject] = []
    for message in said.messages:
        content = message.get("content")
        if isinstance(content, str):
            elements += [text_block(content)] if content else []
        elif isinstance(content, list):
            elements += cast("list[JsonObject]", content)
    status = said.status or "running"
    if status != "completed":
        why = f" ({said.code})" if said.code else ""
        end = "The host stops; the run goes on." if said.closing else f"The run ended as {status}{why}."
        elements.append(text_block(end))
    told: JsonObject = {"run_id": run_id, "status": status}
    return tool_answer(blocks_of(elements), told, is_error=status != "completed")
