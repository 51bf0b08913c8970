"""The grant of a run in the in-memory host: its manifest's permissions, minus the denials of the test. Pure."""

from dataclasses import dataclass, field
from typing import Final

from bollard.protocol import ACTIONS, AgentAPIError, AgentRunnerPermissions, AvailableAPIs, ErrorCode, Strict
from bollard.sdk.errors import AgentAPIException, api_failure

FILE_SOURCE: Final = "config"
"""Where the files of the in-memory host come from, as a permission names it."""
DOCUMENT_SOURCE: Final = "knowledge"
"""Where the documents of knowledge bases come from, as a permission names it."""
DOCUMENTS: Final = "kb:"
"""The beginning of the file ids of documents."""
EVERYTHING = AgentRunnerPermissions(
    models=("invoke", "stream", "rerank", "embed"),
    tools=("detail", "call"),
    knowledge_bases=("list", "retrieve"),
    history=("page", "search"),
    events=("get", "page"),
    artifacts=("metadata", "read", "write"),
    storage=("plugin", "workspace"),
    files=("config", "knowledge"),
    agents=("call",),
    platform=("request",),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Grant:
    """The frozen rights of one run."""

    permissions: AgentRunnerPermissions = EVERYTHING
    manifest: str | None = None
    """The runner's name in `manifest.yaml`, if that declares the permissions; otherwise the decorator does."""
    steering: bool = True
    state_scopes: tuple[str, ...] = ("conversation", "actor", "subject", "runner")

    def check(self, action: str, params: Strict) -> None:
        """Raise the error of a real host if the manifest does not allow the call."""
        if action == "steering.pull" and not self.steering:
            raise api_failure("unauthorized", self.why_not_steered)
        scope = getattr(params, "scope", None)
        if action.startswith("state.") and scope not in self.state_scopes:
            raise api_failure("capability_denied", f"the agent's state policy has no scope {scope}")
        needed = ACTIONS[action].permission
        if needed is None:
            return
        key, operation = needed
        held: tuple[str, ...] = getattr(self.permissions, key)
        if operation is None and key == "storage":
            operation = getattr(params, "area", None)
        if not held:
            advice = self.advice(key, operation)
            raise api_failure("unauthorized", f"the runner's manifest asks for no {key}", hint=advice)
        if key == "files" and (source := _source_of(params)) not in held:  # a file of another source looks absent
            raise api_failure("not_found", "this run has no such file", hint=self.advice(key, source))
        if operation is not None and operation not in held:
            message = f"the runner's manifest does not ask for {key}: {operation}"
            raise api_failure("capability_denied", message, hint=self.advice(key, operation))

    def advice(self, key: str, operation: str | None) -> str:
        """Say where to add a permission."""
        named = operation or "…"
        if self.manifest is not None:
            return f"add {key}: [{named}] to the permissions of runner {self.manifest} in manifest.yaml"
        return f'add permissions={{"{key}": ["{named}"]}} to @runner'

    @property
    def why_not_steered(self) -> str:
        where = "@runner" if self.manifest is None else f"runner {self.manifest} in manifest.yaml"
        return f"this run cannot be steered; add the capability steering to {where}"

    def operations(self, key: str, of: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return the operations of a resource that the manifest asks for."""
        held: tuple[str, ...] = getattr(self.permissions, key)
        return held if of is None else tuple(operation for operation in of if operation in held)

    @property
    def available_apis(self) -> AvailableAPIs:
        """The projection that the runner sees."""
        held = self.permissions
        return AvailableAPIs(
            history_page="page" in held.history,
            history_search="search" in held.history,
            event_get="get" in held.events,
            event_page="page" in held.events,
            artifact_metadata="metadata" in held.artifacts,
            artifact_read="read" in held.artifacts,
            artifact_write="write" in held.artifacts,
            state=bool(self.state_scopes),
            storage=bool(held.storage),
            steering_pull=self.steering,
        )


def _source_of(params: Strict) -> str:
    return DOCUMENT_SOURCE if str(getattr(params, "file_id", "")).startswith(DOCUMENTS) else FILE_SOURCE


@dataclass(slots=True)
class Denials:
    """Calls that the test refuses."""

    _errors: dict[str, AgentAPIError] = field(default_factory=dict[str, AgentAPIError])

    def deny(self, action: str, code: ErrorCode, message: str | None, retryable: bool) -> None:
        if action not in ACTIONS:
            raise ValueError(f"there is no action {action}; the actions are {', '.join(ACTIONS)}")
        self._errors[action] = AgentAPIError(
            code=code, message=message or f"{action} is denied by the test", retryable=retryable
        )

    def allow(self, action: str) -> None:
        self._errors.pop(action, None)

    def check(self, action: str) -> None:
        """Raise the error that the test configured for the action, if any."""
        if action in self._errors:
            raise AgentAPIException(self._errors[action])
