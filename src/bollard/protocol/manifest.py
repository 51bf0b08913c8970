"""The manifest of a runner, with the most it may ever be granted, and of a plugin, `manifest.yaml` (§2)."""

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from bollard.protocol import limits
from bollard.protocol.form import FormItem
from bollard.protocol.sandbox import PluginSandbox
from bollard.protocol.shape import Flag, JsonObject, Localized, Strict

__all__ = [
    "DEFAULT_LOCALE",
    "AgentRunnerCapabilities",
    "AgentRunnerDiscovery",
    "AgentRunnerManifest",
    "AgentRunnerPermissions",
    "Effects",
    "FlowBits",
    "Name",
    "PluginManifest",
    "PluginMetadata",
    "PluginRunner",
    "PluginSpec",
    "PluginTool",
    "Risk",
    "RunnerList",
    "runner_id",
]

DEFAULT_LOCALE: Final = "en_US"

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=limits.NAME_CHARACTERS)]
"""An author, plugin, runner or tool name: lower-case ASCII, so that no two of them look alike."""


def _has_default_locale(text: dict[str, str]) -> dict[str, str]:
    if not text.get(DEFAULT_LOCALE, "").strip():
        raise PydanticCustomError("no_default_text", "needs a text for {locale}", {"locale": DEFAULT_LOCALE})
    return text


Label = Annotated[Localized, AfterValidator(_has_default_locale)]


def runner_id(author: str, plugin: str, runner: str) -> str:
    """The id of a runner, computed by the host and never believed."""
    return f"plugin:{author}/{plugin}/{runner}"


class AgentRunnerCapabilities(Strict):
    """What a runner can do. Grants nothing."""

    streaming: Flag = False
    tool_calling: Flag = False
    knowledge_retrieval: Flag = False
    multimodal_input: Flag = False
    skill_authoring: Flag = False
    interrupt: Flag = False
    steering: Flag = False


class AgentRunnerPermissions(Strict):
    """The most a runner may ever be granted. Empty means nothing."""

    models: tuple[Literal["invoke", "stream", "rerank", "embed"], ...] = ()
    tools: tuple[Literal["detail", "call"], ...] = ()
    knowledge_bases: tuple[Literal["list", "retrieve"], ...] = ()
    history: tuple[Literal["page", "search"], ...] = ()
    events: tuple[Literal["get", "page"], ...] = ()
    artifacts: tuple[Literal["metadata", "read", "write"], ...] = ()
    storage: tuple[Literal["plugin", "workspace"], ...] = ()
    files: tuple[Literal["config", "knowledge"], ...] = ()
    agents: tuple[Literal["call"], ...] = ()
    platform: tuple[Literal["request"], ...] = ()


class AgentRunnerManifest(Strict):
    """One runner, as its plugin describes it."""

    id: str = Field(description="plugin:author/name/runner; the host computes it and rejects a mismatch.")
    name: Name
    label: Label
    description: Localized | None = None
    capabilities: AgentRunnerCapabilities = Field(default_factory=AgentRunnerCapabilities)
    permissions: AgentRunnerPermissions = Field(default_factory=AgentRunnerPermissions)
    config_schema: tuple[FormItem, ...] = Field(default=(), max_length=limits.FORM_ITEMS)
    metadata: JsonObject = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [item.name for item in self.config_schema]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise PydanticCustomError("fields_twice", "config_schema names {names} twice", {"names": ", ".join(twice)})
        return self


class AgentRunnerDiscovery(Strict):
    """One entry of `runners/list`."""

    plugin_author: Name
    plugin_name: Name
    runner_name: Name
    plugin_version: str | None = None
    manifest: AgentRunnerManifest

    @model_validator(mode="after")
    def _id_is_the_computed_one(self) -> Self:
        expected = runner_id(self.plugin_author, self.plugin_name, self.runner_name)
        if self.manifest.id != expected:
            raise ValueError(f"manifest.id is {self.manifest.id!r}, but this runner's id is {expected!r}")
        if self.manifest.name != self.runner_name:
            raise ValueError(f"manifest.name is {self.manifest.name!r}, but runner_name is {self.runner_name!r}")
        return self


class RunnerList(Strict):
    """The answer to `runners/list`. A host validates each entry on its own, so that one bad runner hides no other."""

    runners: tuple[AgentRunnerDiscovery, ...]


Risk = Literal["low", "medium", "high", "critical"]
Effects = Literal["none", "idempotent", "at_most_once"]
Entry = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$",
        description="module:attr inside the plugin's folder. Absent in a plugin with spec.command.",
    ),
]
_CommandWord = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+$", max_length=limits.COMMAND_WORD_CHARACTERS)]


def _check_program(command: tuple[str, ...]) -> tuple[str, ...]:
    if command[0].startswith("/") or ".." in command[0].split("/"):
        raise PydanticCustomError(
            "program_outside", "the program is neither a name on the PATH nor a path inside the plugin's folder"
        )
    return command


Command = Annotated[
    tuple[_CommandWord, ...], Field(min_length=1, max_length=limits.COMMAND_WORDS), AfterValidator(_check_program)
]
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)]


class FlowBits(Strict):
    """What touching a tool means for the flow of data. Unknown means all three; the host decides."""

    reads_private: Flag = True
    brings_untrusted: Flag = True
    sends_out: Flag = True


class PluginMetadata(Strict):
    """Who made the plugin and what it is called."""

    author: Name
    name: Name
    version: str = Field(pattern=r"^[0-9]+(\.[0-9]+)*([.+-]?[A-Za-z0-9]+)*$", max_length=64)
    label: Label
    description: Localized | None = None
    repository: str | None = None


class PluginRunner(Strict):
    """One runner of the plugin and where its code is."""

    name: Name
    label: Label
    description: Localized | None = None
    capabilities: AgentRunnerCapabilities = Field(default_factory=AgentRunnerCapabilities)
    permissions: AgentRunnerPermissions = Field(default_factory=AgentRunnerPermissions)
    config_schema: tuple[FormItem, ...] = Field(default=(), max_length=limits.FORM_ITEMS)
    entry: Entry | None = None


class PluginTool(Strict):
    """One tool that the plugin offers next to its runners."""

    name: Name
    description: str = Field(min_length=1, max_length=limits.TEXT_CHARACTERS)
    entry: Entry | None = None
    risk: Risk | None = None
    flow: FlowBits | None = None


class PluginSpec(Strict):
    """What the plugin offers and needs."""

    runners: tuple[PluginRunner, ...] = Field(default=(), max_length=limits.RUNNERS_PER_PLUGIN)
    tools: tuple[PluginTool, ...] = Field(default=(), max_length=limits.TOOLS_PER_PLUGIN)
    env: tuple[EnvName, ...] = Field(default=(), description="Environment variables the worker may see, by name.")
    python: str | None = Field(default=None, description="Version specifier of the Python it needs, as in >=3.11.")
    command: Command | None = Field(
        default=None,
        description="The program that is the worker, and its arguments. The Python runtime where it is absent.",
    )
    sandbox: PluginSandbox | None = Field(default=None, description="What its workers need beyond nothing.")

    def entry_problem(self, entry: str | None) -> str | None:
        """Why the `entry` of a runner or tool does not fit this plugin; `None` if it does."""
        if self.command is None:
            return "Field required" if entry is None else None
        return None if entry is None else "the worker of spec.command has no entries"


class PluginManifest(Strict):
    """The whole file."""

    apiVersion: Literal["bollard/v1"]  # noqa: N815 -- the file's own spelling
    kind: Literal["Plugin"]
    metadata: PluginMetadata
    spec: PluginSpec
