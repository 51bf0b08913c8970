"""Everything the in-memory host holds, and what of it one run sees."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bollard.protocol import (
    AgentEventRecord,
    AgentResource,
    AgentResources,
    AgentRunContext,
    AgentRunState,
    ChildRunResult,
    ContextAccess,
    FileResource,
    JsonObject,
    JsonValue,
    KnowledgeBaseResource,
    KnowledgeChunk,
    ModelResource,
    StorageResource,
    ToolResource,
    limits,
)
from bollard.sdk.testing.clock import Clock
from bollard.sdk.testing.grant import Grant
from bollard.sdk.testing.models import ScriptedModel
from bollard.sdk.testing.resources import ChildAgents, KnowledgeBases, PlatformActions, Tools
from bollard.sdk.testing.stores import Artifacts, Blobs, StateStore, json_size
from bollard.sdk.testing.transcript import Events, HistoryEntry, Transcript

__all__ = ["World"]


class World:
    """Models, tools, knowledge, records and stores."""

    def __init__(
        self,
        *,
        models: Mapping[str, ScriptedModel],
        tools: Iterable[Callable[..., Any]] | Mapping[str, Callable[..., Any]],
        knowledge: Mapping[str, Iterable[str | KnowledgeChunk]],
        history: Iterable[HistoryEntry],
        events: Iterable[AgentEventRecord],
        state: Mapping[str, Mapping[str, JsonValue]],
        storage: Mapping[str, Mapping[str, bytes]],
        artifacts: Mapping[str, bytes],
        files: Mapping[str, bytes],
        agents: Mapping[str, str | ChildRunResult | Callable[..., Any]],
        platform: Mapping[str, Any],
        conversation_id: str,
        clock: Clock,
    ) -> None:
        self.models = dict(models)
        self.tools = Tools(tools, clock)
        self.knowledge = KnowledgeBases(knowledge)
        self.transcript = Transcript(history, conversation_id)
        self.events = Events(events)
        self.state = StateStore(clock)
        self.storage = {area: Blobs("stored key", storage.get(area, {})) for area in ("plugin", "workspace")}
        self.artifacts = Artifacts(artifacts, clock)
        self.files = Blobs("file", files)
        self.agents = ChildAgents(agents)
        self.platform = PlatformActions(platform)
        self._seeds = state

    def resources(self, grant: Grant) -> AgentResources:
        """What a run sees by name: what there is, with the operations it was granted."""
        return AgentResources(
            models=tuple(
                ModelResource(
                    model_id=name,
                    model_type=model.model_type,
                    provider="script",
                    context_window=model.context_window,
                    operations=operations,
                )
                for name, model in self.models.items()
                if (operations := grant.operations("models", model.operations))
            ),
            tools=tuple(
                ToolResource(
                    tool_name=name,
                    tool_type="function",
                    description=tool.definition.description,
                    risk=tool.definition.risk or "medium",
                    definition_sha256=tool.sha256,
                    operations=operations,
                )
                for name, tool in self.tools.offered.items()
                if (operations := grant.operations("tools"))
            ),
            knowledge_bases=self.knowledge_bases(grant),
            agents=tuple(
                AgentResource(agent_id=name, name=name) for name in self.agents.known if grant.operations("agents")
            ),
            files=tuple(
                FileResource(file_id=name, file_name=name, source="config", operations=operations)
                for name in self.files.contents
                if (operations := grant.operations("files"))
            ),
            storage=StorageResource(
                plugin_storage="plugin" in grant.permissions.storage,
                workspace_storage="workspace" in grant.permissions.storage,
            ),
            platform_capabilities=dict.fromkeys(self.platform.outcomes, True) if grant.operations("platform") else {},
        )

    def knowledge_bases(self, grant: Grant) -> tuple[KnowledgeBaseResource, ...]:
        """The knowledge bases a run may ask."""
        operations = grant.operations("knowledge_bases")
        return tuple(
            KnowledgeBaseResource(kb_id=name, kb_name=name, operations=operations)
            for name in self.knowledge.chunks
            if operations
        )

    def projection(
        self, context: AgentRunContext, grant: Grant, keys: Mapping[str, str]
    ) -> tuple[ContextAccess, AgentRunState, JsonObject]:
        """Where a run stands in its conversation, the state it starts with, and the scopes that have only their keys
        in it."""
        items = self.transcript.items
        access = context.context.model_copy(
            update={
                "latest_cursor": items[-1].cursor if items else None,
                "transcript_seq": len(items),
                "event_seq": len(self.events.items) + 1,
                "has_history_before": bool(items),
                "available_apis": grant.available_apis,
            }
        )
        snapshots: dict[str, Any] = {}
        shortened: JsonObject = {}
        left = limits.STATE_SNAPSHOT_BYTES
        for scope in sorted(grant.state_scopes):
            self.state.seed(keys[scope], self._seeds.get(scope, {}))
            values = self.state.snapshot(keys[scope])
            told = dict(sorted(values.items())[: limits.STATE_LIST_KEYS])
            size, more = sum(json_size(value) + len(key.encode()) for key, value in told.items()), told != values
            if more or size > left:
                told = dict.fromkeys(told)
                shortened[scope] = {"keys_only": True, "more_keys": more}
            else:
                left -= size
            snapshots[scope] = told
        return access, AgentRunState(**snapshots), shortened
