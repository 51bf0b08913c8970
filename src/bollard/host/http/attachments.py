"""Artifacts that somebody attaches to a message: those of the conversation that the message is in, and no others.

Whoever may speak there may name them, and whichever run gets the message is in that place too, so it can read them
where its grant allows reading. What the message says of them is looked up, never believed.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from bollard.host.errors import InvalidRequest
from bollard.host.limits import ATTACHMENTS
from bollard.host.runapi.reach import ArtifactReach, Placed
from bollard.host.runapi.transcript_items import artifact_ref
from bollard.host.store.keys import key_problem
from bollard.protocol import AgentInput, ArtifactRef, JsonObject

__all__ = ["Attachments", "Here"]

_FIELD: Final = "input.attachments"


class Here(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message is said that has no run yet. Implements `Placed`."""

    workspace: str
    bot: str | None
    conversation: str | None
    thread: str | None


class Attachments:
    """One per host."""

    def __init__(self, reach: ArtifactReach) -> None:
        self._reach = reach

    async def of(self, said: AgentInput, there: Placed) -> tuple[JsonObject, ...]:
        """What is attached to a message that is said there. Raises `InvalidRequest` with the first that cannot be."""
        if not said.attachments:
            return ()
        if len(said.attachments) > ATTACHMENTS:
            problem = f"a message has at most {ATTACHMENTS} attachments"
            raise InvalidRequest(problem, hint="send another message with the rest", field=_FIELD)
        return await asyncio.to_thread(self._found, said.attachments, there)

    def _found(self, attached: Sequence[ArtifactRef], there: Placed) -> tuple[JsonObject, ...]:
        found: list[JsonObject] = []
        for number, each in enumerate(attached):
            named = key_problem(each.artifact_id) is None  # no store has others
            row = self._reach.made_in(there, each.artifact_id) if named else None
            if row is None:
                raise InvalidRequest(
                    "this conversation has no such artifact",
                    hint="attach artifacts that a run or a message of the same conversation and thread brought",
                    field=f"{_FIELD}.{number}.artifact_id",
                )
            found.append(artifact_ref(row).to_wire())
        return tuple(found)
