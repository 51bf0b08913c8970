"""The echo runner and a tool next to it. It calls no model and asks for no permission."""

from typing import Annotated, Final

from pydantic import BaseModel, Field

from bollard.sdk import Form, RunContext, runner, tool

PIECE_CHARACTERS: Final = 8


class EchoConfig(BaseModel):
    """The configuration of an agent."""

    greeting: Annotated[
        str,
        Form(
            label={"en_US": "Greeting", "zh_Hans": "开场白"},
            description={"en_US": "What comes before the echoed text.", "zh_Hans": "放在返回文本之前的话。"},
        ),
    ] = "you said: "
    shout: Annotated[
        bool,
        Form(
            label={"en_US": "Shout", "zh_Hans": "大写"},
            description={"en_US": "Answer in capital letters.", "zh_Hans": "用大写字母回答。"},
        ),
    ] = False


class WordCount(BaseModel):
    """How long a text is."""

    words: int
    characters: int


@runner(
    name="default",
    label={"en_US": "Echo", "zh_Hans": "回声"},
    description={"en_US": "Streams the message back in small pieces.", "zh_Hans": "把消息分成小段流式返回。"},
)
async def echo(ctx: RunContext[EchoConfig]):
    """Echo the text. An event without text is answered with its name."""
    heard = ctx.input.text if ctx.input.text is not None else ctx.event.event_type
    answer = ctx.config.greeting + heard
    if ctx.config.shout:
        answer = answer.upper()
    for start in range(0, len(answer), PIECE_CHARACTERS):
        yield ctx.delta(answer[start : start + PIECE_CHARACTERS])


@tool(
    description="Count the words of a text.",
    risk="low",
    flow={"reads_private": False, "brings_untrusted": False, "sends_out": False},
)
def count_words(text: Annotated[str, Field(description="The text to measure.")]) -> WordCount:
    return WordCount(words=len(text.split()), characters=len(text))
