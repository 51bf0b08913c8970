"""`bollard bots …`: lists, shows, saves and deletes bots."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from bollard.cli.client.documents import BOTS
from bollard.cli.command import CommandGroup
from bollard.cli.language import Text
from bollard.cli.terminal.columns import Column, printable

BotId = Annotated[str, typer.Argument(metavar="ID", help="bots.id")]


def _label(bot: dict[str, Any], text: Text) -> str:
    label: dict[str, str] = bot.get("label", {})
    return label.get(text.language) or label.get("en_US", "")


def _channels(bot: dict[str, Any], text: Text) -> str:
    return printable(", ".join(bot["channels"])) or text("rights.none")


def bot_lines(bot: dict[str, Any], text: Text) -> Iterator[str]:
    """The details of a bot."""
    yield text("bots.head", bot=bot["bot_id"], label=printable(_label(bot, text)))
    yield text("bots.agent", agent=bot.get("agent_id") or text("rights.none"))
    yield text("bots.channels", what=_channels(bot, text))


app = CommandGroup("bots")
app.add_list(
    BOTS,
    (
        Column("bot", "bot_id"),
        Column("label", _label),
        Column("agent", lambda bot, _: bot.get("agent_id", "")),
        Column("channels", _channels),
    ),
    none="bots.none",
)
app.add_show(BOTS, ("bot", BotId), bot_lines)
app.add_save(BOTS, lambda saved, text: [text("bots.saved", bot=saved["bot_id"], revision=saved["revision"])])
app.add_delete(BOTS, ("bot", BotId))
