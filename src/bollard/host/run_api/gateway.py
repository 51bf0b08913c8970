"""Access to one run for MCP clients: its tokens, and their calls of the run API, which pass the same gate as those of a
worker. Only digests of tokens are held, in memory: a token ends with its run, and no run outlives its process."""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable
from hashlib import sha256
from typing import Final

from bollard.host.actions.call_records import LiveLedger
from bollard.host.errors import NotFound
from bollard.host.runs.live_run import LiveRun
from bollard.protocol import RANGED_READS, AgentAPIError, JsonObject, JsonValue, limits
from bollard.wire import encode

AUDIENCE: Final = "mcp-run"
TOKEN_START: Final = "blg_"  # noqa: S105 -- the prefix by which scanners recognize a leaked token
TOKENS_OF_RUN: Final = 8
"""Tokens per run. A new one replaces the oldest."""
_BYTES: Final = 32


class GatewayTokens:
    """Issues and resolves the tokens of live runs."""

    def __init__(self) -> None:
        self._runs: dict[str, LiveRun] = {}
        """By token digest."""
        self._digests: dict[str, deque[str]] = {}
        """By run, oldest first."""

    async def issue(self, run: LiveRun, by: str) -> str:
        """Issue a token for this run. `token.issued` is on disk before the token is valid. Raises `AuditUnavailable` if
        that takes too long, and `NotFound` if the run has ended."""
        await LiveLedger(run).write("token.issued", {"purpose": AUDIENCE, "by": by})
        if run.ending or run.done.done():
            raise NotFound("there is no such run", reason="run_ended", hint="the run has ended")
        token = TOKEN_START + secrets.token_urlsafe(_BYTES)
        self._keep(run, _digest(token))
        return token

    def run_of(self, token: str) -> LiveRun | None:
        """The live run of a token."""
        run = self._runs.get(_digest(token))
        return None if run is None or run.ending else run

    def _keep(self, run: LiveRun, digest: str) -> None:
        run_id = run.facts.run_id
        if run_id not in self._digests:
            self._digests[run_id] = deque()
            run.done.add_done_callback(lambda _: self._forget(run_id))
        digests = self._digests[run_id]
        digests.append(digest)
        self._runs[digest] = run
        while len(digests) > TOKENS_OF_RUN:
            del self._runs[digests.popleft()]

    def _forget(self, run_id: str) -> None:
        for digest in self._digests.pop(run_id, ()):
            del self._runs[digest]


def _digest(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


class _GatewayCall:
    """Implements `ApiCall`."""

    streamed = False

    def __init__(self, action: str, params: JsonObject) -> None:
        self.action = action
        self.params = params
        self.given_up = False
        self.on_given_up: Callable[[], object] | None = None
        self.on_unread: Callable[[], object] | None = None
        self.answered: asyncio.Future[JsonValue | AgentAPIError] = asyncio.get_running_loop().create_future()

    def unfit(self, result: JsonValue) -> AgentAPIError | None:
        size = len(encode(result))
        limit = limits.FRAME_BYTES if self.action in RANGED_READS else limits.CALL_BYTES
        if size <= limit:
            return None
        message = f"the response has {size} bytes of JSON, the limit is {limit}"
        return AgentAPIError(code="payload_too_large", message=message)

    def answer(self, result: JsonValue) -> None:
        if not self.answered.done():
            self.answered.set_result(result)

    def refuse(self, error: AgentAPIError) -> None:
        if not self.answered.done():
            self.answered.set_result(error)

    def give_up(self) -> None:
        if self.given_up:
            return
        if self.answered.done():  # in this turn of the loop, so the caller has not received it
            if self.on_unread is not None:
                self.on_unread()
            return
        self.given_up = True
        self.refuse(AgentAPIError(code="cancelled", message="the caller cancelled the call"))
        if self.on_given_up is not None:
            self.on_given_up()


async def ask(run: LiveRun, action: str, params: JsonObject) -> JsonValue | AgentAPIError:
    """The response or the error of a call. Cancelling this, or the end of the run, cancels the call."""
    call = _GatewayCall(action, params)

    def over(_: object) -> None:
        call.give_up()

    run.called(call)
    run.done.add_done_callback(over)
    try:
        return await asyncio.shield(call.answered)
    except asyncio.CancelledError:
        call.give_up()
        raise
    finally:
        run.done.remove_done_callback(over)
