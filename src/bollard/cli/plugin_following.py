"""The log of a plugin of a host, printed: what is there, and with `--follow` what comes until Ctrl-C."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, cast

from bollard.cli.errors import HostProblem
from bollard.cli.host_client import HostClient, problem_of_failure
from bollard.cli.http_client import BadAnswer, ConnectionLost, Unreachable
from bollard.cli.limits import RECONNECT_WAIT_S
from bollard.cli.plugin_requests import one
from bollard.cli.plugin_text import log_line
from bollard.cli.shell import Shell

__all__ = ["follow_lines", "print_logs"]


async def print_logs(shell: Shell, client: HostClient, plugin_id: str, *, lines: int, follow: bool) -> int:
    """Raises `HostProblem`."""
    path = f"{one(plugin_id)}/logs"
    page = cast("dict[str, Any]", await client.get(f"{path}?limit={lines}"))["items"]
    if shell.for_programs and not follow:
        shell.print_json({"items": page})
        return 0

    def told(line: dict[str, Any]) -> None:
        shell.print(json.dumps(line, ensure_ascii=False) if shell.for_programs else log_line(line))

    for line in page:
        told(line)
    if follow:
        await follow_lines(client, plugin_id, page[-1]["number"] if page else 0, told)
    return 0


async def follow_lines(client: HostClient, plugin_id: str, after: int, told: Callable[[dict[str, Any]], None]) -> None:
    """Tell every line behind a number as it comes. A stream that breaks is picked up; raises when the host refuses."""
    tries = 0
    while True:
        try:
            path = f"{one(plugin_id)}/logs/stream?after={after}"
            async with client.events("GET", path) as (_, events):
                async for event in events:
                    tries = 0
                    line = json.loads(event.data)
                    after = line["number"]
                    told(line)
        except (Unreachable, ConnectionLost):
            after = 0 if tries else after  # a host that was restarted counts anew
        except BadAnswer as error:
            raise problem_of_failure(error) from error
        except HostProblem:
            if tries == 0:
                raise
        await asyncio.sleep(RECONNECT_WAIT_S[min(tries, len(RECONNECT_WAIT_S) - 1)])
        tries += 1
