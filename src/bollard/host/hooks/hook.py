"""A saved webhook route: who may send, what becomes of a request, and how it is answered."""

import secrets
from typing import Annotated, Final, Literal

from pydantic import Field

from bollard.host.agents.config_form import KEPT
from bollard.host.agents.names import ChosenName, ForeignId
from bollard.host.agents.saved_body import SavedBody
from bollard.host.channels.signing import new_secret
from bollard.host.errors import caused_by
from bollard.host.hooks.limits import (
    HOOK_ANSWER_CHARACTERS,
    HOOK_BYTES,
    HOOK_BYTES_MAX,
    HOOK_REQUESTS_PER_MINUTE,
    HOOK_REQUESTS_PER_MINUTE_MAX,
    HOOK_SECRET_MAX,
    HOOK_TOPICS,
    HOOK_WAIT_MAX_S,
    HOOK_WAIT_S,
    TEMPLATE_DATA_FIELDS,
)
from bollard.host.hooks.templates import Template
from bollard.host.hooks.verifier import Verifier
from bollard.protocol import Flag, Int, JsonObject, Strict

_SOURCE: Final = "hook/"


class EventMapping(Strict):
    """Templates that make the event of a request."""

    __qualname__ = "HookEvent"
    type: Template = "webhook.received"
    topic: Template | None = Field(
        default=None, description="The sender's own event type; otherwise where senders of this kind have it."
    )
    conversation: Template | None = None
    thread: Template | None = None
    actor: Template | None = Field(default=None, description="An id; the type of the actor is `hook/` and the route.")
    actor_name: Template | None = None
    text: Template | None = None
    data: Annotated[dict[ForeignId, Template], Field(max_length=TEMPLATE_DATA_FIELDS)] | None = Field(
        default=None, description="The data by field; otherwise the whole body."
    )


class HookAnswer(Strict):
    """The answer to a request whose event is on disk."""

    mode: Literal["accepted", "wait", "fixed"] = Field(
        default="accepted",
        description="`accepted`: event and run; `wait`: the answer of the run, if it comes in time; `fixed`: a body.",
    )
    wait_s: Annotated[Int, Field(ge=1, le=HOOK_WAIT_MAX_S)] = HOOK_WAIT_S
    format: Literal["json", "text"] = Field(default="json", description="Of the answer of a run.")
    status: Annotated[Int, Field(ge=200, le=299)] = Field(default=200, description="Of a fixed answer.")
    body: Annotated[str, Field(max_length=HOOK_ANSWER_CHARACTERS)] = ""
    content_type: Annotated[str, Field(pattern=r"^[a-z]+/[a-z0-9.+-]+(; ?[a-z]+=[A-Za-z0-9-]+)?$", max_length=128)] = (
        "text/plain"
    )


class Hook(SavedBody):
    """A webhook route, `POST /hooks/{hook_id}`. A route has a verifier; without its secret it is closed."""

    __qualname__ = "SaveHook"  # the name of the body in the OpenAPI document; the answer is `Hook`
    noun = "hook"
    hook_id: ChosenName
    enabled: Flag = True
    verifier: Verifier
    secret: Annotated[str, Field(min_length=1, max_length=HOOK_SECRET_MAX)] | None = Field(
        default=None, repr=False, exclude=True, description="Otherwise the host makes one, if the sender does not."
    )
    agent: ChosenName | None = Field(default=None, description="Otherwise the bindings choose an agent.")
    topics: Annotated[tuple[ForeignId, ...], Field(max_length=HOOK_TOPICS)] = Field(
        default=(), description="The topics that become events; empty for all."
    )
    dedupe: Template | None = Field(
        default=None,
        description="The id of a request: a repeat gets the first outcome. Otherwise where senders of this kind have "
        "it; a request without an id has the digest of its body.",
    )
    event: EventMapping = Field(default_factory=EventMapping)
    answer: HookAnswer = Field(default_factory=HookAnswer)
    max_bytes: Annotated[Int, Field(ge=1024, le=HOOK_BYTES_MAX)] = HOOK_BYTES
    requests_per_minute: Annotated[Int, Field(ge=1, le=HOOK_REQUESTS_PER_MINUTE_MAX)] = HOOK_REQUESTS_PER_MINUTE

    @property
    def source(self) -> str:
        """The source of its events, and the type of their actors. No channel can have this name."""
        return f"{_SOURCE}{self.hook_id}"

    @property
    def is_open(self) -> bool:
        return self.enabled and (self.secret is not None or not self.verifier.has_secret)

    def to_wire(self) -> JsonObject:
        """The route in an answer: `KEPT` stands for the secret, which is never shown."""
        return {**super().to_wire(), "secret": KEPT} if self.verifier.has_secret else super().to_wire()

    def stored(self) -> JsonObject:
        """The body in the log, which must not have the secret."""
        return super().to_wire()

    def checked(self, before: "Hook | None") -> "Hook":
        """The route of a request, with its secret: the one of the request, the one that it had, or a new one. Raises
        `InvalidRequest`."""
        given = None if self.secret == KEPT else self.secret
        if not self.verifier.has_secret:
            if given is not None:
                problem, hint = "a certificate needs no secret", "leave it out"
                raise self.invalid("hook_secret_unused", "secret", problem, hint)
            return self.with_secret(None)
        secret = given or (before and before.secret) or self._new_secret()
        try:
            self.verifier.check_secret(secret)
        except ValueError as error:
            hint = "send a secret of this verifier"
            raise self.invalid("hook_secret", "secret", str(error), hint, **caused_by(error)) from error
        return self.with_secret(secret)

    def _new_secret(self) -> str:
        kind = self.verifier.kind
        if self.verifier.is_made_by_sender:
            problem, hint = f"{kind} makes the secret itself", f"copy the signing secret of {kind} into secret"
            raise self.invalid("hook_secret_needed", "secret", problem, hint, kind=kind)
        return new_secret() if kind == "standard" else secrets.token_urlsafe(32)

    def with_secret(self, secret: str | None) -> "Hook":
        return self.model_copy(update={"secret": secret})


def hook_of_source(source: str) -> str | None:
    """The route that a source names."""
    return source.removeprefix(_SOURCE) if source.startswith(_SOURCE) else None
