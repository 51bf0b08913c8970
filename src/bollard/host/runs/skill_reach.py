"""The skills that a live run may use, and whether it may write skills."""

from collections.abc import Mapping

from bollard.host.agents.agent import AgentRegistry
from bollard.host.grants.revocation import granted_things
from bollard.host.runs.live_run import LiveRun
from bollard.host.skills.source import RunSkills


class LiveSkillReach:
    """Skills of the live runs of this host. A run that has ended has none."""

    def __init__(self, live: Mapping[str, LiveRun], agents: AgentRegistry) -> None:
        self._live = live
        self._agents = agents

    def __call__(self, run_id: str) -> RunSkills:
        run = self._live.get(run_id)
        if run is None:
            return RunSkills()
        agent = self._agents.get(run.facts.agent_id, run.facts.workspace)
        return RunSkills(
            granted=granted_things(run.grant, "skills"),
            revoked=run.revoked.resources.get("skills", frozenset[str]()),
            versions={each.id.removeprefix("skill:"): each.version for each in run.session.graph.by_kind("skill")},
            authoring=agent is not None and "skill_authoring" in agent.capabilities,
        )
