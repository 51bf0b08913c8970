"""`/bots`: save bots, and show which channels speak as each of them."""

from typing import Final

from bollard.host.agents.bot import BOT, Bot, BotRepository
from bollard.host.channels.registry import ChannelRepository
from bollard.host.http.openapi.schemas import TEXT, array_of
from bollard.host.http.queries import Pages
from bollard.host.http.resources.saved_routes import SavedResource, SavedRoutes, shown_as
from bollard.host.identity.caller import Caller
from bollard.host.log.saved_resources import Saved
from bollard.protocol import JsonObject

_BODY: Final[JsonObject] = {"label": {"en_US": "Polly"}, "agent_id": "polly"}


class Bots(SavedRoutes[Bot]):
    """Bots, each with its channels."""

    resource = SavedResource(
        kind=BOT,
        path="/api/v1/bots",
        id="bot_id",
        names=("Bot", "Bots"),
        right="channels",
        body=Bot,
        body_example=_BODY,
        shown=shown_as("Bot", Bot, {"bot_id": "polly", **_BODY, "channels": ["room"]}, channels=array_of(TEXT)),
        descriptions={
            "save": "A channel speaks as the bot in its field `bot`. An event of the bot goes to the agent of the "
            "binding that matches it, otherwise to `agent_id`."
        },
    )

    def __init__(self, bots: BotRepository, channels: ChannelRepository, pages: Pages) -> None:
        super().__init__(bots, pages)
        self._bots = bots
        self._channels = channels

    def show_item(self, saved: Saved[Bot]) -> JsonObject:
        channels = [each.id for each in self._channels.all(saved.workspace) if each.value.bot == saved.id]
        return {**super().show_item(saved), "channels": [*channels]}

    async def save(
        self, caller: Caller, resource_id: str, body: JsonObject, edited: int | None
    ) -> tuple[Saved[Bot], JsonObject]:
        return await self._bots.save(body, caller.workspace, resource_id, by=caller.name, edited=edited), {}
