"""`python -m bollard.runtime PLUGIN`: the worker process. The host passes the connection as an inherited socket."""

import argparse
import asyncio
import faulthandler
import gc
import io
import os
import signal
import sys
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Literal, NoReturn, Protocol, cast

from bollard import __version__
from bollard.confine.errors import ConfineError
from bollard.confine.kernel import deny_inspection
from bollard.manifest import PluginLoadError
from bollard.protocol import WorkerIdentity
from bollard.runtime.dial import Dial, prepare_dial
from bollard.runtime.limits import HOST_SILENCE_S
from bollard.runtime.output import capture_output
from bollard.runtime.plugin_loader import LoadedPlugin, load_plugin
from bollard.runtime.process import restart, watch_parent, write_stderr
from bollard.runtime.refusal import PluginRefusal
from bollard.runtime.watchdog import Watchdog
from bollard.runtime.worker import Worker
from bollard.wire import IncompatiblePeer, Transport, WireError

EXIT_PLUGIN = 3
EXIT_CHANNEL = 4
_RESTART = -1
"""Instead of an exit code: the process restarts itself."""

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
        write_stderr(f"the host let this runtime go: {reason}" if worker.dismissed else reason)
    if stop.asked:
        return "stopped"
    if worker.dismissed:
        return "dismissed"
    return "lost" if worker.exit_code is None else "ended"


async def _refuse(dial: Dial, error: PluginLoadError) -> ServeEnd:
    """Tell the local host why there is nothing to serve."""
    await PluginRefusal(await dial(), error.problem).serve()
    return "ended"


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
                write_stderr(f"{type(error).__name__} in a task of the plugin was ignored")
    return serving.result()


def main(argv: list[str]) -> int:
    """Serve until the host is done, and return the exit code."""
    arguments = _parse_arguments(argv)
    faulthandler.enable()
    if hasattr(sys.stdout, "reconfigure"):  # output during loading becomes log lines too
        cast("io.TextIOWrapper", sys.stdout).reconfigure(line_buffering=True)
    try:
        dial = prepare_dial(arguments)
        if arguments.connect is None:
            watch_parent()
        try:
            build = _load(arguments)
        except PluginLoadError as error:
            write_stderr(str(error))
            if arguments.connect is None:
                _run(_refuse(dial, error))
            return EXIT_PLUGIN
        ended = _run(_serve(build, dial, remote=arguments.connect is not None))
    except WireError as error:
        write_stderr(str(error))
        return EXIT_CHANNEL
    if ended == "ended":
        return EXIT_PLUGIN
    if arguments.key is None or ended == "stopped":
        return 0
    return EXIT_CHANNEL if ended == "dismissed" else _RESTART


def _load(arguments: argparse.Namespace) -> Serve:
    """Load the plugin or find the program, before the host is dialled. Raises `PluginLoadError`."""
    path: Path | None = arguments.plugin
    if arguments.connect is None:
        plugin = load_plugin(path or Path())
        return lambda transport: PluginServer(transport, plugin)
    # A local worker starts without the relay.
    from bollard.runtime.program import Program, ProgramRelay  # noqa: PLC0415

    if path is None:
        program = Program.of_command(tuple(arguments.command), Path.cwd(), os.environ)
    else:
        try:
            program = Program.of_plugin(path.resolve(), os.environ)
        except ConfineError as error:
            raise IncompatiblePeer(error.message, error.hint) from error
        for warning in program.warnings:
            write_stderr(warning)
    return lambda transport: ProgramRelay(transport, program, write_stderr)


def _run_process(argv: list[str]) -> NoReturn:
    code = 1
    deny_inspection()  # a remote runtime holds its key, and a worker what its plugin knows
    try:
        # `python -m` searches the current folder first; the modules of a plugin are in the plugin's folder.
        if not sys.flags.safe_path:
            del sys.path[0]
        code = main(argv)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException as error:  # noqa: BLE001 -- the last line of defence: reported, and the process exits
        write_stderr("".join(traceback.format_exception(error)))
    try:
        sys.stdout.flush()
        sys.stderr.flush()
        if code == _RESTART:
            restart()
    finally:
        # Threads that plugin code left behind must not keep the process alive.
        os._exit(code)


if __name__ == "__main__":
    _run_process(sys.argv[1:])
