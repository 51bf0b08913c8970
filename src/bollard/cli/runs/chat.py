"""`bollard chat`: a conversation with one agent of a host. Each message is a run, followed to its end."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast
from urllib.parse import urlencode

import typer

from bollard.cli.client.documents import AGENTS
from bollard.cli.client.host_client import HostClient
from bollard.cli.client.run_stream import FollowedRun, RecordSink, sink_for
from bollard.cli.command import single_command
from bollard.cli.errors import HostProblem, UsageProblem
from bollard.cli.language import Text
from bollard.cli.limits import AGENT_WAIT_S, WATCH_S
from bollard.cli.options import ActorOption, speaker
from bollard.cli.runs.play import play
from bollard.cli.shell import HostShell, Shell
from bollard.cli.terminal.renderers import Renderer, renderer_for
from bollard.protocol import AgentRunRecord, JsonObject

_LISTED = 50
"""Newest runs of a conversation among which the run of a line is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    text: str
    event_id: str
    claimed: bool
    """Whether the active run may read it."""
    run_id: str | None = None
    """Its own run, if known."""


class InputLines:
    """Lines that a person types during a run.

    A line is sent once. If the active run does not read it, the host starts a run for it; the chat follows that run.
    """

    def __init__(self, client: HostClient, conversation: str, actor: JsonObject | None) -> None:
        self._client = client
        self._conversation = conversation
        self._actor = actor
        self._lines: list[_Line] = []
        self._dropped: dict[str, bool] = {}
        """Messages that the run did not read, and whether the host starts runs for them."""
        self._sending: set[asyncio.Task[None]] = set()

    def send(self, run_id: str, text: str, on_sent: Callable[[bool], None]) -> None:
        """Send a line into a run; `on_sent` is called with whether the run took it."""
        task = asyncio.create_task(self._send(run_id, text, on_sent))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send(self, run_id: str, text: str, on_sent: Callable[[bool], None]) -> None:
        body: JsonObject = {"input": {"text": text}, "id": secrets.token_hex(16)}
        if self._actor is not None:
            body["actor"] = self._actor
        try:
            answer = await self._client.post(f"/api/v1/runs/{run_id}/steer", body)
        except HostProblem:  # it cannot be steered, or it has ended: the line is the next message
            on_sent(False)
            return
        claimed = "steering" in answer
        own = None if claimed else cast("str | None", answer["run_id"])
        self._lines.append(_Line(text=text, event_id=str(answer["event_id"]), claimed=claimed, run_id=own))
        on_sent(claimed)

    def observe(self, record: AgentRunRecord) -> None:
        """Take note of a record of the active run."""
        if record.type == "steering.dropped":
            self._dropped[str(record.data.get("event_id"))] = bool(record.data.get("redispatch"))

    async def settle(self) -> tuple[str, ...]:
        """After the end of a run: the lines that it did not read, in order. Raises `HostProblem`."""
        await asyncio.gather(*self._sending)
        lines, self._lines = self._lines, []
        dropped, self._dropped = self._dropped, {}
        unread: list[str] = []
        for line in lines:
            if line.claimed and line.event_id in dropped:
                unread.append(line.text)
            if dropped.get(line.event_id, not line.claimed):  # it has a run of its own, or gets one
                own = line.run_id or await self._run_of(line.event_id)
                self._lines.append(replace(line, claimed=False, run_id=own))
        return tuple(unread)

    def take(self, text: str | None) -> str | None:
        """Remove a line and return its run, if it has one."""
        for index, line in enumerate(self._lines):
            if line.text == text:
                del self._lines[index]
                return line.run_id
        return None

    async def drop(self) -> None:
        """Cancel the runs of the remaining lines."""
        lines, self._lines = self._lines, []
        waiting = (self._client.post(f"/api/v1/runs/{line.run_id}/cancel", {}) for line in lines)
        await asyncio.gather(*waiting, return_exceptions=True)

    async def close(self) -> None:
        """Wait for requests in flight."""
        await asyncio.gather(*self._sending, return_exceptions=True)

    async def _run_of(self, event_id: str) -> str:
        """The run of a dropped line, which the host starts after the end of the run that dropped it."""
        query = urlencode({"conversation": self._conversation, "limit": _LISTED})
        until = asyncio.get_running_loop().time() + AGENT_WAIT_S
        while True:
            page = await self._client.get(f"/api/v1/runs?{query}")
            for item in cast("list[dict[str, Any]]", page["items"]):
                if item["event_id"] == event_id:
                    return str(item["run_id"])
            if asyncio.get_running_loop().time() > until:
                raise HostProblem("error.no_run", "hint.lost", event=event_id)
            await asyncio.sleep(WATCH_S)


