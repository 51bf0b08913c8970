"""What a worker may see and inherit, and how it takes a runner that blocks or kills it."""

import os
import tempfile
from typing import cast

from bollard.conformance.errors import CaseFailed
from bollard.conformance.line import brief
from bollard.conformance.registry import Cases, Launcher
from bollard.conformance.script import step
from bollard.conformance.session import Session
from bollard.protocol import CHANNEL_FD_VARIABLE, JsonObject
from bollard.wire.process import ENVIRONMENT_ALLOWED

CASES = Cases()

_CANARY = "CONFORMANCE_CANARY"
_BLOCK_MS = 700


@CASES.launching("a runner sees the variables of the allow-list and none of the kit's own", "P11-38")
async def environment_is_allowed(launch: Launcher) -> None:
    inherited = {**os.environ, _CANARY: "sings", "BOLLARD_CANARY": "sings"}
    async with launch(inherited=inherited) as session:
        said = await session.start([step("environment")]).said()
        seen = set(cast("list[str]", said.get("variables", [])))
        foreign = sorted(
            name for name in seen - ENVIRONMENT_ALLOWED if name in inherited and name != CHANNEL_FD_VARIABLE
        )
        if foreign:
            raise CaseFailed("only allowed variables", f"the runner sees {', '.join(foreign)}")


@CASES.launching("a worker inherits no descriptor but its channel and the standard three", "P11-38")
async def descriptors_are_few(launch: Launcher) -> None:
    with tempfile.NamedTemporaryFile(prefix="conformance-canary-") as canary:
        os.set_inheritable(canary.fileno(), True)
        async with launch() as session:
            said = await session.start([step("environment")]).said()
            descriptors = cast("list[JsonObject]", said.get("descriptors", []))
            if not descriptors:
                raise CaseFailed("the list of open descriptors", f"the runner said {brief(said)}")
            if found := [entry for entry in descriptors if entry.get("target") == canary.name]:
                raise CaseFailed("no descriptor of the kit in the worker", f"it has {brief(found)}")


@CASES.own("a runner that blocks the worker for a moment costs time only", "P11-39")
async def block_is_survived(session: Session) -> None:
    other = session.start([step("delta", text="a"), step("wait", ms=100), step("delta", text="b")])
    await other.has(1)
    run = session.start([step("block", ms=_BLOCK_MS), step("delta", text="x", count=10)])
    await session.ping()
    await run.completes()
    await other.completes()
    if run.texts != ["x"] * 10 or other.texts != ["a", "b"]:
        raise CaseFailed("all deltas of both runs", f"they are {brief(run.texts)} and {brief(other.texts)}")


@CASES.own("a worker that ends closes its channel", "P11-40")
async def exit_closes_channel(session: Session) -> None:
    session.start([step("delta", text="x"), step("exit", code=3)])
    await session.exited("the process to end")
    await session.never(lambda: session.closed is None and session.process.returncode is None, "the channel to close")
    if session.process.returncode != 3:
        raise CaseFailed("exit code 3", f"it is {session.process.returncode}")
