"""How a tool says what came of it."""

from bollard.host.capabilities.capability import NO_FLOW, Flow
from bollard.host.capabilities.sources import Returned
from bollard.protocol import JsonValue

__all__ = ["problem", "text"]


def text(words: str, structured: JsonValue = None, *, flow: Flow = NO_FLOW) -> Returned:
    return Returned(content=({"type": "text", "text": words},), structured=structured, flow=flow)


def problem(sentence: str, hint: str = "") -> Returned:
    """The tool's own error: the model reads it and tries otherwise."""
    words = f"{sentence}. {hint}" if hint else sentence
    return Returned(content=({"type": "text", "text": words},), is_error=True)
