"""Run a runner against a recording, without the host it was recorded on."""

from pathlib import Path

from bollard.sdk.testing.host import MemoryHost, declared
from bollard.sdk.testing.live import LiveRun
from bollard.sdk.testing.outcome import RunOutcome
from bollard.sdk.testing.recording import Recording, ReplayedCalls

__all__ = ["replay"]


async def replay(runner: object, path: Path | str) -> RunOutcome:
    """How the runner ends with the recorded context and answers; raises `ReplayMismatch` when it asks anything else."""
    recording = Recording.load(path)
    declaration = declared(runner)
    calls = ReplayedCalls(recording)
    async with MemoryHost() as host:
        ledger = host.open(
            recording.context,
            permissions=declaration.permissions,
            capabilities=declaration.capabilities,
            runner_name=declaration.name,
        )
        ledger.context = recording.context  # as it was, not as this empty host would grant it
        live = LiveRun(host, declaration, ledger, calls)
        try:
            outcome = await live.outcome()
        finally:
            live.cancel()
    calls.finish()
    return outcome
