"""Everything of one kind that a host has, as the commands list it."""

import asyncio
import os
from typing import Any

from bollard.cli.documents import DocumentKind
from bollard.cli.host_client import find_host
from bollard.cli.shell import Shell

__all__ = ["listed"]


def listed(
    shell: Shell, kind: DocumentKind, url: str | None, token: str | None, *, none: str | None = None
) -> list[dict[str, Any]]:
    """What is left to be drawn. Programs have got all of it; where there is nothing, people are told `none`.

    Raises `CliError`.
    """
    items = asyncio.run(kind.all(find_host(url, token, os.environ)))
    if shell.for_programs:
        shell.print_json({"items": items})
        return []
    if not items and none is not None:
        shell.print(shell.text(none))
    return items
