"""A conversation with one agent of a host: each message is a run, followed to its end."""

import asyncio
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from bollard.cli.documents import AGENTS
from bollard.cli.errors import UsageProblem
from bollard.cli.following import FollowedRun
from bollard.cli.host_client import HostClient
from bollard.cli.language import Text
from bollard.cli.limits import AGENT_WAIT_S, WATCH_S
from bollard.cli.lines_ahead import LinesAhead
from bollard.cli.records import RecordSink
from bollard.cli.render import Renderer
from bollard.protocol import AgentRunRecord, JsonObject

__all__ = ["Chat", "ChatEnd"]

_FAVOURITE = "demo"
_COMING = frozenset({"starting", "restarting"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatEnd:
    """How one run ended, and the lines that were given to it and that it did not read."""

    status: str
    dropped: tuple[str, ...] = ()


class _Watched:
    """A sink that lets somebody else see the records too."""

    def __init__(self, sink: RecordSink, saw: Callable[[AgentRunRecord], None]) -> None:
        self._sink = sink
        self._saw = saw

    def record(self, record: AgentRunRecord) -> None:
        self._saw(record)
        self._sink.record(record)

    def gap(self, gap: JsonObject) -> None:
        self._sink.gap(gap)


class Chat:
    """Talks over HTTP; `play` feeds it as it feeds a session on a worker."""

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
        """Whether the agent's policy lets messages into its runs."""
        self.conversation = conversation or f"cli-{secrets.token_hex(6)}"
        self._ahead = LinesAhead(client, self.conversation, actor)

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
            if loop.time() > until or not await self._more_will_come():
                raise _no_agent(list(agents), asked, absent)
            await asyncio.sleep(WATCH_S)

    @property
    def agent(self) -> str:
        return self._agent

    @property
    def address(self) -> str:
        return self._client.address

    async def run(self, text: str | None, event_type: str) -> ChatEnd:
        """One message, one run, to its end. A line that has its run already is not sent again."""
        del event_type
        own = self._ahead.take(text)
        run = self._run = FollowedRun(
            self._client,
            _Watched(self._sink, self._ahead.saw),
            run_id=own,
            request=None if own is not None else self._request(text),
            lost=lambda detail: self._renderer.note(self._text("chat.lost", detail=detail)),
            resumed=lambda: self._renderer.note(self._text("chat.resumed")),
        )
        self._cancelled = False
        try:
            end = await run.to_the_end()
            self._run = None  # what is typed from here on is the next message
            dropped = await self._ahead.settle()
            if self._cancelled:
                await self._ahead.drop()
        finally:
            self._run = None
            await self._ahead.close()
            await run.close()
        return ChatEnd(status=str(end.data.get("status")), dropped=dropped)

    def _request(self, text: str | None) -> JsonObject:
        said: JsonObject = {
            "agent": self._agent,
            "input": {"text": text or ""},
            "conversation": self.conversation,
            "id": secrets.token_hex(16),
        }
        return said if self._actor is None else {**said, "actor": self._actor}

    def cancel(self) -> bool:
        """Stop the run that is under way; False when there is none, or it is being stopped already."""
        if self._run is None or not self._run.cancel():
            return False
        self._cancelled = True
        return True

    def steer(self, text: str, told: Callable[[bool], None]) -> None:
        """Send a line into the run that is under way; a run that cannot take it leaves it for the next message."""
        run_id = self._run.run_id if self._run is not None else None
        if run_id is None:
            told(False)
        else:
            self._ahead.give(run_id, text, told)

    async def _agents(self) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
        """Those that can be run now, and the missing runner of each saved one that cannot."""
        items = await AGENTS.all(self._client)
        there = {str(item["agent_id"]): item for item in items if item.get("available", True)}
        absent = {str(item["agent_id"]): str(item["runner_id"]) for item in items if item["agent_id"] not in there}
        return there, absent

    async def _more_will_come(self) -> bool:
        plugins = cast("dict[str, dict[str, Any]]", (await self._client.health()).get("plugins") or {})
        return any(plugin.get("status") in _COMING for plugin in plugins.values())


def _choose(known: list[str], asked: str | None) -> str | None:
    """What was asked for, if it is there; otherwise the favourite, or the only one."""
    wanted = asked or (_FAVOURITE if _FAVOURITE in known or len(known) != 1 else known[0])
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
