"""The runner's view of its grant: valid shapes, in agreement with the check."""

from typing import Any

import msgspec
import pytest

from bollard.host.agents.policies import AgentPolicy, StatePolicy
from bollard.host.grants.grant import available_apis_of, resources_of
from bollard.protocol import AgentResources, AvailableAPIs


def test_the_resources_of_the_full_grant_are_the_protocols_shape(granting: Any) -> None:
    seen = resources_of(granting.grant())
    assert AgentResources.from_wire(seen).to_wire() == seen
    assert seen == {
        "models": [
            {
                "model_id": "chat",
                "model_type": "llm",
                "provider": "acme",
                "context_window": 8192,
                "operations": ["invoke", "stream"],
            },
            {"model_id": "sorter", "model_type": "rerank", "operations": ["rerank"]},
            {"model_id": "vectors", "model_type": "embedding", "operations": ["embed"]},
        ],
        "tools": [
            {
                "tool_name": "clock",
                "tool_type": "builtin",
                "description": "Time.",
                "risk": "low",
                "definition_sha256": "a" * 64,
                "operations": ["detail", "call"],
            }
        ],
        "knowledge_bases": [{"kb_id": "manual", "kb_name": "The manual", "operations": ["list", "retrieve"]}],
        "skills": [{"skill_name": "report", "display_name": "Report"}],
        "agents": [{"agent_id": "researcher", "name": "Researcher"}],
        "files": [
            {"file_id": "book", "source": "knowledge", "operations": ["knowledge"]},
            {"file_id": "kb:manual/", "file_name": "The manual", "source": "knowledge", "operations": ["knowledge"]},
            {
                "file_id": "logo",
                "file_name": "logo.png",
                "mime_type": "image/png",
                "source": "config",
                "operations": ["config"],
            },
        ],
        "storage": {"plugin_storage": True, "workspace_storage": True},
        "platform_capabilities": {"message.edit": True},
    }


def test_an_empty_grant_projects_an_empty_shape(granting: Any) -> None:
    nothing = AgentPolicy(state=StatePolicy(enabled=False))
    grant = granting.grant(granting.agent(policy=nothing))
    assert AgentResources.from_wire(resources_of(grant)) == AgentResources()
    assert AvailableAPIs.from_wire(available_apis_of(grant)) == AvailableAPIs()


def test_the_full_grant_makes_every_api_available(granting: Any) -> None:
    seen = available_apis_of(granting.grant())
    assert {*seen} == {*AvailableAPIs.model_fields}
    assert all(value is True for value in seen.values())
    assert AvailableAPIs.from_wire(seen).to_wire() == seen


@pytest.mark.parametrize("others", [(), ("elsewhere",)])
def test_without_a_conversation_search_and_steering_are_unavailable(granting: Any, others: tuple[str, ...]) -> None:
    agent = granting.agent(policy=granting.policy(conversations=others))
    seen = available_apis_of(granting.grant(agent, msgspec.structs.replace(granting.scope, conversation=None)))
    assert (seen["history_page"], seen["history_search"], seen["steering_pull"]) == (bool(others), False, False)


def test_two_runs_of_an_agent_share_their_resources(granting: Any) -> None:
    grant = granting.grant()
    assert resources_of(grant) is grant.access.resources
