"""Artifacts that are attached to a message. Only artifacts of the same conversation and thread can be attached.

The run that gets the message is in that conversation too, so it can read them if its grant allows it. The host looks up
name, type and size of an artifact; it does not trust the message.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from bollard.host.errors import InvalidRequest
from bollard.host.events.acceptance import EventDeduplication
from bollard.host.limits import ATTACHMENTS
from bollard.host.run_api.history import artifact_ref
from bollard.host.run_api.reach import ArtifactReach
from bollard.host.scope import Place
from bollard.host.store.keys import key_problem
from bollard.protocol import AgentInput, ArtifactRef, JsonObject

_FIELD: Final = "input.attachments"

Sent = tuple[str, str, str]
"""Workspace, source and id of a message that may be a repeat."""


class Attachments:
    """Looks up the attachments of messages."""

    def __init__(self, reach: ArtifactReach, known: EventDeduplication) -> None:
        self._reach = reach
        self._known = known

    async def of(self, message: AgentInput, place: Place, sent: Sent | None = None) -> tuple[JsonObject, ...]:
        """The attachments of a message in this place. Raises `InvalidRequest` for the first invalid one.

        A message that is `sent` again has its first attachments, even if they were removed since."""
        if not message.attachments:
            return ()
        if len(message.attachments) > ATTACHMENTS:
            raise InvalidRequest(
                f"a message has at most {ATTACHMENTS} attachments",
                reason="attachments",
                hint="send another message with the rest",
                field=_FIELD,
                limit=ATTACHMENTS,
            )
        first = {} if sent is None else await self._known.attached(*sent)
        return await asyncio.to_thread(self._look_up, message.attachments, place, first)

    def _look_up(
        self, attached: Sequence[ArtifactRef], place: Place, first: Mapping[str, JsonObject]
    ) -> tuple[JsonObject, ...]:
        references: list[JsonObject] = []
        for number, each in enumerate(attached):
            if each.artifact_id in first:
                references.append(first[each.artifact_id])
                continue
            is_valid = key_problem(each.artifact_id) is None
            row = self._reach.made_in(place, each.artifact_id) if is_valid else None
            if row is None:
                raise InvalidRequest(
                    "this conversation has no such artifact",
                    reason="attachment",
                    hint="attach artifacts of a run or a message in the same conversation and thread",
                    field=f"{_FIELD}.{number}.artifact_id",
                )
            references.append(artifact_ref(row).to_wire())
        return tuple(references)
