"""`AgentSettings`: the settings of an `Agent`, which are also the form of its runner. Every field has a default."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from bollard.sdk.form import FallbackModels, Form, KnowledgeBases, ModelFallback, Prompt, RerankModel, Tools

DEFAULT_MODEL: Final = "default"
"""The id of the default model of a host."""
_PROMPT: Final = "You are a helpful assistant. Answer in the language of the user, briefly and truthfully."


def _form(en: str, zh: str, about_en: str, about_zh: str, **more: Any) -> Form:
    return Form(label={"en_US": en, "zh_Hans": zh}, description={"en_US": about_en, "zh_Hans": about_zh}, **more)


class AgentSettings(BaseModel):
    """The settings of one agent. As the configuration model of a runner they are its form, in English and Chinese.

        class Settings(AgentSettings):
            prompt: Prompt = "You help people who write."
            tools: Tools = ("count_words",)

    A field that overrides one keeps its label and description.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    # --- who it is ---

    prompt: Annotated[
        Prompt,
        Field(max_length=100_000),
        _form(
            "Prompt",
            "提示词",
            "The system prompt. It precedes every conversation.",
            "系统提示词，放在每个会话的最前面。",
        ),
    ] = _PROMPT
    model: Annotated[
        ModelFallback,
        _form(
            "Model",
            "模型",
            "The model that answers, and its fallbacks, in order.",
            "负责回答的模型，以及它不可用时依次使用的备用模型。",
        ),
    ] = FallbackModels(primary=DEFAULT_MODEL)
    temperature: Annotated[
        float | None,
        Field(ge=0, le=2),
        _form("Temperature", "温度", "The sampling temperature of the model.", "模型的采样温度。"),
    ] = None
    max_tokens: Annotated[
        int | None,
        Field(ge=1, le=1_000_000),
        _form("Longest answer", "最长回答", "The maximum number of tokens of one answer.", "一次回答的 token 数上限。"),
    ] = None
    streaming: Annotated[
        bool, _form("Streaming", "流式输出", "Show an answer while the model writes it.", "在模型生成的同时显示回答。")
    ] = True
    output_schema: Annotated[
        dict[str, Any] | None,
        _form(
            "Output schema",
            "输出格式",
            "A JSON Schema for every answer. The answer is shown when it is complete.",
            "每个回答必须符合的 JSON Schema。回答完整后才显示。",
        ),
    ] = None

    # --- what it can do ---

    tools: Annotated[
        Tools,
        _form(
            "Tools",
            "工具",
            "The tools of this agent, in addition to those of its policy.",
            "这个智能体使用的工具。策略中添加的工具也可用。",
        ),
    ] = ()
    tool_choice: Annotated[
        Literal["auto", "none", "required"],
        _form(
            "Tool choice",
            "工具选择",
            "Whether the model decides, calls no tools, or starts with a tool call.",
            "由模型决定、不调用工具，或先调用一个工具。",
            options={
                "auto": {"en_US": "The model decides", "zh_Hans": "由模型决定"},
                "none": {"en_US": "No tools", "zh_Hans": "不用工具"},
                "required": {"en_US": "Begin with a tool", "zh_Hans": "先用工具"},
            },
        ),
    ] = "auto"
    platform_actions: Annotated[
        bool,
        _form(
            "Platform actions",
            "平台操作",
            "Offer the granted platform actions of channels to the model as tools, such as reactions and pins.",
            "把已授权的渠道平台操作作为工具提供给模型，例如回应表情、置顶消息。",
        ),
    ] = False
    only_tools: Annotated[
        tuple[str, ...],
        Field(max_length=128),
        _form(
            "Only these tools",
            "只用这些工具",
            "If not empty, the model gets only these tools. Names as the model sees them.",
            "不为空时，只向模型提供这些工具。名称以模型看到的为准。",
        ),
    ] = ()
    parallel_tools: Annotated[
        int,
        Field(ge=1, le=16),
        _form(
            "Tools at once",
            "同时调用工具数",
            "The number of tool calls of one answer that run in parallel.",
            "同一个回答中可并行执行的工具调用数。",
        ),
    ] = 8
    tool_timeout_s: Annotated[
        float | None,
        Field(gt=0, le=3600),
        _form(
            "Tool time-out",
            "工具超时",
            "The timeout of a tool call in seconds, including the time for an approval. Without it the host's timeout "
            "of each tool applies, which starts after the approval.",
            "工具调用的超时秒数，包括等待审批的时间。不填则使用主机为每个工具设定的时限，从允许后算起。",
        ),
    ] = None
    tool_timeouts: Annotated[
        dict[str, Annotated[float, Field(gt=0, le=3600)]],
        Field(max_length=128),
        _form(
            "Time-outs by tool",
            "各工具超时",
            'The same for single tools: {"search": 10}.',
            '为个别工具设置的时限（秒）：{"search": 10}。',
        ),
    ] = {}
    tool_result_characters: Annotated[
        int,
        Field(ge=200, le=200_000),
        _form(
            "Longest tool answer",
            "最长工具结果",
            "The maximum number of characters of a tool result for the model. The middle of a longer result is left "
            "out.",
            "模型读取的工具结果的最大字符数。更长的结果省略中间部分。",
        ),
    ] = 20_000

    # --- what it knows ---

    knowledge_bases: Annotated[
        KnowledgeBases,
        _form(
            "Knowledge bases",
            "知识库",
            "The knowledge bases that the agent queries before it answers.",
            "智能体回答之前查询的知识库。",
        ),
    ] = ()
    rerank_model: Annotated[
        RerankModel,
        _form(
            "Rerank model",
            "重排序模型",
            "Sorts the passages of the knowledge bases. Without it, their own order applies.",
            "对知识库返回的段落重新排序；不选则使用知识库自己的顺序。",
        ),
    ] = None
    retrieval_top_k: Annotated[
        int,
        Field(ge=1, le=20),
        _form("Sources", "来源数量", "The number of passages for one answer.", "一次回答使用的段落数。"),
    ] = 5

    # --- how far it goes ---

    max_steps: Annotated[
        int,
        Field(ge=1, le=200),
        _form(
            "Steps",
            "步数",
            "The maximum number of model answers in one run, including summaries.",
            "一次运行中模型回答的最大次数，包括摘要。",
        ),
    ] = 24
    max_tool_calls: Annotated[
        int,
        Field(ge=0, le=1000),
        _form(
            "Tool calls",
            "工具调用次数",
            "The maximum number of tool calls in one run.",
            "一次运行中工具调用的最大次数。",
        ),
    ] = 64
    max_cost: Annotated[
        float | None,
        Field(gt=0),
        _form(
            "Cost",
            "费用",
            "The maximum cost of the model calls of one run, including summaries, in the currency of the models' "
            "prices.",
            "一次运行的模型费用上限，包括做摘要，币种与模型价格相同。",
        ),
    ] = None
    steering: Annotated[
        Literal["all", "one-at-a-time", "off"],
        _form(
            "Messages during a run",
            "运行中的消息",
            "Whether messages during a run are read together, one by one, or not at all.",
            "工作期间收到的消息：一起处理、逐条处理，或不处理。",
            options={
                "all": {"en_US": "Together", "zh_Hans": "一起"},
                "one-at-a-time": {"en_US": "One by one", "zh_Hans": "逐条"},
                "off": {"en_US": "Not at all", "zh_Hans": "不处理"},
            },
        ),
    ] = "all"

    # --- what it remembers ---

    compaction: Annotated[
        bool,
        _form(
            "Compaction",
            "压缩会话",
            "Summarise long conversations that no longer fit into the context window.",
            "会话超出上下文窗口时生成摘要。",
        ),
    ] = True
    compaction_at: Annotated[
        float,
        Field(gt=0.2, le=1),
        _form(
            "Compact at",
            "压缩时机",
            "The share of the token budget at which older messages are summarised.",
            "达到 token 预算的这一比例时，压缩较早的消息。",
            show_if={"compaction": True},
        ),
    ] = 0.8
    compaction_keep: Annotated[
        float,
        Field(gt=0.05, le=0.9),
        _form(
            "Keep",
            "保留",
            "The share of the token budget for the newest messages, which stay verbatim.",
            "原样保留的最新消息所占 token 预算的比例。",
            show_if={"compaction": True},
        ),
    ] = 0.3
    context_window: Annotated[
        int,
        Field(ge=1024, le=10_000_000),
        _form(
            "Assumed context",
            "默认上下文",
            "The context window in tokens of a model without a known one.",
            "模型的上下文窗口未知时使用的 token 数。",
        ),
    ] = 8192

    @property
    def models(self) -> tuple[str, ...]:
        """The models in the order of the fallbacks, each once."""
        chosen = self.model or FallbackModels()
        named = (chosen.primary, *chosen.fallbacks)
        return tuple(dict.fromkeys(each for each in named if each)) or (DEFAULT_MODEL,)
