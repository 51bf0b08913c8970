"""Interactions: approvals and questions as a conversation shows them, with an id that clicks name.

The id of an interaction is the id of its approval or question and a random part. Only the host and the channel know it,
and it permits nothing by itself: a click is signed by its channel and made by a person.
"""

import secrets
from collections.abc import Iterable
from typing import Final

from bollard.host.log.records import InteractionRoute
from bollard.host.runs.live_run import LiveRun

_RANDOM_BYTES: Final = 12
INTERACTION_ID_CHARACTERS: Final = 128
"""The longest id that is looked up."""


def interaction_route(lineage: Iterable[LiveRun], subject_id: str) -> InteractionRoute | None:
    """Where the run, or the nearest run that called it, delivers its answers. `None` if that is nowhere."""
    for run in lineage:
        if (goes_to := run.facts.deliver_to) is not None:
            return InteractionRoute(
                id=f"{subject_id}.{secrets.token_urlsafe(_RANDOM_BYTES)}",
                channel=goes_to.channel,
                target=goes_to.target,
                event_id=run.facts.event_id,
                max_message_size=goes_to.max_message_size,
            )
    return None


def subject_of(interaction_id: str) -> str:
    """The id of the approval or question."""
    return interaction_id.partition(".")[0]
