"""Events of a channel that control a run instead of starting one: clicks on interactions, and requests to stop.

The answer has a sentence for the person who clicked, in the language of the person. A click without effect is answered
too: the program behind the channel must not send it again. Only an error that a retry may solve is raised.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Final

import msgspec
from pydantic import Field

from bollard.host.channels.channel import SavedChannel
from bollard.host.channels.clicks import Click, ClickPlace, Clicks, StopRequests
from bollard.host.delivery.interaction_content import WORDS
from bollard.host.errors import HostError
from bollard.host.http.bodies import Id, parsed
from bollard.host.http.openapi.schemas import TEXT, choice, fields, named
from bollard.host.limits import ANSWER_CHARACTERS
from bollard.host.runs.event import NewEvent
from bollard.protocol import JsonObject, Strict

_FORM_FIELDS: Final = 32
"""Fields of one submitted form."""


class InteractionSubmitted(Strict):
    """`data` of `interaction.submitted`: a click, or a submitted form."""

    interaction_id: Annotated[str, Field(min_length=1, max_length=256)]
    button: Annotated[str, Field(max_length=64)] | None = None
    values: Annotated[dict[Id, Annotated[str, Field(max_length=ANSWER_CHARACTERS)]], Field(max_length=_FORM_FIELDS)] = (
        Field(default_factory=dict)
    )
    message: Id | None = Field(default=None, description="The clicked message, as the channel named it.")


class StopRequested(Strict):
    """`data` of `run.stop_requested`."""

    run_id: Id | None = Field(default=None, description="Otherwise the newest active run that answers here.")


class ControlOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a control event."""

    outcome: str
    run_id: str | None = None


CONTROL_ANSWER: Final = named(
    "ControlAnswer",
    fields(
        {"run_id": TEXT, "reason": fields(code=TEXT, reason=TEXT, message=TEXT, hint=TEXT)},
        outcome=choice("granted", "denied", "answered", "stopping", "refused"),
        toast=TEXT,
    ),
)
Control = Callable[[ClickPlace, JsonObject], Awaitable[ControlOutcome]]


class ChannelControls:
    """Applies control events, by their type."""

    def __init__(self, clicks: Clicks, stops: StopRequests) -> None:
        self._clicks = clicks
        self._stops = stops
        self._controls: Mapping[str, Control] = {
            "interaction.submitted": self._submit,
            "run.stop_requested": self._stop,
        }

    def handles(self, event: NewEvent) -> bool:
        return event.event_type in self._controls

    async def apply(self, event: NewEvent, channel: SavedChannel) -> JsonObject:
        """The answer to a control event. Raises `InvalidRequest` for data without the right fields, and errors that a
        retry may solve."""
        place = ClickPlace(
            workspace=event.scope.workspace,
            channel=channel.channel_id,
            target="" if event.reply is None else event.reply.target,
            actor=None if event.scope.actor_id is None else event.scope.actor,
        )
        words = WORDS[event.locale(channel.locale)]
        try:
            done = await self._controls[event.event_type](place, event.data)
        except HostError as error:
            if error.retryable or error.reason == "field":
                raise
            toast = words.get(_toast(error, channel), words["refused"])
            reason: JsonObject = {
                "code": error.code,
                "reason": error.reason,
                "message": error.message,
                "hint": error.hint,
            }
            return {"outcome": "refused", "toast": toast, "reason": reason}
        body: JsonObject = {"outcome": done.outcome, "toast": words[f"toast.{done.outcome}"]}
        return body if done.run_id is None else {**body, "run_id": done.run_id}

    async def _submit(self, place: ClickPlace, data: JsonObject) -> ControlOutcome:
        body = parsed(InteractionSubmitted, data)
        click = Click(interaction_id=body.interaction_id, button=body.button, values=body.values, message=body.message)
        return ControlOutcome(outcome=await self._clicks.submit(place, click))

    async def _stop(self, place: ClickPlace, data: JsonObject) -> ControlOutcome:
        return ControlOutcome(
            outcome="stopping", run_id=await self._stops.stop(place, parsed(StopRequested, data).run_id)
        )


def _toast(error: HostError, channel: SavedChannel) -> str:
    """The key of the sentence for a refused click. A person who is not linked reads how to change that."""
    unlinked = error.reason == "actor_not_linked" and "link" not in channel.commands
    return f"refused.{error.reason}{'.by_operator' if unlinked else ''}"
