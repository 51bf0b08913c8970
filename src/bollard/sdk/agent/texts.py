"""What the agent itself says, in the language of the one it talks to: why it stops, why it fails."""

import re
from typing import Any, Final, Literal

from bollard.sdk.agent.answer import NobodyAnswered
from bollard.sdk.agent.guard import Stop
from bollard.sdk.context import RunContext

Language = Literal["en", "zh"]

NUDGE: Final = "Your last answer was empty. Answer the user now, in words."
"""Said to the model, not to people."""

_STOPPED: Final[dict[Stop, dict[Language, str]]] = {
    "max_steps": {
        "en": "I stop here: this run has used all of its steps ({steps}). Write again to go on.",
        "zh": "我先停在这里：这次运行的步数（{steps}）已经用完。再发一条消息可以继续。",
    },
    "max_cost": {
        "en": "I stop here: this run has cost what it may cost. Write again to go on.",
        "zh": "我先停在这里：这次运行的费用已到上限。再发一条消息可以继续。",
    },
    "repeated_calls": {
        "en": "I stop here: I asked for the same thing again and again and did not get further. Tell me more, or ask "
        "differently.",
        "zh": "我先停在这里：我一再请求同样的内容，没有进展。请补充信息，或换一种问法。",
    },
}
_NOBODY: Final[dict[Language, str]] = {"en": "no model could answer: {why}", "zh": "没有模型能够回答：{why}"}
_BROKEN: Final[dict[Language, str]] = {
    "en": "the answer broke off: {why}. What had come is kept",
    "zh": "回答中断：{why}。已收到的部分已保留",
}
_NO_OUTPUT: Final[dict[Language, str]] = {
    "en": "the model {model} answered with nothing, twice{reason}",
    "zh": "模型 {model} 两次都没有给出内容{reason}",
}
_MISFIT: Final[dict[Language, str]] = {
    "en": "the answer does not fit the output schema: {why}",
    "zh": "回答不符合输出格式：{why}",
}


def language_of(ctx: RunContext[Any]) -> Language:
    """By what was said; else by the run's locale."""
    said = ctx.input.text or ""
    if said:
        return "zh" if re.search(r"[\u4e00-\u9fff]", said) else "en"
    return "zh" if (ctx.runtime.locale or "").startswith("zh") else "en"


def stopped(stop: Stop, language: Language, steps: int) -> str:
    """Why the run ends before its model is done."""
    return _STOPPED[stop][language].format(steps=steps)


def nobody(error: NobodyAnswered, language: Language) -> str:
    """Which models were asked, and why each did not answer."""
    return _NOBODY[language].format(why=error)


def broken(why: str, language: Language) -> str:
    """Why an answer has no end."""
    return _BROKEN[language].format(why=why)


def no_output(model: str, finish_reason: str | None, language: Language) -> str:
    """That there is no answer, and how the model said it had ended."""
    reason = f" ({finish_reason})" if finish_reason and finish_reason != "stop" else ""
    return _NO_OUTPUT[language].format(model=model, reason=reason)


def misfit(why: str, language: Language) -> str:
    """What is wrong with an answer that must have a shape."""
    return _MISFIT[language].format(why=why)
