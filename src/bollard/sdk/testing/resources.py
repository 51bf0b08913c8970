"""The resources that a run of the in-memory host sees, sorted as a real host sorts them. Pure."""

import mimetypes
from collections.abc import Iterator

from bollard import protocol
from bollard.sdk.testing.grant import DOCUMENT_SOURCE, FILE_SOURCE, Grant
from bollard.sdk.testing.world import World, documents_of


def resources_of(world: World, grant: Grant) -> protocol.AgentResources:
    """Return everything scripted that the grant allows, with the granted operations."""
    return protocol.AgentResources(
        models=tuple(
            protocol.ModelResource(
                model_id=name,
                model_type=model.model_type,
                provider="script",
                context_window=model.context_window,
                operations=operations,
            )
            for name, model in sorted(world.models.items())
            if (operations := grant.operations("models", model.operations))
        ),
        tools=tuple(
            protocol.ToolResource(
                tool_name=name,
                tool_type="tool",
                description=tool.definition.description,
                risk=tool.definition.risk or "medium",
                definition_sha256=tool.sha256,
                operations=operations,
            )
            for name, tool in sorted(world.tools.offered.items())
            if (operations := grant.operations("tools"))
        ),
        knowledge_bases=knowledge_bases_of(world, grant),
        agents=tuple(
            protocol.AgentResource(agent_id=name, name=name)
            for name in sorted(world.agents.known)
            if grant.operations("agents")
        ),
        files=tuple(_files(world, grant)),
        storage=protocol.StorageResource(
            plugin_storage="plugin" in grant.permissions.storage,
            workspace_storage="workspace" in grant.permissions.storage,
        ),
        platform_capabilities=(
            dict.fromkeys(sorted(world.platform.outcomes), True) if grant.operations("platform") else {}
        ),
    )


def knowledge_bases_of(world: World, grant: Grant) -> tuple[protocol.KnowledgeBaseResource, ...]:
    """Return the knowledge bases that a run may query."""
    operations = grant.operations("knowledge_bases")
    return tuple(
        protocol.KnowledgeBaseResource(kb_id=name, kb_name=name, kb_type="documents", operations=operations)
        for name in sorted(world.knowledge.chunks)
        if operations
    )


def _files(world: World, grant: Grant) -> Iterator[protocol.FileResource]:
    """The files of the configuration, and one entry for all documents of each knowledge base."""
    if operations := grant.operations("files", (FILE_SOURCE,)):
        for name in sorted(world.files.contents):
            mime_type = mimetypes.guess_type(name)[0]
            yield protocol.FileResource(
                file_id=name, file_name=name, mime_type=mime_type, source=FILE_SOURCE, operations=operations
            )
    documents = grant.operations("files", (DOCUMENT_SOURCE,))
    if documents and "retrieve" in grant.operations("knowledge_bases"):
        for name in sorted(world.knowledge.chunks):
            yield protocol.FileResource(
                file_id=documents_of(name), file_name=name, source=DOCUMENT_SOURCE, operations=documents
            )
