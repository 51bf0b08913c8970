"""Artifacts that somebody attaches to a message: those of the conversation that the message is in, and no others.

Whoever may speak there may name them, and whichever run gets the message is in that place too, so it can read them
where its grant allows reading. What the message says of them is looked up, never believed.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from bollard.host.errors import InvalidRequest
from bollard.host.events.acceptance import EventDeduplication
from bollard.host.limits import ATTACHMENTS
from bollard.host.run_api.history import artifact_ref
from bollard.host.run_api.reach import ArtifactReach, Placed
from bollard.host.store.keys import key_problem
from bollard.protocol import AgentInput, ArtifactRef, JsonObject

_FIELD: Final = "input.attachments"

Sent = tuple[str, str, str]
"""The workspace, source and id of a message that may have come before."""


class MessageScope(msgspec.Struct, frozen=True, kw_only=True):
    """Where a message is said that has no run yet. Implements `Placed`."""

    workspace: str
    bot: str | None
    conversation: str | None
    thread: str | None


class Attachments:
    """One per host."""

    def __init__(self, reach: ArtifactReach, known: EventDeduplication) -> None:
        self._reach = reach
        self._known = known

    async def of(self, said: AgentInput, there: Placed, sent: Sent | None = None) -> tuple[JsonObject, ...]:
        """What is attached to a message that is said there. Raises `InvalidRequest` with the first that cannot be.

        A message that is `sent` again has what it had the first time, also where that is gone since."""
        if not said.attachments:
            return ()
        if len(said.attachments) > ATTACHMENTS:
            problem = f"a message has at most {ATTACHMENTS} attachments"
            raise InvalidRequest(problem, hint="send another message with the rest", field=_FIELD)
        first = {} if sent is None else await self._known.attached(*sent)
        return await asyncio.to_thread(self._found, said.attachments, there, first)

    def _found(
        self, attached: Sequence[ArtifactRef], there: Placed, first: Mapping[str, JsonObject]
    ) -> tuple[JsonObject, ...]:
        found: list[JsonObject] = []
        for number, each in enumerate(attached):
            if each.artifact_id in first:
                found.append(first[each.artifact_id])
                continue
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
