"""Tokens for the MCP gateway of one run. Only their digests are held, in memory: a token ends with its run, and no run
outlives its process."""

import secrets
from collections import deque
from hashlib import sha256
from typing import Final

from bollard.host.actions.call_records import LiveLedger
from bollard.host.errors import NotFound
from bollard.host.runs.live_run import LiveRun

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
