"""How a connection is opened: the secrets of a server are put in at the last moment, and the folder of a command is
made."""

import asyncio
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

from bollard.host.mcp.limits import START_S
from bollard.host.mcp.servers import McpServer
from bollard.wire import worker_environment
from bollard.wire.bridge_frames import Login, OpenHttp, OpenStdio

__all__ = ["opening", "place"]

_REFERENCE: Final = re.compile(r"(^|\s)secret:([A-Za-z0-9][A-Za-z0-9._-]{0,63})$")
_IN_URL: Final = re.compile(r"(?<==)secret:([A-Za-z0-9][A-Za-z0-9._-]{0,63})(?=&|$)")
_PRIVATE: Final = 0o700


class _Secrets(Protocol):
    async def use_all(self, workspace: str, names: Iterable[str], *, purpose: str, by: str) -> Mapping[str, str]: ...


async def place(server: McpServer, workspace: str, url: str, secrets: _Secrets) -> tuple[str, dict[str, str]]:
    """The address of a server and its headers, filled. Raises `HostError` where a secret cannot be had."""
    known = await _known(server, workspace, [*server.headers.values()], _IN_URL.findall(url), secrets)
    filled = _IN_URL.sub(lambda found: quote(known[found[1]], safe=""), url)
    return filled, {name: _filled(value, known) for name, value in server.headers.items()}


async def opening(
    server: McpServer, workspace: str, *, link: int, secrets: _Secrets, home: Path, login: Login | None = None
) -> OpenStdio | OpenHttp:
    """What the bridge is told. Raises `HostError` where a secret cannot be had, and `OSError`."""
    if server.url is not None:
        url, headers = await place(server, workspace, server.url, secrets)
        return OpenHttp(link=link, url=url, headers=headers, protocol=server.protocol, start_s=START_S, login=login)
    known = await _known(server, workspace, [*server.env.values()], [], secrets)
    values = {name: _filled(value, known) for name, value in server.env.items()}
    folder = home / workspace / server.name
    await asyncio.to_thread(folder.mkdir, _PRIVATE, parents=True, exist_ok=True)
    return OpenStdio(
        link=link,
        command=server.command or "",
        args=list(server.args),
        env={**worker_environment(os.environ), **values},
        cwd=str(folder.resolve()),
        protocol=server.protocol,
        start_s=START_S,
    )


async def _known(
    server: McpServer, workspace: str, given: list[str], more: list[str], secrets: _Secrets
) -> Mapping[str, str]:
    names = [found[2] for found in map(_REFERENCE.search, given) if found is not None] + more
    if not names:
        return {}
    return await secrets.use_all(workspace, names, purpose=f"mcp:{server.name}", by="host")


def _filled(value: str, known: Mapping[str, str]) -> str:
    return _REFERENCE.sub(lambda found: found[1] + known[found[2]], value)
