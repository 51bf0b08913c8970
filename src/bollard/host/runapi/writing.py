"""Writing a record for a run that asks for something: on disk before the answer, or the run is gone."""

import asyncio

from bollard.host.log.entries import Judgement, StateExpectation
from bollard.host.runapi.refusal import ApiRefused
from bollard.host.runs.live import LiveRun
from bollard.host.runs.turn import into
from bollard.protocol import JsonObject

__all__ = ["write_down"]


async def write_down(
    run: LiveRun, kind: str, data: JsonObject, *, expects: StateExpectation | None = None, blob: bytes | None = None
) -> Judgement:
    """What became of the expectation, once the record is on disk. Raises `ApiRefused` where it never will be."""
    if blob is not None and run.withholds(blob):
        raise ApiRefused("invalid_argument", "the content has a secret of the workspace in it")
    landed: asyncio.Future[Judgement | None] = asyncio.get_running_loop().create_future()
    taken = run.note(kind, data, into(landed), expects=expects, blob=blob)
    judged = await landed if taken else None
    if judged is None:
        raise ApiRefused("not_found", "there is no such run")
    return judged
