"""Starts a host for the chaos tests: data directory, port and plugins as arguments. Says `listening` when it does."""

import asyncio
import json
import sys
from pathlib import Path

import uvicorn

from bollard.host.app import Host
from bollard.host.settings import Settings
from bollard.host.workers.plugin import PluginSource


class ChaosHost(Host):
    """A host that also starts workers by their own command, whatever language they speak the channel in."""

    def __init__(self, settings: Settings, commands: dict[str, list[str]]) -> None:
        super().__init__(settings)
        self._commands = commands

    def _sources(self) -> list[PluginSource]:
        named = [
            PluginSource(name=name, path=Path(argv[-1]), command=(sys.executable, *argv))
            for name, argv in self._commands.items()
        ]
        return [*named, *super()._sources()]


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
    host = ChaosHost(settings, options["commands"])
    if host.new_token:
        Path(options["data"], "token").write_text(host.new_token)
    asyncio.run(serve(host))


async def serve(host: Host) -> None:
    app = await host.start()
    server = SayingServer(uvicorn.Config(app, port=host.settings.port, log_level="warning", access_log=False))
    await server.serve()
    await host.stop()


main()
