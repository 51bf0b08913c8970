"""What the runner sees of its grant. Made from the grant that the host checks with, so the two cannot differ."""

from bollard.host.grants.grant import Grant
from bollard.protocol import JsonObject

__all__ = ["available_apis_of", "resources_of"]


def resources_of(grant: Grant) -> JsonObject:
    """`ctx.resources`. Shared by every run of the agent: it is sent, never changed."""
    return grant.access.resources


def available_apis_of(grant: Grant) -> JsonObject:
    """`ctx.context.available_apis`: which calls can be answered at all for this event."""
    operations = grant.access.rights.operations
    none: frozenset[str] = frozenset()
    history = operations.get("history", none)
    events = operations.get("events", none)
    artifacts = operations.get("artifacts", none)
    here = grant.scope.has("conversation")
    return {
        "history_page": "page" in history and (here or bool(grant.access.rights.conversations)),
        "history_search": "search" in history and here,
        "event_get": "get" in events,
        "event_page": "page" in events,
        "artifact_metadata": "metadata" in artifacts,
        "artifact_read": "read" in artifacts,
        "artifact_write": "write" in artifacts,
        "state": bool(grant.state_keys),
        "storage": "storage" in operations,
        "steering_pull": grant.steerable,
    }
