"""The tool calls of one run, as people read them. Pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bollard.cli.language import Text
from bollard.cli.terminal.columns import printable
from bollard.protocol import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call. It has a result or an error when it has ended."""

    call_id: str
    name: str
    arguments: JsonValue = None
    result: JsonValue = None
    error: JsonValue = None
    ended: bool = False


class ToolCalls:
    """Calls by their ids. Both the runner and the host report a call; each step counts once."""

    def __init__(self) -> None:
        self._calls: dict[str, ToolCall] = {}

    def __iter__(self) -> Iterator[ToolCall]:
        return iter(self._calls.values())

    def clear(self) -> None:
        self._calls.clear()

    def start(self, call_id: str, name: str, arguments: JsonValue) -> ToolCall | None:
        """The new call; `None` if it is known."""
        if call_id in self._calls:
            return None
        call = self._calls[call_id] = ToolCall(call_id=call_id, name=name, arguments=arguments)
        return call

    def end(self, call_id: str, name: str, *, result: JsonValue = None, error: JsonValue = None) -> ToolCall | None:
        """The ended call; `None` if its end is known."""
        call = self._calls.get(call_id) or ToolCall(call_id=call_id, name=name)
        if call.ended:
            return None
        call = self._calls[call_id] = replace(call, result=result, error=error, ended=True)
        return call

    @property
    def open_names(self) -> list[str]:
        """The names of the calls that have not ended."""
        return [call.name for call in self._calls.values() if not call.ended]


def call_line(call: ToolCall, text: Text) -> str:
    """A call and its outcome in one line."""
    fields = {"name": call.name, "arguments": _short(call.arguments)}
    if call.error is not None:
        return text("chat.call_failed", **fields, error=error_words(call, text))
    return text("chat.call", **fields, result=_short(call.result))


def detail_lines(calls: ToolCalls, text: Text) -> Iterator[str]:
    """Every call with its arguments and its result in full."""
    for call in calls:
        yield text("chat.detail", name=printable(call.name), call=printable(call.call_id))
        yield from _block(text("chat.detail_arguments"), call.arguments)
        if call.error is not None:
            yield from _block(text("chat.detail_error"), error_words(call, text))
        elif call.ended:
            yield from _block(text("chat.detail_result"), call.result)


def error_words(call: ToolCall, text: Text) -> str:
    """The error of a call. The sentence of a tool is marked as a quotation in a language other than its own."""
    return text.quote(_short(call.error))


def _short(value: JsonValue) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _block(label: str, value: JsonValue) -> Iterator[str]:
    words = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    first, *rest = printable(words).split("\n")
    if not rest:
        yield f"  {label}{first}"
        return
    yield f"  {label.rstrip()}"
    yield from (f"    {line}" for line in (first, *rest))
