"""The access to the network, files, memory and processors that a plugin's workers need beyond nothing (§2)."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from bollard.protocol import limits
from bollard.protocol.shape import Int, JsonValue, Number, Strict

__all__ = ["NetworkName", "PluginSandbox", "SandboxPath"]

_LABEL: Final = "[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME_CHARACTERS: Final = 253 + len("*.") + len(":65535")
_PORT_MAX: Final = 65535


def _check_name(name: str) -> str:
    host, _, port = name.partition(":")
    if port and int(port) > _PORT_MAX:
        raise PydanticCustomError("network_port", "the port is larger than {most}", {"most": _PORT_MAX})
    if host.startswith("*.") and host.count(".") < 2:
        raise PydanticCustomError("network_wildcard", "a wildcard needs two labels after it, as in *.example.org")
    return name


NetworkName = Annotated[
    str,
    Field(
        pattern=rf"^(\*\.)?{_LABEL}(\.{_LABEL})*(:[1-9][0-9]{{0,4}})?$",
        max_length=_NAME_CHARACTERS,
        description="A lower-case host name, or *.NAME for the names below it, and a port; otherwise ports 80 and 443.",
    ),
    AfterValidator(_check_name),
]


def _check_path(path: str) -> str:
    parts = path.split("/")[1:]
    if any(part in ("", ".", "..") for part in parts):
        raise PydanticCustomError("sandbox_path", "the path is not a plain absolute path below /")
    return path


SandboxPath = Annotated[
    str,
    Field(
        pattern=r"^/[^\x00-\x1f\x7f]+$",
        max_length=limits.SANDBOX_PATH_CHARACTERS,
        description="An absolute path without . and .., below a root that the operator allows.",
    ),
    AfterValidator(_check_path),
]
_Paths = Annotated[tuple[SandboxPath, ...], Field(max_length=limits.SANDBOX_PATHS)]
_Names = Annotated[tuple[NetworkName, ...], Field(min_length=1, max_length=limits.SANDBOX_NAMES)]


def _network_tag(value: JsonValue | tuple[str, ...]) -> str:
    return "names" if isinstance(value, list | tuple | Mapping) else "mode"


class PluginSandbox(Strict):
    """What a plugin's workers need beyond nothing. An empty one needs nothing."""

    network: Annotated[
        Annotated[Literal["none", "open"], Tag("mode")] | Annotated[_Names, Tag("names")], Discriminator(_network_tag)
    ] = Field(default="none", description="none, a list of names, or open.")
    read: _Paths = Field(default=(), description="Files and folders that the workers may read.")
    write: _Paths = Field(default=(), description="Files and folders that the workers may read and write.")
    memory_mib: Int | None = Field(
        default=None, ge=16, le=limits.SANDBOX_MEMORY_MIB, description="Memory of one worker. Absent: the host decides."
    )
    cpu: Number | None = Field(
        default=None, ge=0.05, le=limits.SANDBOX_CPUS, description="Processors of one worker. Absent: the host decides."
    )
