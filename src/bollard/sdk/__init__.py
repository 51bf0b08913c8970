"""The SDK for authors of runners and tools.

    from bollard.sdk import RunContext, runner

    @runner(label="Echo")
    async def echo(ctx: RunContext):
        yield ctx.delta(f"you said: {ctx.input.text}")

The offline harness is `bollard.sdk.testing`, and clients for the network are `bollard.sdk.http` and
`bollard.sdk.websocket`; nothing here imports them.
"""

from bollard.protocol import (
    AgentAPIError,
    AgentInput,
    AgentRunContext,
    ArtifactContent,
    ArtifactRef,
    ContentElement,
    FileBase64Content,
    FileUrlContent,
    FunctionCall,
    FunctionTool,
    FunctionToolSpec,
    ImageBase64Content,
    ImageUrl,
    ImageUrlContent,
    JsonObject,
    JsonValue,
    Message,
    MessageChunk,
    TextContent,
    ToolAnswer,
    ToolCall,
    ToolCallContext,
    ToolResult,
    Usage,
)
from bollard.sdk.api import RunApi
from bollard.sdk.api_stores import content_of
from bollard.sdk.calls import ApiCaller
from bollard.sdk.context import LogSink, RunContext
from bollard.sdk.declaration import RunnerDeclaration, declaration_of, runner
from bollard.sdk.errors import (
    AgentAPIException,
    BadYield,
    ConfigError,
    DeclarationError,
    InvalidResult,
    ResultTooLarge,
    SdkError,
)
from bollard.sdk.form import (
    Display,
    EmbeddingModel,
    FallbackModels,
    File,
    Files,
    Form,
    KnowledgeBases,
    ModelFallback,
    ModelSelector,
    Outpost,
    Prompt,
    RerankModel,
    Text,
    Tools,
    form_of,
    parse_config,
)
from bollard.sdk.results import Result
from bollard.sdk.run_driver import Outlet, RunnerObject, drive
from bollard.sdk.tool import ToolContext, ToolDeclaration, tool, tool_declaration_of

__all__ = [
    "AgentAPIError",
    "AgentAPIException",
    "AgentInput",
    "AgentRunContext",
    "ApiCaller",
    "ArtifactContent",
    "ArtifactRef",
    "BadYield",
    "ConfigError",
    "ContentElement",
    "DeclarationError",
    "Display",
    "EmbeddingModel",
    "FallbackModels",
    "File",
    "FileBase64Content",
    "FileUrlContent",
    "Files",
    "Form",
    "FunctionCall",
    "FunctionTool",
    "FunctionToolSpec",
    "ImageBase64Content",
    "ImageUrl",
    "ImageUrlContent",
    "InvalidResult",
    "JsonObject",
    "JsonValue",
    "KnowledgeBases",
    "LogSink",
    "Message",
    "MessageChunk",
    "ModelFallback",
    "ModelSelector",
    "Outlet",
    "Outpost",
    "Prompt",
    "RerankModel",
    "Result",
    "ResultTooLarge",
    "RunApi",
    "RunContext",
    "RunnerDeclaration",
    "RunnerObject",
    "SdkError",
    "Text",
    "TextContent",
    "ToolAnswer",
    "ToolCall",
    "ToolCallContext",
    "ToolContext",
    "ToolDeclaration",
    "ToolResult",
    "Tools",
    "Usage",
    "content_of",
    "declaration_of",
    "drive",
    "form_of",
    "parse_config",
    "runner",
    "tool",
    "tool_declaration_of",
]
