"""A saved bot: the account that channels speak as, and the agent that gets its events where no binding matches."""

from typing import Final

from pydantic import Field

from bollard.host.agents.agent import AgentRegistry
from bollard.host.agents.names import ChosenName
from bollard.host.agents.saved_agent import Label
from bollard.host.agents.saved_body import SavedBody
from bollard.host.errors import InvalidRequest
from bollard.host.limits import BOTS_OF_WORKSPACE
from bollard.host.log.saved_resources import Repository, ResourceKind, Saved, SavedChanges
from bollard.protocol import JsonObject

BOT: Final = ResourceKind(kind="bot", noun="bot", listed_by="bots", limit=BOTS_OF_WORKSPACE)


class Bot(SavedBody):
    """A bot. Channels and events name it by its id."""

    __qualname__ = "SaveBot"  # the name of the body in the OpenAPI document; the answer is `Bot`
    noun = "bot"
    bot_id: ChosenName
    label: Label | None = None
    agent_id: ChosenName | None = Field(default=None, description="Gets events of the bot that no binding matches.")


class BotRepository(Repository[Bot]):
    """The saved bots."""

    def __init__(self, changes: SavedChanges, agents: AgentRegistry) -> None:
        super().__init__(BOT, changes, lambda body, _: Bot.read(body), Bot.to_wire)
        self._agents = agents

    def agent_of(self, workspace: str, bot_id: str | None) -> str | None:
        """The default agent of a bot."""
        saved = None if bot_id is None else self.find(workspace, bot_id)
        return None if saved is None else saved.value.agent_id

    async def save(
        self, body: JsonObject, workspace: str, bot_id: str, *, by: str, edited: int | None = None
    ) -> Saved[Bot]:
        """Raises `InvalidRequest` for an unknown agent."""

        def make(_: Saved[Bot] | None) -> Bot:
            bot = Bot.read({**body, "bot_id": bot_id})
            if bot.agent_id is not None and not self._agents.is_known(bot.agent_id, workspace):
                raise unknown_agent("bot", bot.agent_id)
            return bot

        return await self._save(workspace, bot_id, make, by=by, edited=edited)


def unknown_agent(noun: str, agent_id: str) -> InvalidRequest:
    """The error of a body that names an agent that does not exist."""
    return InvalidRequest(
        f"{noun}.agent_id: there is no agent {agent_id}",
        reason=f"{noun}_unknown_agent",
        hint="`bollard agents` lists them; save the agent first",
        field=f"{noun}.agent_id",
        agent=agent_id,
    )
