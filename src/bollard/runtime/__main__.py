"""`python -m bollard.runtime PLUGIN`: the worker process. The host starts it with a channel on an inherited socket."""

import argparse
import asyncio
import contextlib
import faulthandler
import gc
import io
import os
import signal
import socket
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, cast

from bollard import __version__
from bollard.protocol import CHANNEL_FD_VARIABLE, WorkerIdentity
from bollard.runtime.forked import part_children
from bollard.runtime.host_address import check_privacy, read_address
from bollard.runtime.limits import HOST_SILENCE_S
from bollard.runtime.loading import LoadedPlugin, load_plugin
from bollard.runtime.orphan import watch_parent
from bollard.runtime.output import captured_output
from bollard.runtime.problems import PluginLoadError
from bollard.runtime.watchdog import Watchdog
from bollard.runtime.worker import Worker
from bollard.wire import ChannelClosed, IncompatiblePeer, Transport, WireError, connect_socket

if TYPE_CHECKING:
    from bollard.runtime.dialling import Connect

EXIT_PLUGIN = 3
EXIT_CHANNEL = 4
_ANEW = -1
"""Instead of an exit code: this process begins anew."""

Dial = Callable[[], Awaitable[Transport]]
Ended = Literal["stopped", "dismissed", "lost"]
"""By a signal; by the host, which needs it no more; or because the channel broke."""


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bollard.runtime", description="Serve one plugin to a host.")
    parser.add_argument("plugin", type=Path, help="a plugin folder, or one Python file with a runner")
    parser.add_argument("--connect", metavar="URL", help="dial a host over WebSocket instead of an inherited socket")
    parser.add_argument(
        "--key", type=Path, metavar="FILE", help="the key of an enrolled runtime; it dials again and again"
    )
    parser.add_argument("--again", action="store_true", help="it was connected just now: do not dial at once")
    arguments = parser.parse_args(argv)
    if arguments.key is not None and arguments.connect is None:
        parser.error("--key needs --connect")
    return arguments


def _inherited_socket(number: str | None) -> socket.socket:
    """The channel the host left for us; nothing that this process starts may inherit it."""
    if number is None:
        raise IncompatiblePeer(
            f"{CHANNEL_FD_VARIABLE} is not set, so there is no host to talk to",
            "use `bollard plugin run` to try a plugin, or --connect URL to dial a host",
        )
    try:
        channel = socket.socket(fileno=int(number))
        channel.getpeername()
    except (ValueError, OverflowError, OSError) as error:
        raise IncompatiblePeer(
            f"{CHANNEL_FD_VARIABLE}={number} is not a connected socket", "start this from a host"
        ) from error
    if channel.type != socket.SOCK_STREAM:
        raise IncompatiblePeer(f"{CHANNEL_FD_VARIABLE}={number} is not a stream socket", "start this from a host")
    channel.set_inheritable(False)
    return channel


def _dial(arguments: argparse.Namespace) -> Dial:
    """The way to the host, taken before plugin code can see that there is one."""
    number = os.environ.pop(CHANNEL_FD_VARIABLE, None)
    url: str | None = arguments.connect
    if url is None:
        channel = _inherited_socket(number)
        part_children(channel.fileno())
        return lambda: connect_socket(channel)
    try:
        from bollard.wire.websocket import connect_websocket  # noqa: PLC0415 -- an extra, only needed here

        if arguments.key is not None:
            part_children(None)
            return _enrolled_dial(arguments, lambda url, headers: connect_websocket(url, headers=headers))
    except ImportError as error:
        raise IncompatiblePeer("--connect needs the extra `remote`", "pip install 'bollard[remote]'") from error
    part_children(None)
    check_privacy(url)

    async def connect() -> Transport:
        try:
            return await connect_websocket(url)
        except (ChannelClosed, UnicodeError) as error:
            raise IncompatiblePeer(
                f"{url} cannot be reached: {error}", "check the address, and that the host listens there"
            ) from error

    return connect


def _enrolled_dial(arguments: argparse.Namespace, connect: "Connect") -> Dial:
    """The same for a runtime that is known to its host by a key."""
    from bollard.runtime.dialling import dial_until_there  # noqa: PLC0415 -- keys are for remote runtimes only
    from bollard.runtime.key_file import load_key  # noqa: PLC0415

    address, key = read_address(arguments.connect), load_key(arguments.key)

    async def dialled() -> Transport:
        transport = await dial_until_there(address, key, connect, again=arguments.again, tell=_tell)
        _tell(f"connected to {address.authority}")
        return transport

    return dialled


