"""What an agent can set of the local agent. Every field has a default: an agent without a configuration works."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from bollard.sdk.form import FallbackModels, Form, KnowledgeBases, ModelFallback, Prompt, RerankModel, Tools

DEFAULT_MODEL: Final = "default"
"""The id under which a host offers the model that it uses where nobody chose one."""
_PROMPT: Final = "You are a helpful assistant. Answer in the language of the user, briefly and truthfully."


def _form(en: str, zh: str, said_en: str, said_zh: str, **more: Any) -> Form:
    return Form(label={"en_US": en, "zh_Hans": zh}, description={"en_US": said_en, "zh_Hans": said_zh}, **more)


class AgentSettings(BaseModel):
    """The configuration of one agent."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    # --- who it is ---

    prompt: Annotated[
        Prompt,
        Field(max_length=100_000),
        _form(
            "Prompt",
            "提示词",
            "What the agent is told about itself. It stands before every conversation.",
            "告诉智能体它是谁、该怎么做。放在每次对话的最前面。",
        ),
    ] = _PROMPT
    model: Annotated[
        ModelFallback,
        _form(
            "Model",
            "模型",
            "The model that answers, and those that are asked in its place when it cannot.",
            "负责回答的模型，以及它不可用时依次顶替的模型。",
        ),
    ] = FallbackModels(primary=DEFAULT_MODEL)
    temperature: Annotated[
        float | None,
        Field(ge=0, le=2),
        _form("Temperature", "温度", "How freely the model chooses its words.", "模型用词的随意程度。"),
    ] = None
    max_tokens: Annotated[
        int | None,
        Field(ge=1, le=1_000_000),
        _form("Longest answer", "最长回答", "Tokens of one answer at most.", "一次回答最多多少个词元。"),
    ] = None
    streaming: Annotated[
        bool,
        _form(
            "Streaming",
            "流式输出",
            "Whether an answer is shown while the model writes it.",
            "是否在模型书写的同时显示回答。",
        ),
    ] = True
    output_schema: Annotated[
        dict[str, Any] | None,
        _form(
            "Output schema",
            "输出格式",
            "A JSON Schema that every answer must fit. Such an answer is shown when it is whole.",
            "每个回答必须符合的 JSON Schema。这样的回答完整后才显示。",
        ),
    ] = None

    # --- what it can do ---

    tools: Annotated[
        Tools,
        _form(
            "Tools",
            "工具",
            "Tools that this agent asks for. What its policy adds, it has as well.",
            "这个智能体要用的工具。策略里另外加的它也能用。",
        ),
    ] = ()
    tool_choice: Annotated[
        Literal["auto", "none", "required"],
        _form(
            "Tool choice",
            "工具选择",
            "Whether the model decides, must call no tool, or must begin with one.",
            "由模型决定、不许调用工具，或必须先调用工具。",
            options={
                "auto": {"en_US": "The model decides", "zh_Hans": "由模型决定"},
                "none": {"en_US": "No tools", "zh_Hans": "不用工具"},
                "required": {"en_US": "Begin with a tool", "zh_Hans": "先用工具"},
            },
        ),
    ] = "auto"
    only_tools: Annotated[
        tuple[str, ...],
        Field(max_length=128),
        _form(
            "Only these tools",
            "只用这些工具",
            "Where it is not empty, no other tool is offered to the model. Names as the model sees them.",
            "不为空时，只把这些工具提供给模型。名称以模型看到的为准。",
        ),
    ] = ()
    parallel_tools: Annotated[
        int,
        Field(ge=1, le=16),
        _form(
            "Tools at once",
            "同时调用工具数",
            "How many calls of one answer run at the same time.",
            "同一个回答里的调用最多同时执行多少个。",
        ),
    ] = 8
    tool_timeout_s: Annotated[
        float | None,
        Field(gt=0, le=3600),
        _form(
            "Tool time-out",
            "工具超时",
            "Seconds after which a call is given up, with the time that a person takes to allow it. Without it the "
            "host's own limit of each tool counts, which begins when it was allowed.",
            "调用超过这么多秒就放弃，包括等人批准的时间。不填则按主机给每个工具的时限，从批准后算起。",
        ),
    ] = None
    tool_timeouts: Annotated[
        dict[str, Annotated[float, Field(gt=0, le=3600)]],
        Field(max_length=128),
        _form(
            "Time-outs by tool",
            "各工具超时",
            'The same for single tools: {"search": 10}.',
            '单独为某些工具设的秒数：{"search": 10}。',
        ),
    ] = {}
    tool_result_characters: Annotated[
        int,
        Field(ge=200, le=200_000),
        _form(
            "Longest tool answer",
            "最长工具回答",
            "Characters of one tool's answer that the model reads. The middle of a longer one is left out.",
            "模型最多读工具回答的多少个字符。更长的省去中间部分。",
        ),
    ] = 20_000

    # --- what it knows ---

    knowledge_bases: Annotated[
        KnowledgeBases,
        _form("Knowledge bases", "知识库", "Where the agent looks before it answers.", "智能体回答之前先查的知识库。"),
    ] = ()
    rerank_model: Annotated[
        RerankModel,
        _form(
            "Rerank model",
            "重排模型",
            "Sorts what the knowledge bases found; without one their own order stands.",
            "给知识库找到的内容排序；不选则用知识库自己的顺序。",
        ),
    ] = None
    retrieval_top_k: Annotated[
        int,
        Field(ge=1, le=20),
        _form("Sources", "来源数量", "Pieces of knowledge for one answer.", "一次回答用多少段知识。"),
    ] = 5

    # --- how far it goes ---

    max_steps: Annotated[
        int,
        Field(ge=1, le=200),
        _form(
            "Steps",
            "步数",
            "Answers of a model in one run at most, with the summaries that it makes.",
            "一次运行里模型最多回答多少次，包括做摘要。",
        ),
    ] = 24
    max_tool_calls: Annotated[
        int,
        Field(ge=0, le=1000),
        _form("Tool calls", "工具调用次数", "Calls of tools in one run at most.", "一次运行里最多调用工具多少次。"),
    ] = 64
    max_cost: Annotated[
        float | None,
        Field(gt=0),
        _form(
            "Cost",
            "费用",
            "What the model calls of one run may cost, summaries among them, in the currency of the models' prices.",
            "一次运行的模型费用上限，包括做摘要，币种与模型价格相同。",
        ),
    ] = None
    steering: Annotated[
        Literal["all", "one-at-a-time", "off"],
        _form(
            "Messages during a run",
            "运行中的消息",
            "Whether messages that come while it works are taken up together, one by one, or not at all.",
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
            "压缩对话",
            "Whether long conversations are summarised when they no longer fit.",
            "长对话放不下时是否做摘要。",
        ),
    ] = True
    compaction_at: Annotated[
        float,
        Field(gt=0.2, le=1),
        _form(
            "Compact at",
            "压缩时机",
            "The share of the token budget at which the older part is summarised.",
            "用到词元预算的多大比例时压缩较早的部分。",
            show_if={"compaction": True},
        ),
    ] = 0.8
    compaction_keep: Annotated[
        float,
        Field(gt=0.05, le=0.9),
        _form(
            "Keep",
            "保留",
            "The share of the token budget that the newest messages keep as they were said.",
            "最新消息原样保留，占词元预算的比例。",
            show_if={"compaction": True},
        ),
    ] = 0.3
    context_window: Annotated[
        int,
        Field(ge=1024, le=10_000_000),
        _form(
            "Assumed context",
            "默认上下文",
            "Tokens that a model takes whose context window is not known.",
            "模型的上下文窗口未知时按这么多词元计算。",
        ),
    ] = 8192

    @property
    def models(self) -> tuple[str, ...]:
        """The models in the order in which they are asked, each once."""
        chosen = self.model or FallbackModels()
        named = (chosen.primary, *chosen.fallbacks)
        return tuple(dict.fromkeys(each for each in named if each)) or (DEFAULT_MODEL,)
