"""Example responses for the OpenAPI document. A test checks each against its schema."""

from typing import Final

from bollard.protocol import JsonObject

_RUN: Final = "run_01"
_EVENT: Final = "evt_01"
_AT: Final = 1794735484.944
_SHA256: Final = "9f2c1e" + "0" * 58
ACCEPTED_EXAMPLE: Final[JsonObject] = {"event_id": _EVENT, "run_id": _RUN, "first": True}
RUN_EXAMPLE: Final[JsonObject] = {
    "run_id": _RUN,
    "event_id": _EVENT,
    "agent_id": "parrot",
    "binding_id": "direct:parrot",
    "runner_id": "plugin:local/parrot/default",
    "workspace_id": "default",
    "conversation_id": "support-7",
    "status": "completed",
    "epoch": 1,
    "grant_sha256": _SHA256,
    "created_at": _AT,
    "started_at": 1794735484.952,
    "finished_at": 1794735485.1,
    "updated_at": 1794735485.1,
    "metadata": {},
}
RECORD_EXAMPLE: Final[JsonObject] = {
    "run_id": _RUN,
    "seq": 3,
    "epoch": 1,
    "type": "run.started",
    "data": {},
    "observed": True,
    "created_at": 1794735484.952,
    "artifact_refs": [],
    "metadata": {},
}
RUN_STREAM_EXAMPLE: Final = (
    'id: 1.4\nevent: message.delta\ndata: {"run_id":"run_01","seq":4,"epoch":1,"type":"message.delta","data":{"chunk":'
    '{"role":"assistant","content":"Hello "}},"observed":false,"created_at":1794735484.96,"artifact_refs":[],'
    '"metadata":{}}\n\n'
)
MESSAGE_EXAMPLE: Final[JsonObject] = {
    "transcript_id": "t_136",
    "event_id": _EVENT,
    "conversation_id": "support-7",
    "role": "assistant",
    "item_type": "message",
    "content": "Hello",
    "artifact_refs": [],
    "seq": 136,
    "cursor": "yjlYkQE3x5q9BuO1aVLidjEzNg",
    "created_at": 1794735485.1,
    "metadata": {},
}
EVENT_EXAMPLE: Final[JsonObject] = {
    "event_id": _EVENT,
    "source": "api",
    "id": "1a1dfd4b3f92382b11756dba817",
    "type": "message.received",
    "run_id": _RUN,
    "dispatch": "run",
    "bot_id": None,
    "conversation_id": "support-7",
    "thread_id": None,
    "actor_type": "user",
    "actor_id": "ann",
    "actor_name": None,
    "subject_type": None,
    "subject_id": None,
    "summary": "Hello",
    "event_time": None,
    "created_at": _AT,
    "seq": 131,
}
GRANT_EXAMPLE: Final[JsonObject] = {
    "grant": {
        "run_id": _RUN,
        "access": {
            "agent_id": "parrot",
            "runner_id": "plugin:local/parrot/default",
            "operations": {"history.page": ["conversation"]},
            "resources": {},
            "state_scopes": ["actor", "conversation"],
        },
        "limits": {"deadline_s": 300, "idle_s": 120, "calls_per_s": 200, "calls_in_flight": 32},
        "scope": {"workspace": "default", "conversation": "support-7", "actor_type": "user", "actor_id": "ann"},
    },
    "grant_sha256": _SHA256,
    "revoked": {},
}
EXPLAINED_EXAMPLE: Final[JsonObject] = {
    "action": "history.page",
    "allowed": False,
    "code": "unauthorized",
    "reasons": [{"layer": "manifest", "text": "The runner's manifest does not ask for history.page."}],
}
RESOLVED_EXAMPLE: Final[JsonObject] = {
    "binding": "builds",
    "agent": "polly",
    "steps": [
        {
            "binding": "builds",
            "key": "won",
            "text": "Binding builds matches and goes first: agent polly gets the event.",
        }
    ],
    "decision": {"kind": "start"},
    "refused": None,
    "grant": {
        "operations": [],
        "resources": {},
        "conversations": [],
        "state": [],
        "steerable": False,
        "deadline_s": 300.0,
    },
}
AGENT_EXAMPLE: Final[JsonObject] = {
    "agent_id": "polly",
    "runner_id": "plugin:local/parrot/default",
    "label": {"en_US": "Polly"},
    "config": {},
    "policy": {"concurrency": {"mode": "queue", "steer_from": "same_actor"}, "gate": {"talk": "everyone"}},
    "deadline_s": 300.0,
    "idle_s": 120.0,
    "repeatable": False,
    "revision": 1,
}
LISTED_AGENT_EXAMPLE: Final[JsonObject] = {
    "agent_id": "polly",
    "runner_id": "plugin:local/parrot/default",
    "label": {"en_US": "Polly"},
    "deadline_s": 300.0,
    "concurrency": "queue",
    "revision": 1,
    "available": True,
}
RUNNER_EXAMPLE: Final[JsonObject] = {
    "runner_id": "plugin:local/parrot/default",
    "plugin": "local/parrot",
    "plugin_version": "0.0.0",
    "name": "default",
    "label": {"en_US": "Parrot"},
    "capabilities": {"streaming": True, "steering": False},
    "permissions": {"history": ["page"]},
    "config_schema": [],
    "metadata": {},
}
BINDING_EXAMPLE: Final[JsonObject] = {
    "binding_id": "builds",
    "agent_id": "polly",
    "scope": {"channel": "ci"},
    "filters": [{"field": "event_type", "values": ["build.failed"]}],
    "priority": 0,
    "enabled": True,
    "revision": 1,
}
CHANNEL_EXAMPLE: Final[JsonObject] = {
    "channel_id": "room",
    "kind": "http",
    "enabled": True,
    "secret": "__kept__",
    "abilities": {
        "dedupe": "native",
        "supports_streaming": False,
        "supports_edit": False,
        "supports_reaction": False,
        "edits_per_s": 1.0,
    },
    "url": "https://chat.example.org/hook",
    "revision": 1,
}
DELIVERY_EXAMPLE: Final[JsonObject] = {
    "delivery_id": "dlv_01",
    "channel_id": "room",
    "target": "support-7",
    "run_id": _RUN,
    "event_id": _EVENT,
    "preview": False,
    "status": "sent",
    "attempts": 1,
    "messages": ["m-1"],
    "reason": None,
    "created_at": 1794735485.1,
    "updated_at": 1794735485.3,
}
ARTIFACT_EXAMPLE: Final[JsonObject] = {
    "artifact_id": "art_01",
    "artifact_type": "file",
    "mime_type": "text/plain",
    "name": "note.txt",
    "size_bytes": 22,
    "sha256": _SHA256,
    "source": "runner",
    "run_id": _RUN,
    "created_at": _AT,
    "metadata": {},
}


def page_example(item: JsonObject) -> JsonObject:
    """A page with this item."""
    return {"items": [item], "has_more": False}
