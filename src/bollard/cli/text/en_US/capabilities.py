"""What the command line says in English about what agents can do."""

from typing import Final

__all__ = ["CAPABILITIES"]

CAPABILITIES: Final = {
    "capabilities": "List what the workspace offers to its agents, and say why an agent can or cannot use it.\n\n"
    "Without a command it lists what there is.",
    "capabilities.list": "List what the workspace offers to its agents, and what it cannot offer now.",
    "capabilities.explain": "Say what a run of an agent could call, and why.\n\nWithout a capability: everything that "
    "the agent asks for.",
    "capabilities.agent": "The agent's id.",
    "capabilities.capability": "An id, such as tool:builtin/now, or the name that models see.",
    "capabilities.none": "The workspace offers nothing that an agent could call.",
    "capabilities.none_asked": "Agent {agent} asks for nothing that it could call.",
    "capabilities.column.capability": "Capability",
    "capabilities.column.name": "Models see",
    "capabilities.column.risk": "Risk",
    "capabilities.column.flow": "Flow",
    "capabilities.column.about": "About",
    "capabilities.column.can": "Can",
    "capabilities.column.why": "Why not",
    "capabilities.absent": "not now: {reason}",
    "capabilities.can": "{capability}: can be called as {name}",
    "capabilities.has": "{capability}: there, but not to be called as a tool",
    "capabilities.cannot": "{capability}: cannot be called ({code})",
    "capabilities.graph": "graph {digest}",
    "capabilities.flow.reads_private": "private",
    "capabilities.flow.brings_untrusted": "untrusted",
    "capabilities.flow.sends_out": "out",
    "capabilities.risk.low": "low",
    "capabilities.risk.medium": "medium",
    "capabilities.risk.high": "high",
    "capabilities.risk.critical": "critical",
}
