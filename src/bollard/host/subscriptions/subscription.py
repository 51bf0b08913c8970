"""A saved subscription: which events go to which URL."""

from typing import Annotated, Final

from pydantic import Field

from bollard.host.agents.names import ChosenName, ForeignId
from bollard.host.channels.signed_body import URL_CHARACTERS, SignedBody
from bollard.host.feed.feed_event import Selection
from bollard.host.limits import SUBSCRIPTION_NAMES
from bollard.protocol import Flag

ANY: Final = "*"
"""Stands for every type."""


class Subscription(SignedBody):
    """An outgoing webhook. Without a secret it sends nothing."""

    __qualname__ = "SaveSubscription"  # the name of the body in the OpenAPI document; the answer is `Subscription`
    noun = "subscription"
    subscription_id: ChosenName
    url: Annotated[str, Field(min_length=1, max_length=URL_CHARACTERS)] = Field(description="Where events go.")
    types: Annotated[tuple[ForeignId, ...], Field(min_length=1, max_length=SUBSCRIPTION_NAMES)] = Field(
        description="Types of events; `*` is every type."
    )
    agents: Annotated[tuple[ChosenName, ...], Field(max_length=SUBSCRIPTION_NAMES)] = Field(
        default=(), description="Only events of runs of these agents."
    )
    conversations: Annotated[tuple[ForeignId, ...], Field(max_length=SUBSCRIPTION_NAMES)] = Field(
        default=(), description="Only events of these conversations."
    )
    sources: Annotated[tuple[ForeignId, ...], Field(max_length=SUBSCRIPTION_NAMES)] = Field(
        default=(), description="Only events of these sources; `bollard:events` are those of the host."
    )
    enabled: Flag = True
    problem: Annotated[str, Field(max_length=1024)] | None = Field(
        default=None, description="Why the host switched it off."
    )

    def checked(self, before: "Subscription | None") -> "Subscription":
        """The subscription of a request, with its secret. Raises `InvalidRequest`."""
        secret = self.checked_secret(before and before.secret)
        self.check_url(self.url)
        problem = None if self.enabled else self.problem
        return self.model_copy(update={"secret": secret, "problem": problem})

    def switched_off(self, problem: str) -> "Subscription":
        return self.model_copy(update={"enabled": False, "problem": problem[:1024]})

    @property
    def selection(self) -> Selection:
        return Selection(
            types=None if ANY in self.types else frozenset(self.types),
            agents=frozenset(self.agents) or None,
            conversations=frozenset(self.conversations) or None,
            sources=frozenset(self.sources) or None,
        )
