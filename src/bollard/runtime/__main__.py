"""`python -m bollard.runtime PLUGIN`: the worker process. The host starts it with a channel on an inherited socket."""

import argparse
import asyncio
import contextlib
import faulthandler
import gc
import os
import signal
import socket
import sys
from pathlib import Path

from bollard import __version__
from bollard.protocol import CHANNEL_FD_VARIABLE, WorkerIdentity
from bollard.runtime.limits import HOST_SILENCE_S
from bollard.runtime.loading import LoadedPlugin, load_plugin
from bollard.runtime.output import captured_output
from bollard.runtime.problems import PluginLoadError
from bollard.runtime.watchdog import Watchdog
from bollard.runtime.worker import Worker
from bollard.wire import IncompatiblePeer, Transport, WireError, connect_socket

EXIT_USAGE = 2
EXIT_PLUGIN = 3
EXIT_CHANNEL = 4


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bollard.runtime", description="Serve one plugin to a host.")
    parser.add_argument("plugin", type=Path, help="a plugin folder, or one Python file with a runner")
    parser.add_argument("--connect", metavar="URL", help="dial a host over WebSocket instead of an inherited socket")
    return parser.parse_args(argv)


def _inherited_socket() -> socket.socket:
    """The channel the host left for us; nothing that this process starts may inherit it."""
    number = os.environ.pop(CHANNEL_FD_VARIABLE, None)
    if number is None:
        raise IncompatiblePeer(
            f"{CHANNEL_FD_VARIABLE} is not set, so there is no host to talk to",
            "use `bollard plugin run` to try a plugin, or --connect URL to dial a host",
        )
    try:
        channel = socket.socket(fileno=int(number))
    except (ValueError, OSError) as error:
        raise IncompatiblePeer(
            f"{CHANNEL_FD_VARIABLE}={number} is not an open socket", "start this from a host"
        ) from error
    channel.set_inheritable(False)
    return channel


async def _connect(url: str | None) -> Transport:
    if url is None:
        return await connect_socket(_inherited_socket())
    try:
        from bollard.wire.websocket import connect_websocket  # noqa: PLC0415 -- an extra, only needed here
    except ImportError as error:
        raise IncompatiblePeer("--connect needs the extra `remote`", "pip install 'bollard[remote]'") from error
    return await connect_websocket(url)


async def _watch_silence(worker: Worker) -> None:
    """A remote host that vanished without a word leaves a half-open connection behind."""
    loop = asyncio.get_running_loop()
    # Sleeps each time until the earliest moment at which the silence could be long enough.
    while (silent_s := loop.time() - worker.heard_at) < HOST_SILENCE_S:  # noqa: ASYNC110
        await asyncio.sleep(HOST_SILENCE_S - silent_s)
    worker.hang_up(f"the host was silent for {HOST_SILENCE_S:g} s")


async def _serve(plugin: LoadedPlugin, url: str | None) -> None:
    transport = await _connect(url)
    identity = WorkerIdentity(name="bollard.runtime", version=__version__, language="python")
    worker = Worker(transport, plugin, identity)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, worker.hang_up, "the worker was asked to end")
    watchdog = Watchdog(worker.blocked)
    watchdog.start()
    silence = loop.create_task(_watch_silence(worker)) if url is not None else None
    # What is loaded by now lives as long as the process: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    with captured_output(worker.printed):
        await worker.serve()
    watchdog.stop()
    if silence is not None:
        silence.cancel()


def main(argv: list[str]) -> int:
    """Serve until the host is done; the exit code says what kept it from that."""
    arguments = _arguments(argv)
    faulthandler.enable()
    try:
        plugin = load_plugin(arguments.plugin)
    except PluginLoadError as error:
        sys.stderr.write(f"bollard: {error}\n")
        return EXIT_PLUGIN
    try:
        asyncio.run(_serve(plugin, arguments.connect))
    except WireError as error:
        sys.stderr.write(f"bollard: {error}\n")
        return EXIT_CHANNEL
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    # Threads that plugin code left behind must not keep the process alive.
    os._exit(code)
