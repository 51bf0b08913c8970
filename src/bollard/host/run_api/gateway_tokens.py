"""Tokens for the MCP gateway of one run. Kept as digests in memory: they open nothing once the run has ended here, and
no run outlives the process that executes it."""

import secrets
from collections import deque
from hashlib import sha256
from typing import Final

from bollard.host.actions.call_records import LiveLedger
from bollard.host.errors import NotFound
from bollard.host.runs.live_run import LiveRun

AUDIENCE: Final = "mcp-run"
TOKEN_START: Final = "blg_"  # noqa: S105 -- how each begins, so that one is known where it should not be
TOKENS_OF_RUN: Final = 8
"""Tokens that one run may have; another one takes the place of the oldest."""
_BYTES: Final = 32


class GatewayTokens:
    """One per host."""

    def __init__(self) -> None:
        self._runs: dict[str, LiveRun] = {}
        """By the digest of a token."""
        self._digests: dict[str, deque[str]] = {}
        """By run, the oldest first."""

    async def issue(self, run: LiveRun, by: str) -> str:
        """A token for this run and nothing else. That it was issued is on disk before it opens anything: raises
        `AuditUnavailable` where that takes too long, and `NotFound` when the run has ended."""
        await LiveLedger(run).write("token.issued", {"purpose": AUDIENCE, "by": by})
        if run.ending or run.done.done():
            raise NotFound("there is no such run", hint="it has ended")
        token = TOKEN_START + secrets.token_urlsafe(_BYTES)
        self._keep(run, _digest(token))
        return token

    def run_of(self, token: str) -> LiveRun | None:
        """The run that a token is for, while it goes on."""
        run = self._runs.get(_digest(token))
        return None if run is None or run.ending else run

    def _keep(self, run: LiveRun, digest: str) -> None:
        run_id = run.facts.run_id
        if run_id not in self._digests:
            self._digests[run_id] = deque()
            run.done.add_done_callback(lambda _: self._forget(run_id))
        known = self._digests[run_id]
        known.append(digest)
        self._runs[digest] = run
        while len(known) > TOKENS_OF_RUN:
            del self._runs[known.popleft()]

    def _forget(self, run_id: str) -> None:
        for digest in self._digests.pop(run_id, ()):
            del self._runs[digest]


def _digest(token: str) -> str:
    return sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
