"""The demo runner: every kind of result that a runner can send, on request. It calls no model and no API."""

import asyncio
from collections.abc import Iterator
from typing import Annotated, Final

from call_report import Language, answered, decided, refused
from pydantic import BaseModel, Field
from words import Act, act_of, is_chinese, number_in, tool_in

from bollard.sdk import AgentAPIException, Form, RunContext, runner

PIECE_CHARACTERS: Final = 6

HELP: Final = {
    "en": "Say one of these: count 10 (counts and keeps the number in the conversation's state), file (makes a "
    'text file), call TOOL {"argument": "value"} (calls a tool that this agent was given), slow (takes its time: try '
    "Ctrl-C), fail (fails on purpose), help. Anything else I answer.",
    "zh": "可以说：数数 10（数到 10，并把数字存进会话状态）、文件（生成一个文本文件）、"
    '调用 TOOL {"参数": "值"}（调用交给这个智能体的工具）、慢（慢慢说，可以试试 Ctrl-C）、'
    "失败（故意失败）、帮助。说别的我也会回答。",
}
TALK: Final = {
    "en": "Hello! 你好！ You said: {said}. I am a demo without a model; say “help” to see what I can do.",
    "zh": "你好！Hello! 你说的是：{said}。我是演示智能体，不使用模型；说“帮助”可以看到我会什么。",
}
SLOW: Final = {
    "en": "I take my time, so that you can stop me in the middle of a sentence, or read me from two places at once, "
    "or lose the connection and pick up the stream where you left it. That was all.",
    "zh": "我慢慢说，你可以在一句话中间让我停下，也可以在两个地方同时读，或者断开连接后从原处接着读。就这些。",
}
FILE: Final = {"en": "Here is a file.\n", "zh": "这是一个文件。\n"}
CALL: Final = {
    "en": 'Say it like this: call TOOL {"argument": "value"}. What I was given: {tools}.',
    "zh": '请这样说：调用 TOOL {"参数": "值"}。交给我的工具：{tools}。',
}
FAIL: Final = {"en": "you asked me to fail", "zh": "是你让我失败的"}


class DemoConfig(BaseModel):
    """The configuration of an agent."""

    pause_s: Annotated[
        float,
        Field(ge=0, le=10),
        Form(
            label={"en_US": "Pause", "zh_Hans": "停顿"},
            description={
                "en_US": "Seconds between two pieces of a slow answer.",
                "zh_Hans": "慢速回答时两段之间的秒数。",
            },
        ),
    ] = 0.3


@runner(
    name="default",
    label={"en_US": "Demo", "zh_Hans": "演示"},
    description={
        "en_US": "Answers in two languages and understands a few words, help among them.",
        "zh_Hans": "用中文或英文回答，能识别几个命令，例如“帮助”。",
    },
    capabilities=["streaming", "interrupt"],
    permissions={"artifacts": ["write"], "tools": ["call"]},
)
async def demo(ctx: RunContext[DemoConfig]):
    """One action for each word; an event without text is answered with its name."""
    said = ctx.input.text or ctx.event.event_type
    language: Language = "zh" if is_chinese(said) else "en"
    match act_of(said):
        case "count":
            last = number_in(said)
            for number in range(1, last + 1):
                yield ctx.delta(f"{number} ")
            if ctx.conversation is not None:  # state belongs to a conversation, and an event may have none
                yield ctx.state("conversation", "count", last)
        case "file":
            content = f"{TALK[language].format(said=said)}\n"
            yield ctx.artifact("file", content=content.encode(), mime_type="text/plain", name="demo.txt")
            yield ctx.delta(FILE[language])
        case "slow":
            for piece in pieces(SLOW[language]):
                yield ctx.delta(piece)
                await asyncio.sleep(ctx.config.pause_s)
        case "fail":
            yield ctx.fail(FAIL[language])
        case act:
            for piece in pieces(await _words(ctx, act, said, language)):
                yield ctx.delta(piece)


async def _words(ctx: RunContext[DemoConfig], act: Act, said: str, language: Language) -> str:
    """The answer to words that request text only."""
    if act == "help":
        return HELP[language]
    if act == "call":
        return await _answer_of_tool(ctx, said, language)
    if ctx.event.event_type == "approval.decided":
        return decided(ctx.event.data)
    return TALK[language].format(said=said)


async def _answer_of_tool(ctx: RunContext[DemoConfig], said: str, language: Language) -> str:
    """The answer of a tool, or its error. A call that needs approval returns after the decision."""
    if (asked := tool_in(said)) is None:
        given = ", ".join(tool.tool_name for tool in ctx.resources.tools)
        return CALL[language].replace("{tools}", given or "-")
    name, arguments = asked
    try:
        return answered(await ctx.api.tools.call(name, arguments), name, language)
    except AgentAPIException as refusal:
        return refused(refusal.code, refusal.error.message, name, language)


def pieces(text: str) -> Iterator[str]:
    """The text in small parts, as a model would stream it."""
    for start in range(0, len(text), PIECE_CHARACTERS):
        yield text[start : start + PIECE_CHARACTERS]
