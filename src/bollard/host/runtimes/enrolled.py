"""A runtime of another machine, as it is saved: whose key it is, and what its plugin was said yes to. Values only."""

from typing import Annotated, Final

from pydantic import Field

from bollard.host.agents.names import ChosenName
from bollard.host.plugins.description import Asked, Description, permission_names
from bollard.host.plugins.tool_definitions import claims_of, definition_digests
from bollard.protocol import Digest, Flag, InitializeResult, Int, JsonObject, Strict
from bollard.wire import RunnerCatalogue, ToolCatalogue

__all__ = ["VERSION_CHARACTERS", "Consented", "Enrolled", "PluginName", "described_by"]

VERSION_CHARACTERS: Final = 64
"""What is kept of a version that a worker says."""
PluginName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*/[a-z0-9][a-z0-9._-]*$", max_length=129)]
"""`author/name`."""


class Consented(Strict):
    """The code that somebody said yes to, by its digest, and what it may ask for."""

    plugin: str
    version: str
    digest: Digest
    asks: JsonObject
    definitions: dict[str, Digest] = Field(
        default_factory=dict, description="The digests of its tools' definitions. A tool without one is not used."
    )
    by: str
    at_ms: Int = Field(ge=0)

    @property
    def asked(self) -> Asked:
        return Asked.from_wire(self.asks)

    def is_same(self, other: "Consented") -> bool:
        """Whether both are a yes to the same."""
        mine, its = (self.digest, self.asks, self.definitions), (other.digest, other.asks, other.definitions)
        return mine == its


class Enrolled(Strict):
    """One runtime. Its private key never left its machine; this is the public half."""

    name: ChosenName
    public_key: Digest = Field(description="32 bytes, as hex.")
    plugin: PluginName | None = Field(default=None, description="The only plugin that it may bring, where one is said.")
    enabled: Flag = True
    enrolled_by: str
    enrolled_ms: Int = Field(ge=0)
    consented: Consented | None = None


def described_by(introduced: InitializeResult, runners: RunnerCatalogue, tools: ToolCatalogue) -> Description:
    """What a runtime's worker says of its plugin, as the files of an installed one would. The host's environment is
    not within its reach, so it asks for none of it."""
    identity = introduced.plugin
    asked = Asked(
        runners=tuple(
            sorted((each.runner_name, permission_names(each.manifest.permissions)) for each in runners.runners)
        ),
        tools=tuple(sorted((each.name, claims_of(each.risk, each.flow)) for each in tools.tools)),
    )
    return Description(
        author=identity.author,
        name=identity.name,
        version=identity.version[:VERSION_CHARACTERS],
        label={"en_US": identity.name},
        description=None,
        asked=asked,
        definitions=tuple(sorted(definition_digests(tools.tools).items())),
    )
