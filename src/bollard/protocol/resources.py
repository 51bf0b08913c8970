"""What a run was granted, as the runner sees it: `ctx.resources` (§4). All ids are opaque to the runner."""

from pydantic import Field

from bollard.protocol.shape import Digest, Flag, Int, JsonObject, Tolerant

__all__ = [
    "AgentResource",
    "AgentResources",
    "FileResource",
    "KnowledgeBaseResource",
    "ModelResource",
    "SkillResource",
    "StorageResource",
    "ToolResource",
]


class ModelResource(Tolerant):
    """A model the run may use."""

    model_id: str
    model_type: str
    provider: str | None = None
    context_window: Int | None = Field(default=None, gt=0)
    vision: Flag | None = None
    """Whether it looks at images; absent is no."""
    operations: tuple[str, ...] = ()


class ToolResource(Tolerant):
    """A tool the run may use; its schema comes from `tools.detail`."""

    tool_name: str
    tool_type: str
    description: str | None = None
    risk: str
    definition_sha256: Digest
    operations: tuple[str, ...] = ()


class KnowledgeBaseResource(Tolerant):
    """A knowledge base the run may ask."""

    kb_id: str
    kb_name: str | None = None
    kb_type: str | None = None
    operations: tuple[str, ...] = ()


class SkillResource(Tolerant):
    """A skill the run may activate."""

    skill_name: str
    display_name: str | None = None
    description: str | None = None


class AgentResource(Tolerant):
    """Another agent the run may call."""

    agent_id: str
    name: str | None = None
    description: str | None = None


class FileResource(Tolerant):
    """A file of the agent's configuration or knowledge."""

    file_id: str
    file_name: str | None = None
    mime_type: str | None = None
    source: str | None = None
    operations: tuple[str, ...] = ()


class StorageResource(Tolerant):
    """Which storage areas the run may use."""

    plugin_storage: Flag = False
    workspace_storage: Flag = False


class AgentResources(Tolerant):
    """Everything the run was granted by name. Empty means nothing."""

    models: tuple[ModelResource, ...] = ()
    tools: tuple[ToolResource, ...] = ()
    knowledge_bases: tuple[KnowledgeBaseResource, ...] = ()
    skills: tuple[SkillResource, ...] = ()
    agents: tuple[AgentResource, ...] = ()
    files: tuple[FileResource, ...] = ()
    storage: StorageResource = Field(default_factory=StorageResource)
    platform_capabilities: JsonObject = Field(default_factory=dict)
