"""The grant of a run: what it may do, frozen and content-addressed. The simplest true policy: its own results.

Routing and policies come with agents that people edit; the type stays.
"""

from dataclasses import dataclass

from bollard.host.agents.agent import Agent
from bollard.protocol import JsonObject
from bollard.trust import canonical_json, sha256_of

__all__ = ["Grant", "issue_grant"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Content-addressed: equal grants have equal digests."""

    body: JsonObject
    json: bytes
    sha256: str


def issue_grant(agent: Agent, *, run_id: str, workspace: str, conversation: str | None) -> Grant:
    """What this run may do, from the agent and the scope of its event."""
    body: JsonObject = {
        "run_id": run_id,
        "runner_id": agent.runner_id,
        "plugin": agent.plugin,
        "workspace": workspace,
        "conversation": conversation,
        "operations": [*sorted(agent.permissions & {"artifacts.write"})],
        "apis": ["host.info"],
        "state": {"enabled": True, "scopes": ["actor", "conversation", "runner", "subject"]},
        "limits": {"deadline_s": agent.deadline_s, "idle_s": agent.idle_s},
    }
    text = canonical_json(body)
    return Grant(body=body, json=text, sha256=sha256_of(text))
