"""The sentences of the demo about a tool call: after the call, or after a decision that outlived its run."""

from typing import Final, Literal

from bollard.sdk import JsonObject, TextContent, ToolResult

__all__ = ["Language", "answered", "decided", "refused"]

Language = Literal["en", "zh"]

ANSWERED: Final = {"en": "{name} answered: {answer}", "zh": "{name} 的回答：{answer}"}
REFUSED: Final = {"en": "{name} was not called ({code}): {error}", "zh": "没有调用 {name}（{code}）：{error}"}
CARRIED_OUT: Final = "{name} was allowed and called, 已允许并调用: {answer}"
NOT_CARRIED_OUT: Final = "{name} did not succeed ({outcome}), 没有成功: {error}"
"""In both languages, because no message of the run shows the reader's language."""


def answered(result: ToolResult, name: str, language: Language) -> str:
    """The answer of a tool, as text."""
    return ANSWERED[language].format(name=name, answer=_words(result))


def refused(code: str, error: str, name: str, language: Language) -> str:
    """The reason for a missing answer."""
    return REFUSED[language].format(name=name, code=code, error=error)


def decided(data: JsonObject) -> str:
    """The outcome of a call that was decided after its run had ended: the data of `approval.decided`."""
    name, outcome, result = str(data.get("name")), str(data.get("outcome")), data.get("result")
    if outcome == "completed" and isinstance(result, dict):
        answer = _words(ToolResult.from_wire({"call_id": "", **result}))
        return CARRIED_OUT.format(name=name, answer=answer)
    return NOT_CARRIED_OUT.format(name=name, outcome=outcome, error=data.get("error") or "-")


def _words(result: ToolResult) -> str:
    told = " ".join(part.text for part in result.content if isinstance(part, TextContent))
    return told or f"{len(result.content)} …"
