"""The runner of the plugin. What it does is in `local_agent`."""

from bollard.sdk import runner
from local_agent import CAPABILITIES, PERMISSIONS, LocalAgent

__all__ = ["Assistant"]


@runner(
    name="default",
    label={"en_US": "Local agent", "zh_Hans": "本地智能体"},
    description={
        "en_US": "Answers with a model, calls tools, looks things up, and remembers long conversations.",
        "zh_Hans": "用模型回答，会调用工具、查资料，记得住长对话。",
    },
    capabilities=CAPABILITIES,
    permissions=PERMISSIONS,
)
class Assistant(LocalAgent):
    """The local agent as it is."""
