"""Starts a host for the chaos tests: data directory, port and plugins as arguments. Prints `listening` when it
listens."""

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import cast

import uvicorn
from msgspec.structs import replace

from bollard.confine.order import WorkerDemand
from bollard.host.app import Host
from bollard.host.http.server.server import HttpServer
from bollard.host.limits import HOUSEKEEPING_S
from bollard.host.plugins.placement import Origin
from bollard.host.settings import Settings
from bollard.host.workers.boundary import PluginSource

_DAY_S = 24 * 3600


class ChaosHost(Host):
    """A host that also starts workers by their own command, in any language."""

    def __init__(
        self,
        settings: Settings,
        commands: dict[str, list[str]],
        deadline_s: dict[str, float],
        housekeeping_s: float = HOUSEKEEPING_S,
    ) -> None:
        super().__init__(settings, housekeeping_s=housekeeping_s)
        self._commands = commands
        agents = self._directory.agents
        put = agents.put
        # Agents whose deadline is asked for get it, as if their operator had configured it.
        agents.put = lambda agent: put(replace(agent, deadline_s=deadline_s.get(agent.agent_id, agent.deadline_s)))

    def _sources(self) -> list[tuple[PluginSource, Origin]]:
        named = [
            (PluginSource(name=name, path=Path(argv[-1]), command=(sys.executable, *argv)), "settings")
            for name, argv in self._commands.items()
        ]
        return [*named, *super()._sources()]


class SayingServer(HttpServer):
    capture_signals = uvicorn.Server.capture_signals

    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("listening", flush=True)


def main() -> None:
    options = json.loads(sys.argv[1])
    settings = Settings(
        data=Path(options["data"]),
        database=options["database"],
        plugins=tuple(Path(path) for path in options["plugins"]),
        builtin_plugins=False,
        port=options["port"],
        runs_at_once=options["runs_at_once"],
        grace_s=0.5,
        journal=options["journal"],
        egress_allow=("127.0.0.1",),
        worker_sandbox=cast("WorkerDemand", os.environ["BOLLARD_WORKER_SANDBOX"]),
        retention=tuple((kind, seconds / _DAY_S) for kind, seconds in options["retention_s"].items()),
    )
    host = ChaosHost(settings, options["commands"], options["deadline_s"], options["housekeeping_s"])
    if host.new_token:
        Path(options["data"], "token").write_text(host.new_token)
    sys.exit(asyncio.run(serve(host)))


def _bound(port: int) -> socket.socket:
    """The socket, before anything else is begun: a port that is taken must cost nothing."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    return listener


async def serve(host: Host) -> int:
    """Until a signal arrives, or until the host cannot write any more."""
    listener = _bound(host.settings.port)
    app = await host.start()
    server = SayingServer(app, host.settings, stop_s=5)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    broken = asyncio.create_task(host.broken.wait())
    await asyncio.wait({serving, broken}, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = server.force_exit = True
    await serving
    if host.broken.is_set():
        await host.abandon()
        return 1
    broken.cancel()
    await host.stop()
    return 0


main()
