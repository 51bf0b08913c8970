"""A runner that takes the steps of its plan, and writes a line of JSON for each acknowledged step."""

import asyncio
import base64
import itertools
import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from bollard.protocol import ArtifactMetadata, ArtifactUpload
from bollard.sdk import AgentAPIException, RunContext, runner, tool

PIECES = 3
PERMISSIONS = {"agents": ["call"], "artifacts": ["write"], "tools": ["call", "detail"]}


def leave_line(told: str, **said: Any) -> None:
    """One append to the end of the file, safe beside other writers."""
    with Path(told).open("ab", buffering=0) as file:
        file.write(json.dumps(said).encode() + b"\n")


@tool()
def deliver(told: str, parcel: str) -> str:
    """Deliver a parcel."""
    leave_line(told, did="deliver", parcel=parcel)
    return f"delivered {parcel}"


class Hands:
    """The actions of the runner beside talking."""

    def __init__(self, ctx: RunContext, told: str) -> None:
        self._ctx = ctx
        self._told = told
        self._parcels = itertools.count()

    def _tell(self, did: str, **said: Any) -> None:
        leave_line(self._told, run=self._ctx.run_id, did=did, **said)

    async def count(self) -> None:
        """One more, if no other run was quicker."""
        state = self._ctx.api.state
        found = await state.find("runner", "count")
        value, version = (0, 0) if found is None else (found.value, found.version)
        written = await state.set("runner", "count", value + 1, if_version=version)
        self._tell("count", value=value + 1, version=written.version)

    async def upload(self) -> None:
        """Content in pieces, each of them sent twice."""
        ask, content = self._ctx.api.artifacts._ask, self._ctx.run_id.encode() * 1000
        size = len(content) // PIECES
        begun = await ask("artifacts.begin", ArtifactUpload, {"name": "made", "mime_type": "text/plain"})
        upload = {"upload_id": begun.upload_id}
        for offset in range(0, len(content), size):
            piece = {"offset": offset, "content_base64": base64.b64encode(content[offset : offset + size]).decode()}
            for _ in "12":
                here = await ask("artifacts.append", ArtifactUpload, upload | piece)
                assert here.offset == min(offset + size, len(content)), here
        done = upload | {"sha256": sha256(content).hexdigest()}
        made = await ask("artifacts.finish", ArtifactMetadata, done)
        self._tell("upload", artifact=made.artifact_id, sha256=done["sha256"])

    async def call(self) -> None:
        child = await self._ctx.api.agents.call("parallel", json.dumps({"told": self._told, "steps": ["say", "count"]}))
        self._tell("call", child=child.run_id, status=child.status)

    async def ask(self) -> None:
        """A parcel that needs an approval."""
        parcel = f"{self._ctx.run_id}.{next(self._parcels)}"
        await self._ctx.api.tools.call("deliver", {"told": self._told, "parcel": parcel})
        self._tell("ask", parcel=parcel)


@runner(name="default", label="Medley", permissions=PERMISSIONS, capabilities=["interrupt", "steering"])
async def medley(ctx: RunContext):
    heard = [ctx.input.text or ""]
    plan = json.loads(heard[0]) if heard[0].startswith("{") else ctx.event.data
    hands = Hands(ctx, plan.get("told", ""))
    for step in plan.get("steps", ()):
        try:
            if step in ("say", "listen"):
                yield ctx.delta(f"{step} ")
                await asyncio.sleep(plan.get("pause_ms", 0) / 1000)
            if step == "listen":
                heard += [item.input.text or "" for item in (await ctx.api.steering.pull()).items]
            elif step != "say":
                await getattr(hands, step)()
        except AgentAPIException as refused:
            yield ctx.delta(f"{refused.error.code} ")
    yield ctx.completed(" ".join(heard))
