"""A conversation with one agent of a host: each message is a run, followed to its end."""

import asyncio
import getpass
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from bollard.cli.errors import UsageProblem
from bollard.cli.following import FollowedRun
from bollard.cli.host_client import HostClient
from bollard.cli.language import Text
from bollard.cli.limits import AGENT_WAIT_S, WATCH_S
from bollard.cli.records import RecordSink
from bollard.cli.render import Renderer
from bollard.protocol import JsonObject

__all__ = ["Chat", "ChatEnd"]

_FAVOURITE = "demo"
_COMING = frozenset({"starting", "restarting"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatEnd:
    """How one run ended. A host's run takes no line that was typed meanwhile, so none was dropped."""

    status: str
    dropped: tuple[str, ...] = ()


class Chat:
    """Talks over HTTP; `play` feeds it as it feeds a session on a worker."""

    def __init__(
        self, client: HostClient, renderer: Renderer, sink: RecordSink, text: Text, conversation: str | None
    ) -> None:
        self._client = client
        self._renderer = renderer
        self._sink = sink
        self._text = text
        self._agent = ""
        self._run: FollowedRun | None = None
        self.conversation = conversation or f"cli-{secrets.token_hex(6)}"

    async def open(self, asked: str | None) -> str:
        """Choose the agent, and wait for it while its plugin starts. Raises `CliError`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + AGENT_WAIT_S
        while True:
            agents = await self._agents()
            chosen = _choose(list(agents), asked)
            if chosen is not None:
                self._agent = chosen
                return agents[chosen].get(self._text.language) or agents[chosen].get("en_US", chosen)
            if loop.time() > until or not await self._more_will_come():
                raise _no_agent(list(agents), asked)
            await asyncio.sleep(WATCH_S)

    @property
    def agent(self) -> str:
        return self._agent

    async def run(self, text: str | None, event_type: str) -> ChatEnd:
        """One message, one run, to its end."""
        del event_type
        request: JsonObject = {
            "agent": self._agent,
            "input": {"text": text or ""},
            "conversation": self.conversation,
            "actor": {"type": "user", "id": _user()},
            "id": secrets.token_hex(16),
        }
        run = self._run = FollowedRun(
            self._client,
            self._sink,
            request=request,
            lost=lambda detail: self._renderer.note(self._text("chat.lost", detail=detail)),
            resumed=lambda: self._renderer.note(self._text("chat.resumed")),
        )
        try:
            end = await run.to_the_end()
        finally:
            self._run = None
            await run.close()
        return ChatEnd(status=str(end.data.get("status")))

    def cancel(self) -> bool:
        """Stop the run that is under way; False when there is none, or it is being stopped already."""
        return self._run is not None and self._run.cancel()

    def steer(self, text: str) -> bool:
        """A line that is typed during a run is the next message."""
        del text
        return False

    async def _agents(self) -> dict[str, Mapping[str, str]]:
        items = cast("list[dict[str, Any]]", (await self._client.get("/api/v1/agents")).get("items") or [])
        return {str(item["agent_id"]): cast("Mapping[str, str]", item.get("label") or {}) for item in items}

    async def _more_will_come(self) -> bool:
        plugins = cast("dict[str, dict[str, Any]]", (await self._client.health()).get("plugins") or {})
        return any(plugin.get("status") in _COMING for plugin in plugins.values())


def _choose(known: list[str], asked: str | None) -> str | None:
    """What was asked for, if it is there; otherwise the favourite, or the only one."""
    wanted = asked or (_FAVOURITE if _FAVOURITE in known or len(known) != 1 else known[0])
    return wanted if wanted in known else None


def _no_agent(known: list[str], asked: str | None) -> UsageProblem:
    if not known:
        return UsageProblem("error.no_agents", "hint.no_agents")
    names = ", ".join(known)
    if asked is None:
        return UsageProblem("error.which_agent", "hint.which_agent", known=names)
    return UsageProblem("error.no_agent", "hint.which_agent", agent=asked, known=names)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name
        return "unknown"
