"""The agent of the pictures in the docs: it answers, counts with a tool, and asks before it writes a letter."""

import asyncio

from bollard.sdk import RunContext, runner

WORDS = {
    "en": (
        "I read the timetable and count the tickets first.\n\n",
        "Four tickets for the boat at **10:30** cost **600 yuan**. I will write to Ann, "
        "so that she keeps the seats:\n\n",
        "Dear Ann, please keep four seats on the 10:30 boat on Friday. Li",
        "The letter is on its way. The seats are kept until Thursday evening.",
    ),
    "zh": (
        "我先看时刻表，再算票价。\n\n",
        "**10:30** 的船四张票共 **600 元**。我给安写信，请她保留座位：\n\n",
        "安，你好！请为我们保留周五 10:30 那班船的四个座位。李",
        "信已发出，座位保留到周四晚上。",
    ),
}


@runner(label={"en_US": "Harbour desk", "zh_Hans": "码头前台"}, permissions={"tools": ["detail", "call"]})
async def harbour(ctx: RunContext):
    """Books boats, and writes letters after approval."""
    first, second, letter, last = WORDS["zh" if "船" in (ctx.input.text or "") else "en"]
    yield ctx.delta(first)
    await asyncio.sleep(0.4)
    await ctx.api.tools.call("calculate", {"expression": "3 * 150 + 150"})
    for word in second.split(" "):
        yield ctx.delta(f"{word} ")
        await asyncio.sleep(0.01)
    await ctx.api.tools.call("send_letter", {"to": "ann", "text": letter})
    yield ctx.delta(last)
