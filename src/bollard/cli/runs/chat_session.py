"""One conversation with one agent of a host. Each message is a run, followed to its end."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from bollard.cli.agents.models import MODELS
from bollard.cli.client.documents import AGENTS
from bollard.cli.client.host_client import HostClient
from bollard.cli.client.run_stream import FollowedRun, RecordSink
from bollard.cli.errors import HostRefusal
from bollard.cli.language import Text
from bollard.cli.limits import AGENT_WAIT_S, WATCH_S
from bollard.cli.runs.agent_choice import AgentChoice, choose_agent, no_agent, real_model
from bollard.cli.runs.chat_files import ChatFiles, message_input
from bollard.cli.runs.inline_requests import InlineRequests
from bollard.cli.runs.input_lines import InputLines
from bollard.cli.terminal.renderers import Renderer
from bollard.cli.terminal.times import local_zone
from bollard.protocol import AgentRunRecord, JsonObject

_STARTING: Final = frozenset({"starting", "restarting"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatEnd:
    """How one run ended, and the lines that it did not read."""

    status: str
    dropped: tuple[str, ...] = ()


class _ObservedSink:
    """A sink that also passes each record to an observer."""

    def __init__(self, sink: RecordSink, observe: Callable[[AgentRunRecord], None]) -> None:
        self._sink = sink
        self._observe = observe

    def record(self, record: AgentRunRecord) -> None:
        self._observe(record)
        self._sink.record(record)

    def gap(self, gap: JsonObject) -> None:
        self._sink.gap(gap)


class Chat:
    """A conversation over HTTP. `play` feeds it like a session on a worker."""

    def __init__(
        self,
        client: HostClient,
        renderer: Renderer,
        sink: RecordSink,
        text: Text,
        *,
        conversation: str | None,
        actor: JsonObject | None,
        requests: InlineRequests | None = None,
    ) -> None:
        self.client = client
        self._renderer = renderer
        self._sink = sink
        self._text = text
        self._choice = AgentChoice(agent="")
        self._workspace = ""
        self._actor = actor
        self._requests = requests
        self._run: FollowedRun | None = None
        self._cancelled = False
        self.steerable = False
        """Whether the agent's policy allows steering."""
        self.label = ""
        """The name of the agent in the person's language."""
        self.files = ChatFiles(client)
        self.conversation = ""
        self.begin(conversation)

    def begin(self, conversation: str | None = None) -> None:
        """Continue a conversation, or begin a new one."""
        self.conversation = conversation or f"cli-{secrets.token_hex(6)}"
        self._lines = InputLines(self.client, self.conversation, self._actor, self.files)

    async def open(self, asked: str | None) -> None:
        """Choose the agent, and wait for it while its plugin starts. Raises `CliError`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + AGENT_WAIT_S
        model = await self._model() if asked is None else None
        while True:
            agents, absent = await self._agents()
            starting = loop.time() <= until and await self._plugins_are_starting()
            choice = choose_agent([*agents], asked, model, starting=starting)
            if choice is not None:
                self._choice = choice
                self._workspace = "" if choice.reason is None else await self._current_workspace()
                self.steerable = agents[choice.agent].get("concurrency") == "steer"
                label: Mapping[str, str] = agents[choice.agent].get("label") or {}
                self.label = label.get(self._text.language) or label.get("en_US", choice.agent)
                return
            if not starting:
                raise no_agent([*agents], asked, absent)
            await asyncio.sleep(WATCH_S)

    @property
    def agent(self) -> str:
        return self._choice.agent

    @property
    def place(self) -> str:
        """The agent, the host and the conversation in words."""
        fields = {"agent": self.agent, "address": self.client.address, "conversation": self.conversation}
        return self._text("chat.opened", **fields)

    @property
    def reason(self) -> str | None:
        """Why this agent is the default."""
        if self._choice.reason is None:
            return None
        return self._text(self._choice.reason, model=self._choice.model, workspace=self._workspace)

    async def run(self, text: str | None, event_type: str) -> ChatEnd:
        """Send a message and follow its run to the end. A line that already has a run is not sent again."""
        del event_type
        own = self._lines.take(text)
        request = None if own is not None else await self._request(text)
        run = self._run = FollowedRun(
            self.client,
            _ObservedSink(self._sink, self._lines.observe),
            self._renderer,
            self._text,
            run_id=own,
            request=request,
        )
        self._cancelled = False
        try:
            end = await run.to_the_end()
            self._run = None  # further lines are the next message
            dropped = await self._lines.settle()
            if self._cancelled:
                await self._lines.drop()
        finally:
            self._run = None
            if self._requests is not None:
                await self._requests.close()
            await self._lines.close()
            await run.close()
        return ChatEnd(status=str(end.data.get("status")), dropped=dropped)

    async def _request(self, text: str | None) -> JsonObject:
        request: JsonObject = {
            "agent": self.agent,
            "input": await message_input(self.files, self.conversation, text or ""),
            "conversation": self.conversation,
            "id": secrets.token_hex(16),
        }
        if self._text.language != "en_US":  # the default of the host
            request["locale"] = self._text.language
        if (zone := local_zone()) is not None:
            request["timezone"] = zone
        return request if self._actor is None else {**request, "actor": self._actor}

    def cancel(self) -> bool:
        """Cancel the active run. False if there is none, or it is being cancelled already."""
        if self._run is None or not self._run.cancel():
            return False
        self._cancelled = True
        return True

    def steer(self, text: str, on_sent: Callable[[bool], None]) -> None:
        """Answer the open question of the active run, or send the line into it. A line that the run cannot take is the
        next message."""
        run_id = self._run.run_id if self._run is not None else None
        if run_id is None:
            on_sent(False)
        elif self._requests is not None and self._requests.has_question:
            self._requests.answer(run_id, text)
        else:
            self._lines.send(run_id, text, on_sent)

    async def _agents(self) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        """The available agents, and the missing runner of each other saved agent."""
        items = await AGENTS.all(self.client)
        there = {str(item["agent_id"]): item for item in items if item.get("available", True)}
        absent = {str(item["agent_id"]): str(item["runner_id"]) for item in items if item["agent_id"] not in there}
        return there, absent

    async def _plugins_are_starting(self) -> bool:
        plugins = cast("dict[str, dict[str, Any]]", (await self.client.health()).get("plugins") or {})
        return any(plugin.get("status") in _STARTING for plugin in plugins.values())

    async def _current_workspace(self) -> str:
        return str((await self.client.get("/api/v1/session"))["workspace"])

    async def _model(self) -> str | None:
        """The real model that the assistant would answer with; none if the caller may not see models."""
        try:
            return real_model(await MODELS.all(self.client))
        except HostRefusal:
            return None
