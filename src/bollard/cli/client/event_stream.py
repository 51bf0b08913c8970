"""Follows the events of a workspace until Ctrl-C. A broken stream resumes after the last event."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

from bollard.cli.client.host_client import HostClient, problem_of_failure
from bollard.cli.client.http_client import BadAnswer, ConnectionLost, Unreachable
from bollard.cli.errors import HostProblem
from bollard.cli.limits import RECONNECT_WAIT_S


async def follow_events(
    client: HostClient, query: Mapping[str, str], on_event: Callable[[dict[str, Any]], None]
) -> None:
    """Call `on_event` with each event and each `gap`. Raises `HostProblem` if the host refuses at first."""
    path = f"/api/v1/events/stream?{urlencode(query)}" if query else "/api/v1/events/stream"
    last: str | None = None
    tries, reached = 0, False
    while True:
        try:
            async with client.events("GET", path, last_id=last) as (_, events):
                reached, tries = True, 0
                async for event in events:
                    last = event.id or last
                    on_event(json.loads(event.data))
        except (Unreachable, ConnectionLost) as error:
            if not reached:
                raise problem_of_failure(error) from error
        except BadAnswer as error:
            raise problem_of_failure(error) from error
        except HostProblem:
            if not reached:
                raise
        await asyncio.sleep(RECONNECT_WAIT_S[min(tries, len(RECONNECT_WAIT_S) - 1)])
        tries += 1
