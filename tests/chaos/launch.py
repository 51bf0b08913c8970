"""Starts a host for the chaos tests: data directory, port and plugins as arguments. Says `listening` when it does."""

import asyncio
import json
import sys
from dataclasses import replace
from pathlib import Path

import uvicorn

from bollard.host.app import Host
from bollard.host.settings import Settings
from bollard.host.workers.plugin import PluginSource
from bollard.host.workers.pool import PluginPool
from bollard.wire import RunnerCatalogue


class ChaosHost(Host):
    """A host that also starts workers by their own command, whatever language they speak the channel in."""

    def __init__(self, settings: Settings, commands: dict[str, list[str]], deadline_s: dict[str, float]) -> None:
        super().__init__(settings)
        self._commands = commands
        self._deadline_s = deadline_s

    def _sources(self) -> list[PluginSource]:
        named = [
            PluginSource(name=name, path=Path(argv[-1]), command=(sys.executable, *argv))
            for name, argv in self._commands.items()
        ]
        return [*named, *super()._sources()]

    def _discovered(self, pool: PluginPool, catalogue: RunnerCatalogue) -> None:
        """Agents whose deadline is asked for get it, as if their operator had configured it."""
        super()._discovered(pool, catalogue)
        for agent in self._agents.all():
            if agent.agent_id in self._deadline_s:
                self._agents.put(replace(agent, deadline_s=self._deadline_s[agent.agent_id]))


class SayingServer(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("listening", flush=True)


def main() -> None:
    options = json.loads(sys.argv[1])
    settings = Settings(
        data=Path(options["data"]),
        plugins=tuple(Path(path) for path in options["plugins"]),
        builtin_plugins=False,
        port=options["port"],
        runs_at_once=options["runs_at_once"],
        grace_s=0.5,
    )
    host = ChaosHost(settings, options["commands"], options["deadline_s"])
    if host.new_token:
        Path(options["data"], "token").write_text(host.new_token)
    sys.exit(asyncio.run(serve(host)))


async def serve(host: Host) -> int:
    """Until a signal comes, or until the host cannot write any more."""
    app = await host.start()
    server = SayingServer(uvicorn.Config(app, port=host.settings.port, log_level="warning", access_log=False))
    serving, broken = asyncio.create_task(server.serve()), asyncio.create_task(host.broken.wait())
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
