"""Starts a worker for the kit, introduces the two, and ends its whole process group."""

import os
import shlex
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from bollard.conformance.errors import CaseFailed, WorkerDidNotStart, WorkerGone
from bollard.conformance.limits import OUTPUT_LINES, START_S
from bollard.conformance.line import brief
from bollard.conformance.session import Session
from bollard.protocol import ChannelLimits, JsonObject
from bollard.protocol.limits import PROTOCOL_VERSION
from bollard.wire import spawn_worker, worker_environment
from bollard.wire.envelope import Failure

__all__ = ["open_session"]


@asynccontextmanager
async def open_session(
    command: Sequence[str],
    *,
    limits: ChannelLimits | None = None,
    initialize: bool = True,
    inherited: Mapping[str, str] | None = None,
) -> AsyncGenerator[Session]:
    """Start a worker; when the block is left its whole process group is gone."""
    output: deque[tuple[str, str]] = deque(maxlen=OUTPUT_LINES)
    environment = worker_environment(os.environ if inherited is None else inherited)
    try:
        process = await spawn_worker(
            command, environment=environment, output=lambda pipe, line: output.append((pipe, line))
        )
    except OSError as error:
        raise WorkerDidNotStart(shlex.join(command), f"{error.strerror or error}", "") from error
    session = Session(process, limits or ChannelLimits(), output)
    try:
        process.transport.start(session)
        if initialize:
            await _introduce(session, command, output)
        yield session
    finally:
        await process.kill()


async def _introduce(session: Session, command: Sequence[str], output: Iterable[tuple[str, str]]) -> None:
    params: JsonObject = {
        "protocol": PROTOCOL_VERSION,
        "host_version": "conformance",
        "limits": session.limits.to_wire(),
    }
    try:
        answer = await session.request("initialize", params, within=START_S)
    except CaseFailed as error:
        how = "it closed its channel" if isinstance(error, WorkerGone) else f"it was silent for {START_S:g} s"
        await session.process.kill()  # so that what it wrote is read to its end
        said = " | ".join(line for _, line in list(output)[-5:])
        raise WorkerDidNotStart(shlex.join(command), f"{how} instead of answering initialize", brief(said)) from error
    if isinstance(answer, Failure):
        raise WorkerDidNotStart(shlex.join(command), f"it refused initialize: {answer.message}", "")
    session.introduction = answer.result if isinstance(answer.result, dict) else {}
