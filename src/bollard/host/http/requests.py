"""Bodies of API requests, strict: an unknown or wrong field is refused by name."""

from typing import Annotated

from pydantic import Field

from bollard.protocol import AgentInput, Int, JsonObject, Strict, Timestamp

__all__ = ["CancelRun", "CreateRun", "PostEvent"]

Id = Annotated[str, Field(min_length=1, max_length=256)]


class Actor(Strict):
    """Who speaks."""

    type: Id = "user"
    id: Id | None = None
    name: str | None = Field(default=None, max_length=256)


class CreateRun(Strict):
    """`POST /api/v1/runs`: say something to an agent."""

    agent: Id
    input: AgentInput = Field(default_factory=AgentInput)
    conversation: Id | None = None
    thread: Id | None = None
    actor: Actor | None = None
    id: Id | None = Field(default=None, description="The caller's own id: the same again gets the first run.")
    data: JsonObject = Field(default_factory=dict)


class PostEvent(Strict):
    """`POST /api/v1/events`: something happened."""

    source: Id
    id: Id
    type: Id
    agent: Id
    time: Timestamp | None = None
    text: str | None = None
    conversation: Id | None = None
    thread: Id | None = None
    actor: Actor | None = None
    subject_type: Id | None = None
    subject_id: Id | None = None
    data: JsonObject = Field(default_factory=dict)


class CancelRun(Strict):
    """`POST /api/v1/runs/{id}/cancel`."""

    reason: str | None = Field(default=None, max_length=256)


class PageQuery(Strict):
    """What a list takes."""

    limit: Int = Field(default=50, ge=1, le=100)
