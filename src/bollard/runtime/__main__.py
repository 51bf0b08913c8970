"""`python -m bollard.runtime PLUGIN`: the worker process. The host passes the connection as an inherited socket."""

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
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final, Literal, NoReturn, Protocol, cast

from bollard import __version__
from bollard.extras import install_command
from bollard.manifest import PluginLoadError, read_manifest
from bollard.manifest.text import declared_worker
from bollard.protocol import CHANNEL_FD_VARIABLE, WorkerIdentity
from bollard.runtime.limits import EXIT_GRACE_S, HOST_SILENCE_S
from bollard.runtime.output import capture_output
from bollard.runtime.plugin_loader import LoadedPlugin, load_plugin
from bollard.runtime.watchdog import Watchdog
from bollard.runtime.worker import Worker
from bollard.wire import ChannelClosed, IncompatiblePeer, Transport, WireError, connect_socket


def detach_forked_children(channel: int | None) -> None:
    """Detach every forked child from the worker: its connection, its signal handlers and its log output.

    For `os.fork` and `multiprocessing`: a child that executes another program inherits none of these.
    """
    worker = os.getpid()

    def detach() -> None:
        if os.getppid() != worker:
            return  # a grandchild: its parent is detached and may have reused the descriptor number
        if channel is not None:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, channel, inheritable=False)
            os.close(null)
        with contextlib.suppress(ValueError):  # only the main thread may set handlers; other threads have none
            # The loop's wake-up pipe is shared: a signal to the child would look like a signal to the worker.
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__

    os.register_at_fork(after_in_child=detach)


_PARENT_CHECK_S: Final = 1.0
_PARENT_MARGIN_S: Final = 1.0


def watch_parent() -> None:
    """Kill the process group when the host has died and the grace is over.

    A healthy worker notices the closed connection itself. This thread ends a worker whose loop is blocked by plugin
    code or by an import that never returns.
    """
    threading.Thread(target=_watch_parent, args=(os.getppid(),), name="bollard-parent", daemon=True).start()


def _watch_parent(parent: int) -> None:
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(_PARENT_CHECK_S)
    pause.wait(EXIT_GRACE_S + _PARENT_MARGIN_S)
    if os.getpgrp() == os.getpid():  # the host made this process the leader of its group
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


EXIT_PLUGIN = 3
EXIT_CHANNEL = 4
_RESTART = -1
"""Instead of an exit code: the process restarts itself."""

Dial = Callable[[], Awaitable[Transport]]
ServeEnd = Literal["stopped", "dismissed", "lost", "ended"]
"""Stopped by a signal, dismissed by the host, the connection was lost, or the program ended by itself."""


def _parse_arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bollard.runtime",
        description="Serve one plugin to a host.",
        epilog="Instead of a plugin: -- COMMAND…, a program that is the worker. It needs --connect.",
    )
    parser.add_argument("plugin", type=Path, nargs="?", help="a plugin folder, or one Python file with a runner")
    parser.add_argument("--connect", metavar="URL", help="dial a host over WebSocket instead of an inherited socket")
    parser.add_argument(
        "--key", type=Path, metavar="FILE", help="the key of an enrolled runtime; it dials again and again"
    )
    parser.add_argument("--again", action="store_true", help="it was connected just now: do not dial at once")
    words = argv.index("--") if "--" in argv else len(argv)
    arguments = parser.parse_args(argv[:words])
    arguments.command = argv[words + 1 :]
    if (arguments.plugin is None) == (not arguments.command):
        parser.error("name a plugin, or a command after --")
    if arguments.command and arguments.connect is None:
        parser.error("a command needs --connect")
    if arguments.key is not None and arguments.connect is None:
        parser.error("--key needs --connect")
    return arguments


def _open_inherited_socket(number: str | None) -> socket.socket:
    """Return the inherited socket. Child processes do not inherit it."""
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


def _prepare_dial(arguments: argparse.Namespace) -> Dial:
    """Return the function that connects to the host.

    The socket leaves the environment before plugin code is loaded, so that plugin code cannot find it.
    """
    number = os.environ.pop(CHANNEL_FD_VARIABLE, None)
    if arguments.connect is not None:
        detach_forked_children(None)
        return _prepare_remote_dial(arguments)
    channel = _open_inherited_socket(number)
    detach_forked_children(channel.fileno())
    return lambda: connect_socket(channel)


