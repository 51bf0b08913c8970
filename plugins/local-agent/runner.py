"""The runner of the plugin: the agent of the SDK as it is."""

from bollard.sdk import runner
from bollard.sdk.agent import CAPABILITIES, PERMISSIONS, Agent


@runner(
    name="default",
    label={"en_US": "Local agent", "zh_Hans": "本地智能体"},
    description={
        "en_US": "Answers with a model, calls tools, looks things up, and remembers long conversations.",
        "zh_Hans": "用模型回答，能调用工具、检索知识库，并压缩过长的会话。",
    },
    capabilities=CAPABILITIES,
    permissions=PERMISSIONS,
)
class Assistant(Agent):
    """The local agent."""
