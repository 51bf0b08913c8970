"""Tokens and cost of model calls, reported by the provider or estimated, and records of calls outside of runs."""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import structlog

from bollard.host.clock import Clock
from bollard.host.errors import HostError
from bollard.host.log.entries import CommitResult, Entry
from bollard.host.log.journal import Journal
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.models.specs import SavedPrice
from bollard.protocol import FunctionTool, JsonObject, JsonValue, Message, TextContent, Usage

_MILLION: Final = 1_000_000
_LETTERS_OF_TOKEN: Final = 4
_PER_MESSAGE: Final = 4
"""Overhead of a message in tokens."""
_PER_PICTURE: Final = 1000
"""Estimate for an image or a file."""
_WIDE: Final = "\u2e80"
"""From this character on, one character is about one token (Chinese, Japanese, Korean)."""


class CallCost(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and cost of one call."""

    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    """`None` if the model has no price."""
    currency: str | None
    estimated: bool
    """Whether the provider did not report all tokens, so that some are estimates."""

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


def guess_text(text: str) -> int:
    """Estimate the tokens of a text: one per wide character, one per four others."""
    if text.isascii():
        return -(-len(text) // _LETTERS_OF_TOKEN)
    wide = sum(character >= _WIDE for character in text)
    return wide + -(-(len(text) - wide) // _LETTERS_OF_TOKEN)


def guess_texts(texts: Iterable[str]) -> int:
    return sum(map(guess_text, texts))


def guess_messages(messages: Sequence[Message], tools: Sequence[FunctionTool] = ()) -> int:
    """Estimate the tokens of a prompt."""
    return sum(map(_guess_message, messages)) + sum(
        guess_text(msgspec.json.encode(t.to_wire()).decode()) for t in tools
    )


def _guess_message(message: Message) -> int:
    found = _PER_MESSAGE
    if isinstance(message.content, str):
        found += guess_text(message.content)
    else:
        for part in message.content:
            found += guess_text(part.text) if isinstance(part, TextContent) else _PER_PICTURE
    for call in message.tool_calls or ():
        found += guess_text(call.function.name) + guess_text(call.function.arguments)
    return found


def spent_of(
    usage: Usage | None, price: SavedPrice | None, *, prompt: int, completion: int, cached: int = 0
) -> CallCost:
    """The cost of a call. The estimates `prompt` and `completion` replace counts that the provider did not report;
    `cached` is the part of the prompt from the provider's cache."""
    known = usage or Usage()
    sent, received = known.prompt_tokens, known.completion_tokens
    if sent is None and received is not None and known.total_tokens is not None:
        sent = max(0, known.total_tokens - received)
    if received is None and sent is not None and known.total_tokens is not None:
        received = max(0, known.total_tokens - sent)
    sent_tokens, said_tokens = prompt if sent is None else sent, completion if received is None else received
    return CallCost(
        prompt_tokens=sent_tokens,
        completion_tokens=said_tokens,
        cost=None if price is None else cost_of(price, sent_tokens, said_tokens, cached),
        currency=None if price is None else price.currency,
        estimated=sent is None or received is None,
    )


def cost_of(price: SavedPrice, prompt_tokens: int, completion_tokens: int, cached_tokens: int = 0) -> float:
    cheap = min(cached_tokens, prompt_tokens)
    of_cached = price.input if price.cached_input is None else price.cached_input
    sent = price.input * (prompt_tokens - cheap) + of_cached * cheap
    return (sent + price.output * completion_tokens) / _MILLION


def added(so_far: JsonValue, spent: CallCost) -> JsonObject:
    """The totals of a run with one more call. Costs are summed per currency."""
    before = so_far if isinstance(so_far, dict) else {}
    costs = before.get("cost")
    cost: JsonObject = dict(costs) if isinstance(costs, dict) else {}
    if spent.cost is not None and spent.currency is not None:
        cost[spent.currency] = round(_number(cost.get(spent.currency)) + spent.cost, 10)
    found: JsonObject = {
        "model_calls": int(_number(before.get("model_calls"))) + 1,
        "prompt_tokens": int(_number(before.get("prompt_tokens"))) + spent.prompt_tokens,
        "completion_tokens": int(_number(before.get("completion_tokens"))) + spent.completion_tokens,
        "total_tokens": int(_number(before.get("total_tokens"))) + spent.tokens,
        "estimated": before.get("estimated") is True or spent.estimated,
    }
    return {**found, "cost": cost} if cost else found


def _number(value: JsonValue) -> float:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


# --- calls outside of runs ---


_log = structlog.get_logger("bollard.models")


class WorkspaceLedger:
    """Records model calls outside of runs in the log of their workspace. One per host."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    def write(self, workspace: str, kind: str, data: JsonObject) -> None:
        """Append the record without waiting: the call is over, and its answer is valid without the record."""
        body = encode_data(data)
        record = NewRecord(workspace=workspace, type=kind, data=body, created_ms=self._clock.now_ms())
        try:
            self._journal.append(Entry(records=[record], size=len(body)), lambda outcome: _report(workspace, outcome))
        except HostError as error:
            _report(workspace, error)


def _report(workspace: str, outcome: CommitResult | HostError) -> None:
    if isinstance(outcome, HostError):
        _log.warning("a model call was not recorded", workspace=workspace, problem=outcome.message)