def _prepare_remote_dial(arguments: argparse.Namespace) -> Dial:
    # A local worker starts without TLS, HTTP and cryptography.
    from bollard.runtime.remote_host import connect_with_retries, load_key, read_address, require_private  # noqa: PLC0415

    try:
        from bollard.wire.websocket import connect_websocket  # noqa: PLC0415 -- needs an extra
    except ImportError as error:
        hint = f"install it: `{install_command('remote')}`"
        raise IncompatiblePeer("--connect needs the extra `remote`", hint) from error
    url: str = arguments.connect
    if arguments.key is None:
        require_private(url)

        async def connect() -> Transport:
            try:
                return await connect_websocket(url)
            except (ChannelClosed, UnicodeError) as error:
                raise IncompatiblePeer(
                    f"{url} cannot be reached: {error}", "check the address, and that the host listens there"
                ) from error

        return connect
    address, key = read_address(url), load_key(arguments.key)

    async def connect_enrolled() -> Transport:
        transport = await connect_with_retries(
            address,
            key,
            lambda url, headers: connect_websocket(url, headers=headers),
            again=arguments.again,
            tell=_write_stderr,
        )
        _write_stderr(f"connected to {address.authority}")
        return transport

    return connect_enrolled


class Served(Protocol):
    """What serves a host over one connection: a plugin in Python, or a program."""

    @property
    def dismissed(self) -> bool:
        """Whether the host has sent `shutdown`."""
        ...

    @property
    def exit_code(self) -> int | None:
        """The exit code of a program that ended by itself."""
        ...

    @property
    def heard_at(self) -> float:
        """When the last frame of the host arrived, on the loop's clock."""
        ...

    async def serve(self) -> str:
        """Serve until the connection ends, and return the reason."""
        ...

    def hang_up(self, reason: str) -> None:
        """Close the connection and end."""
        ...


Serve = Callable[[Transport], Served]


class PluginServer:
    """Serves a plugin in Python, with its output captured and its loop watched."""

    def __init__(self, transport: Transport, plugin: LoadedPlugin) -> None:
        identity = WorkerIdentity(name="bollard.runtime", version=__version__, language="python")
        self._worker = Worker(transport, plugin, identity)

    exit_code: int | None = None

    @property
    def dismissed(self) -> bool:
        return self._worker.dismissed

    @property
    def heard_at(self) -> float:
        return self._worker.heard_at

    def hang_up(self, reason: str) -> None:
        self._worker.hang_up(reason)

    async def serve(self) -> str:
        watchdog = Watchdog(self._worker.blocked)
        watchdog.start()
        # Everything loaded so far lives as long as the process, so the collector can skip it.
        gc.collect()
        gc.freeze()
        with capture_output(self._worker.printed):
            reason = await self._worker.serve()
        watchdog.stop()
        return reason


async def _watch_silence(worker: Served) -> None:
    """Hang up when a remote host is silent for too long: the connection may be half-open."""
    loop = asyncio.get_running_loop()
    # Sleeps until the earliest possible deadline.
    while (silent_s := loop.time() - worker.heard_at) < HOST_SILENCE_S:  # noqa: ASYNC110
        await asyncio.sleep(HOST_SILENCE_S - silent_s)
    worker.hang_up(f"the host was silent for {HOST_SILENCE_S:g} s")


async def _serve(build: Serve, dial: Dial, *, remote: bool) -> ServeEnd:
    """Serve until the connection ends, and return how it ended."""
    loop = asyncio.get_running_loop()
    stop = _StopRequest()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.ask)
    stop.dialling = loop.create_task(_run_dial(dial))
    try:
        transport = await stop.dialling
    except asyncio.CancelledError:
        return "stopped"
    worker = stop.worker = build(transport)
    silence = loop.create_task(_watch_silence(worker)) if remote else None
    reason = await worker.serve()
    if silence is not None:
        silence.cancel()
        _write_stderr(f"the host let this runtime go: {reason}" if worker.dismissed else reason)
    if stop.asked:
        return "stopped"
    if worker.dismissed:
        return "dismissed"
    return "lost" if worker.exit_code is None else "ended"


async def _run_dial(dial: Dial) -> Transport:
    return await dial()


