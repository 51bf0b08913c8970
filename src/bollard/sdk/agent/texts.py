"""Texts of the loop for people, in English and Chinese: why it stopped, why it failed."""

import re
from typing import Any, Final, Literal

from bollard.sdk.agent.answer import AnswerInterrupted, Attempt, NoModelAnswered
from bollard.sdk.agent.guard import Stop
from bollard.sdk.context import RunContext

Language = Literal["en", "zh"]

NUDGE: Final = "Your last answer was empty. Answer the user now, in words."
"""For the model, not for people."""

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
_REASONS: Final = {
    "rate_limited": "限流",
    "overloaded": "暂时无法服务",
    "timeout": "没有及时回答",
    "unreachable": "无法连接",
    "unauthorized": "拒绝了密钥，或密钥不可用",
    "invalid_request": "不接受该请求",
    "context_length": "内容超过了上下文窗口",
    "content_filter": "内容被拦截",
    "broken_answer": "回答无法解析",
    "not_supported": "不支持该操作",
    "not_found": "本次运行没有这个模型",
    "budget_exceeded": "预算已用完",
}
"""Reasons and error codes in Chinese; other reasons are sentences of the host, which are quoted."""
_NOT_GRANTED: Final[dict[Language, str]] = {
    "en": ". The agent has no model: select one in its configuration, or add the one that `bollard agents show` names",
    "zh": "。此智能体没有模型：请在它的配置中选择一个，或添加 `bollard agents show` 所指出的模型",
}
_NO_DEFAULT: Final[dict[Language, str]] = {
    "en": "the workspace {workspace} has no default model. Run `{command}`; the agent demo answers without a model",
    "zh": "工作区 {workspace} 没有默认模型。请执行 `{command}`；智能体 demo 不需要模型也能回答",
}
_NOT_PERMITTED: Final[dict[Language, str]] = {
    "en": ". The agent lacks the permission for models: its policy and the manifest of its plugin must both have "
    "models.invoke and models.stream",
    "zh": "。此智能体没有调用模型的权限：它的策略和插件的清单都必须有 models.invoke 和 models.stream",
}
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
    """Chinese if the input or the run's locale is: people with a Chinese program also write `ok` and `hello`."""
    chinese = (ctx.runtime.locale or "").startswith("zh") or re.search(r"[\u4e00-\u9fff]", ctx.input.text or "")
    return "zh" if chinese else "en"


def stop_text(stop: Stop, language: Language, steps: int) -> str:
    """Why the run ended before its model had answered."""
    return _STOPPED[stop][language].format(steps=steps)


def no_model_text(error: NoModelAnswered, language: Language, *, granted: bool) -> str:
    """Which models failed, and why. Without the permission or a granted model, what to do about it."""
    if len(error.attempts) == 1 and (only := error.attempts[0]).command:
        return _NO_DEFAULT[language].format(workspace=only.workspace, command=only.command)
    advice = "" if granted else (_NOT_PERMITTED if error.code == "unauthorized" else _NOT_GRANTED)[language]
    why = str(error) if language == "en" else "；".join(map(_attempt_in_chinese, error.attempts))
    return _NOBODY[language].format(why=why) + advice


def interrupted_text(error: AnswerInterrupted, language: Language) -> str:
    """Why an answer broke off."""
    return _BROKEN[language].format(why=error if language == "en" else _attempt_in_chinese(error.attempt))


def _attempt_in_chinese(attempt: Attempt) -> str:
    if attempt.command:
        return f"{attempt.model}：工作区 {attempt.workspace} 没有默认模型，请执行 `{attempt.command}`"
    place = "" if attempt.address is None else f" ({attempt.address})"
    status = "" if attempt.status is None else f"，HTTP {attempt.status}"
    known = _REASONS.get(attempt.reason) or _REASONS.get(attempt.code) or f"“{attempt.reason}”（原文）"
    return f"{attempt.model}{place}：{known}{status}"


def empty_text(model: str, finish_reason: str | None, language: Language) -> str:
    """That the model answered nothing, with its finish reason."""
    reason = f" ({finish_reason})" if finish_reason and finish_reason != "stop" else ""
    return _NO_OUTPUT[language].format(model=model, reason=reason)


def mismatch_text(why: str, language: Language) -> str:
    """Why an answer does not match the output schema."""
    return _MISFIT[language].format(why=why)
