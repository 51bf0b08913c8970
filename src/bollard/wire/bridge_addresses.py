"""Which addresses are reached for an MCP server: those that people save, and those that a server names. Pure.

What a person with the right to it saves is reached as it stands (docs/decisions/0060). What a server names, such as its
authorization server, is a stranger's word: the same holds for it, and it leads into the own network only where the
server itself is there.
"""

from typing import Final
from urllib.parse import urlsplit

from bollard.wire.addresses import AddressKind, number_of, url_problem

__all__ = ["address_problem", "named_address_problem"]

_SERVER: Final = AddressKind(
    of="server", example="https://mcp.example.org/mcp", has_query=True, instead="use headers with secret:NAME"
)


def address_problem(url: str) -> tuple[str, str] | None:
    """What is wrong with an address, and what to do; nothing where it may be reached."""
    return url_problem(url, _SERVER)


def named_address_problem(url: str, server: str) -> str | None:
    """What is wrong with an address that a server at the address `server` names."""
    if (problem := address_problem(url)) is not None:
        return problem[0]
    if _is_own(url) and not _is_own(server):
        return "is in the own network, and the server that names it is not"
    return None


def _is_own(url: str) -> bool:
    """Whether it says itself that it is of this machine or this network."""
    host = urlsplit(url).hostname or ""
    number = number_of(host)
    if number is None:
        return host == "localhost" or host.endswith(".localhost")
    return not number.is_global