class _StopRequest:
    """Stops the connection attempt or the worker when a signal arrives."""

    def __init__(self) -> None:
        self.asked = False
        self.dialling: asyncio.Task[Transport] | None = None
        self.worker: Served | None = None

    def ask(self) -> None:
        self.asked = True
        if self.worker is not None:
            self.worker.hang_up("the worker was asked to end")
        elif self.dialling is not None:
            self.dialling.cancel()


def _run(work: Coroutine[Any, Any, ServeEnd]) -> ServeEnd:
    """Run the coroutine to its end. `asyncio.run` would wait for tasks and threads of plugin code that never end."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    serving = loop.create_task(work)
    while not serving.done():
        try:
            loop.run_until_complete(serving)
        except (SystemExit, KeyboardInterrupt) as error:
            # asyncio lets these two stop the loop when a task of plugin code raises them. Real signals come elsewhere.
            if not serving.done():
                _write_stderr(f"{type(error).__name__} in a task of the plugin was ignored")
    return serving.result()


def _write_stderr(text: str) -> None:
    """Write to the real stderr: plugin code may have replaced Python's."""
    with contextlib.suppress(OSError):
        os.write(2, f"bollard: {text}\n".encode("utf-8", "replace"))


def main(argv: list[str]) -> int:
    """Serve until the host is done, and return the exit code."""
    arguments = _parse_arguments(argv)
    faulthandler.enable()
    if hasattr(sys.stdout, "reconfigure"):  # output during loading becomes log lines too
        cast("io.TextIOWrapper", sys.stdout).reconfigure(line_buffering=True)
    try:
        dial = _prepare_dial(arguments)
        if arguments.connect is None:
            watch_parent()
        ended = _run(_serve(_load(arguments), dial, remote=arguments.connect is not None))
    except PluginLoadError as error:
        _write_stderr(str(error))
        return EXIT_PLUGIN
    except WireError as error:
        _write_stderr(str(error))
        return EXIT_CHANNEL
    if ended == "ended":
        return EXIT_PLUGIN
    if arguments.key is None or ended == "stopped":
        return 0
    return EXIT_CHANNEL if ended == "dismissed" else _RESTART


def _load(arguments: argparse.Namespace) -> Serve:
    """Load the plugin or find the program, before the host is dialled. Raises `PluginLoadError`."""
    path: Path | None = arguments.plugin
    command = tuple(arguments.command) if path is None else declared_worker(path).command
    if not command or arguments.connect is None:
        plugin = load_plugin(path or Path())
        return lambda transport: PluginServer(transport, plugin)
    # A local worker starts without the relay.
    from bollard.runtime.program import Program, ProgramRelay  # noqa: PLC0415

    if path is None:
        program = Program.of_command(command, Path.cwd(), os.environ)
    else:
        read_manifest(path)
        program = Program.of_plugin(path.resolve(), command, os.environ)
    return lambda transport: ProgramRelay(transport, program, _write_stderr)


def _run_process(argv: list[str]) -> NoReturn:
    code = 1
    try:
        # `python -m` searches the current folder first; the modules of a plugin are in the plugin's folder.
        if not sys.flags.safe_path:
            del sys.path[0]
        code = main(argv)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException as error:  # noqa: BLE001 -- the last line of defence: reported, and the process exits
        _write_stderr("".join(traceback.format_exception(error)))
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        if code == _RESTART:
            _restart()
    finally:
        # Threads that plugin code left behind must not keep the process alive.
        os._exit(code)


def _restart() -> NoReturn:
    """Replace this process after a remote runtime lost its host, as a host would replace a local worker.

    Nothing of the plugin code keeps running, and changed code is loaded.
    """
    _end_children()
    rest = sys.orig_argv[1:]
    at = rest.index("bollard.runtime") + 1
    if rest[at : at + 1] != ["--again"]:  # before the arguments: a command may follow them
        rest.insert(at, "--again")
    os.execv(sys.executable, [sys.executable, *rest])  # noqa: S606


def _end_children() -> None:
    """Kill the children: they would survive the restart with no one to wait for them."""
    for task in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError, ValueError):  # already exited, or a system without this file
            for child in map(int, task.read_text().split()):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


if __name__ == "__main__":
    _run_process(sys.argv[1:])