_DEFAULT_AGENT = "demo"
_STARTING = frozenset({"starting", "restarting"})


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
    ) -> None:
        self._client = client
        self._renderer = renderer
        self._sink = sink
        self._text = text
        self._agent = ""
        self._actor = actor
        self._run: FollowedRun | None = None
        self._cancelled = False
        self.steerable = False
        """Whether the agent's policy allows steering."""
        self.conversation = conversation or f"cli-{secrets.token_hex(6)}"
        self._lines = InputLines(client, self.conversation, actor)

    async def open(self, asked: str | None) -> str:
        """Choose the agent, and wait for it while its plugin starts. Raises `CliError`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + AGENT_WAIT_S
        while True:
            agents, absent = await self._agents()
            chosen = _choose(list(agents), asked)
            if chosen is not None:
                self._agent = chosen
                self.steerable = agents[chosen].get("concurrency") == "steer"
                label: Mapping[str, str] = agents[chosen].get("label") or {}
                return label.get(self._text.language) or label.get("en_US", chosen)
            if loop.time() > until or not await self._plugins_are_starting():
                raise _no_agent(list(agents), asked, absent)
            await asyncio.sleep(WATCH_S)

    @property
    def agent(self) -> str:
        return self._agent

    @property
    def address(self) -> str:
        return self._client.address

    async def run(self, text: str | None, event_type: str) -> ChatEnd:
        """Send a message and follow its run to the end. A line that already has a run is not sent again."""
        del event_type
        own = self._lines.take(text)
        run = self._run = FollowedRun(
            self._client,
            _ObservedSink(self._sink, self._lines.observe),
            self._renderer,
            self._text,
            run_id=own,
            request=None if own is not None else self._request(text),
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
            await self._lines.close()
            await run.close()
        return ChatEnd(status=str(end.data.get("status")), dropped=dropped)

    def _request(self, text: str | None) -> JsonObject:
        request: JsonObject = {
            "agent": self._agent,
            "input": {"text": text or ""},
            "conversation": self.conversation,
            "id": secrets.token_hex(16),
        }
        return request if self._actor is None else {**request, "actor": self._actor}

    def cancel(self) -> bool:
        """Cancel the active run. False if there is none, or it is being cancelled already."""
        if self._run is None or not self._run.cancel():
            return False
        self._cancelled = True
        return True

    def steer(self, text: str, on_sent: Callable[[bool], None]) -> None:
        """Send a line into the active run. A line that the run cannot take is the next message."""
        run_id = self._run.run_id if self._run is not None else None
        if run_id is None:
            on_sent(False)
        else:
            self._lines.send(run_id, text, on_sent)

    async def _agents(self) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        """The available agents, and the missing runner of each other saved agent."""
        items = await AGENTS.all(self._client)
        there = {str(item["agent_id"]): item for item in items if item.get("available", True)}
        absent = {str(item["agent_id"]): str(item["runner_id"]) for item in items if item["agent_id"] not in there}
        return there, absent

    async def _plugins_are_starting(self) -> bool:
        plugins = cast("dict[str, dict[str, Any]]", (await self._client.health()).get("plugins") or {})
        return any(plugin.get("status") in _STARTING for plugin in plugins.values())


def _choose(known: list[str], asked: str | None) -> str | None:
    """The agent that was asked for, if available; without one, the default agent or the only one."""
    wanted = asked or (_DEFAULT_AGENT if _DEFAULT_AGENT in known or len(known) != 1 else known[0])
    return wanted if wanted in known else None


def _no_agent(known: list[str], asked: str | None, absent: Mapping[str, str]) -> UsageProblem:
    if asked is not None and asked in absent:
        return UsageProblem("error.agent_absent", "hint.agent_absent", agent=asked, runner=absent[asked])
    if not known:
        return UsageProblem("error.no_agents", "hint.no_agents")
    names = ", ".join(known)
    if asked is None:
        return UsageProblem("error.which_agent", "hint.which_agent", known=names)
    return UsageProblem("error.no_agent", "hint.which_agent", agent=asked, known=names)


@single_command("chat")
def chat(
    shell: HostShell,
    agent: Annotated[str | None, typer.Option("--agent", metavar="ID", help="chat.agent")] = None,
    conversation: Annotated[str | None, typer.Option("--conversation", metavar="ID", help="chat.conversation")] = None,
    message: Annotated[list[str] | None, typer.Option("--message", metavar="TEXT", help="chat.message")] = None,
    actor: ActorOption = None,
) -> int:
    if any(not line.strip() for line in message or ()):
        raise UsageProblem("error.empty_message", "hint.empty_message")
    who = speaker(actor, named=shell.client.is_named)
    renderer = renderer_for(shell)
    sink = sink_for(shell, renderer)
    session = Chat(shell.client, renderer, sink, shell.text, conversation=conversation, actor=who)
    return shell.run(_talk(shell, renderer, session, agent, message))


async def _talk(shell: Shell, renderer: Renderer, session: Chat, agent: str | None, messages: list[str] | None) -> int:
    interactive = messages is None and shell.has_person
    label = await session.open(agent)
    where = {"agent": session.agent, "address": session.address, "conversation": session.conversation}
    keys = shell.text("run.keys_steering" if session.steerable else "run.keys") if interactive else None
    renderer.greet(label, shell.text("chat.opened", **where), keys)
    return await play(session, renderer, shell, messages)