async def _watch_silence(worker: Worker) -> None:
    """A remote host that vanished without a word leaves a half-open connection behind."""
    loop = asyncio.get_running_loop()
    # Sleeps until the earliest possible moment.
    while (silent_s := loop.time() - worker.heard_at) < HOST_SILENCE_S:  # noqa: ASYNC110
        await asyncio.sleep(HOST_SILENCE_S - silent_s)
    worker.hang_up(f"the host was silent for {HOST_SILENCE_S:g} s")


async def _serve(plugin: LoadedPlugin, dial: Dial, *, remote: bool) -> Ended:
    """Until the channel ends, and who wanted that."""
    loop = asyncio.get_running_loop()
    stop = _Stop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.ask)
    stop.dialling = loop.create_task(_dialled(dial))
    try:
        transport = await stop.dialling
    except asyncio.CancelledError:
        return "stopped"
    identity = WorkerIdentity(name="bollard.runtime", version=__version__, language="python")
    worker = stop.worker = Worker(transport, plugin, identity)
    watchdog = Watchdog(worker.blocked)
    watchdog.start()
    silence = loop.create_task(_watch_silence(worker)) if remote else None
    # What is loaded by now lives as long as the process: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    with captured_output(worker.printed):
        reason = await worker.serve()
    watchdog.stop()
    if silence is not None:
        silence.cancel()
        _tell(f"the host let this runtime go: {reason}" if worker.dismissed else reason)
    if worker.dismissed and not stop.asked:
        return "dismissed"
    return "stopped" if stop.asked else "lost"


async def _dialled(dial: Dial) -> Transport:
    return await dial()


class _Stop:
    """What a signal does: it ends the dialling, or the worker."""

    def __init__(self) -> None:
        self.asked = False
        self.dialling: asyncio.Task[Transport] | None = None
        self.worker: Worker | None = None

    def ask(self) -> None:
        self.asked = True
        if self.worker is not None:
            self.worker.hang_up("the worker was asked to end")
        elif self.dialling is not None:
            self.dialling.cancel()


def _run(work: Coroutine[Any, Any, Ended]) -> Ended:
    """Run to the end. Not `asyncio.run`: that waits for tasks and threads of plugin code that do not end."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    serving = loop.create_task(work)
    while not serving.done():
        try:
            loop.run_until_complete(serving)
        except (SystemExit, KeyboardInterrupt) as error:
            # Raised by a task of plugin code, asyncio lets these two stop the loop. Real signals do not come this way.
            if not serving.done():
                _tell(f"{type(error).__name__} in a task of the plugin was ignored")
    return serving.result()


def _tell(text: str) -> None:
    """Write to the real stderr: plugin code may have replaced Python's."""
    with contextlib.suppress(OSError):
        os.write(2, f"bollard: {text}\n".encode("utf-8", "replace"))


def main(argv: list[str]) -> int:
    """Serve until the host is done; the exit code says what kept it from that."""
    arguments = _arguments(argv)
    faulthandler.enable()
    if hasattr(sys.stdout, "reconfigure"):  # what a plugin prints while it loads is a log line too
        cast("io.TextIOWrapper", sys.stdout).reconfigure(line_buffering=True)
    try:
        dial = _dial(arguments)
        if arguments.connect is None:
            watch_parent()
        plugin = load_plugin(arguments.plugin)
        ended = _run(_serve(plugin, dial, remote=arguments.connect is not None))
    except PluginLoadError as error:
        _tell(str(error))
        return EXIT_PLUGIN
    except WireError as error:
        _tell(str(error))
        return EXIT_CHANNEL
    if arguments.key is None or ended == "stopped":
        return 0
    return EXIT_CHANNEL if ended == "dismissed" else _ANEW


def _process(argv: list[str]) -> NoReturn:
    code = 1
    try:
        # `python -m` looks for modules in the current folder first; a plugin's are in the plugin's.
        if not sys.flags.safe_path:
            del sys.path[0]
        code = main(argv)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException as error:  # noqa: BLE001 -- the last line of defence: said, and never a process that stays
        _tell("".join(traceback.format_exception(error)))
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        if code == _ANEW:
            _begin_anew()
    finally:
        # Threads that plugin code left behind must not keep the process alive.
        os._exit(code)


def _begin_anew() -> NoReturn:
    """A remote runtime that lost its host is a new process, as a local worker would be: nothing that plugin code left
    behind goes on, and code that was changed meanwhile is what is loaded."""
    _end_children()
    rest = sys.orig_argv[1:]
    os.execv(sys.executable, [sys.executable, *rest, *(() if "--again" in rest else ("--again",))])  # noqa: S606


def _end_children() -> None:
    """Children stay this process's own when it begins anew, and nobody would ever ask for them again."""
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError, ValueError):  # gone meanwhile; or a system that does not say
            for child in map(int, task.read_text().split()):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


if __name__ == "__main__":
    _process(sys.argv[1:])
