"""The plugin manifest, `manifest.yaml` (§2)."""

from typing import Annotated, Literal

from pydantic import Field

from bollard.protocol import limits
from bollard.protocol.form import FormItem
from bollard.protocol.manifest import AgentRunnerCapabilities, AgentRunnerPermissions, Label, Name
from bollard.protocol.shape import Flag, Localized, Strict

__all__ = [
    "Effects",
    "FlowBits",
    "PluginManifest",
    "PluginMetadata",
    "PluginRunner",
    "PluginSpec",
    "PluginTool",
    "Risk",
]

Risk = Literal["low", "medium", "high", "critical"]
Effects = Literal["none", "idempotent", "at_most_once"]
Entry = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$",
        description="module:attr inside the plugin's folder.",
    ),
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
    entry: Entry


class PluginTool(Strict):
    """One tool that the plugin offers next to its runners."""

    name: Name
    description: str = Field(min_length=1, max_length=limits.TEXT_CHARACTERS)
    entry: Entry
    risk: Risk | None = None
    flow: FlowBits | None = None


class PluginSpec(Strict):
    """What the plugin offers and needs."""

    runners: tuple[PluginRunner, ...] = Field(default=(), max_length=limits.RUNNERS_PER_PLUGIN)
    tools: tuple[PluginTool, ...] = Field(default=(), max_length=limits.TOOLS_PER_PLUGIN)
    env: tuple[EnvName, ...] = Field(default=(), description="Environment variables the worker may see, by name.")
    python: str | None = Field(default=None, description="Version specifier of the Python it needs, as in >=3.11.")


class PluginManifest(Strict):
    """The whole file."""

    apiVersion: Literal["bollard/v1"]  # noqa: N815 -- the file's own spelling
    kind: Literal["Plugin"]
    metadata: PluginMetadata
    spec: PluginSpec
