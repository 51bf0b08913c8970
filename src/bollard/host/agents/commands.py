"""Chat commands: those that the host answers, and those that agents add. Pure."""

from typing import Annotated, Final, Literal, get_args

import msgspec
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from bollard.protocol import JsonObject, Localized, Strict, Tolerant

ChatCommand = Literal["new", "stop", "status", "help", "agent", "link"]
COMMANDS: Final[tuple[ChatCommand, ...]] = get_args(ChatCommand)
AGENT_COMMANDS: Final = 32
"""Commands of one agent."""
_DESCRIPTION_CHARACTERS: Final = 200
_ARGUMENTS_CHARACTERS: Final = 16_000
COMMAND_INVOKED: Final = "command.invoked"
"""The type of the event of a command."""

CommandName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]


def _not_of_host(name: str) -> str:
    if name in COMMANDS:
        raise PydanticCustomError("command_of_host", "is a command of the host")
    return name


class AgentCommand(Strict):
    """A command that an agent adds to the chats in which it answers."""

    name: Annotated[CommandName, AfterValidator(_not_of_host)]
    description: Annotated[Localized, Field(min_length=1, max_length=8)] = Field(
        description="What it does, by language: `en_US`, `zh_Hans`."
    )

    def help(self, locale: str) -> str:
        """The line of `/help`."""
        words = self.description
        text = words.get(locale) or words.get("en_US") or next(iter(words.values()))
        return f"/{self.name}: {text[:_DESCRIPTION_CHARACTERS]}"


def distinct_names(commands: tuple[AgentCommand, ...]) -> tuple[AgentCommand, ...]:
    """Refuse two commands of one name."""
    if len({each.name for each in commands}) < len(commands):
        raise PydanticCustomError("command_twice", "has two commands of one name")
    return commands


class CommandInvoked(Tolerant):
    """`data` of `command.invoked`: a slash command of a platform."""

    command: Annotated[str, Field(min_length=1, max_length=64)]
    arguments: Annotated[str, Field(max_length=_ARGUMENTS_CHARACTERS)] = ""


class CalledCommand(msgspec.Struct, frozen=True):
    """A command of a person, with the words behind it."""

    name: str
    arguments: str

    @property
    def data(self) -> JsonObject:
        return {"command": self.name, "arguments": self.arguments}


def read_command(text: str | None) -> CalledCommand | None:
    """The command of a message: `/name`, or `/name@bot` as in groups. `None` for every other message."""
    first, _, rest = (text or "").strip().partition(" ")
    name = first.removeprefix("/").partition("@")[0].lower()
    return CalledCommand(name, rest.strip()) if first.startswith("/") and name else None
