"""Runs the host in this process: the socket, the lock, the event loop, the signals. `bollard.host` builds the host
itself."""

import asyncio
import contextlib
import errno
import gc
import json
import math
import os
import signal
import socket
import ssl
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import FrameType
from typing import Final, cast

from bollard import __version__
from bollard.cli.client.credentials import Credential, Credentials, credentials_path
from bollard.cli.errors import UsageProblem
from bollard.cli.limits import STOP_DEADLINE_S, STOP_MARGIN_S, WATCH_S
from bollard.cli.operate.data_lock import DataLock
from bollard.cli.shell import Shell
from bollard.cli.terminal.columns import printable
from bollard.host.app import Host
from bollard.host.exposure import own_address
from bollard.host.http.server.server import HttpServer, tls_of
from bollard.host.limits import SIGN_IN_TICKET_S
from bollard.host.reason import Why
from bollard.host.secrets.redactor import Redactor
from bollard.host.settings import Settings


class Announcer:
    """Reports the start and the stop of a host: text for a person, or one JSON line per event."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._text = shell.text

    def listening(self, address: str, version: str, settings: Settings) -> None:
        data = settings.data.resolve()
        place = self._text("up.database" if settings.database else "up.data", path=data)
        sentences = (self._text("up.listening", address=address, version=version), place)
        self._tell("listening", *sentences, address=address, version=version, data=str(data))

    def token(self, token: str, saved: str | None) -> None:
        """The admin token of a first start, and the file in which it was saved for this user."""
        kept = self._text("up.token_saved", path=saved) if saved else self._text("up.token_unsaved")
        self._tell("token", self._text("up.token", token=token), kept, token=token, saved=saved)

    def console(self, link: str) -> None:
        """The link that signs a person in. It is a secret: only a terminal shows it."""
        minutes = round(SIGN_IN_TICKET_S / 60)
        self._shell.print(self._text("console.link", link=link, minutes=minutes))

    @property
    def has_terminal(self) -> bool:
        return self._shell.mode == "terminal"

    def agent(self, agent_id: str, label: Mapping[str, str]) -> None:
        shown = printable(label.get(self._text.language) or label.get("en_US", agent_id))
        sentence = self._text("up.agent", agent=printable(agent_id), label=shown)
        self._tell("agent.ready", sentence, agent=agent_id, label=dict(label))

    def plugin_failed(self, name: str, problem: Why) -> None:
        said = printable(self._text.problem(problem.whole))
        sentence = self._text("up.failed", plugin=printable(name), problem=said)
        self._tell("plugin.failed", sentence, self._hint("hint.check"), plugin=name, problem=problem.sentence)

    def stopping(self, grace_s: float) -> None:
        self._tell("stopping", self._text("up.stopping", seconds=f"{grace_s:g}"), grace_s=grace_s)

    def stopped(self) -> None:
        self._tell("stopped", self._text("up.stopped"))

    def broken(self) -> None:
        """The host must stop, because nothing can be written."""
        self._tell("broken", self._text("up.broken"), self._hint("hint.broken"))

    def _hint(self, key: str) -> str:
        return self._text("hint", hint=self._text(key))

    def _tell(self, event: str, *sentences: str, **fields: object) -> None:
        line = json.dumps({"event": event, **fields}, ensure_ascii=False)
        with contextlib.suppress(BrokenPipeError):  # the reader of the output is gone; the host continues
            for each in (line,) if self._shell.for_programs else sentences:
                self._shell.print(each)


# Notifies systemd (`Type=notify`): one datagram to the socket that systemd names. Does nothing without systemd.


_VARIABLE: Final = "NOTIFY_SOCKET"


def tell_systemd(environment: Mapping[str, str], *states: str) -> bool:
    """Send `READY=1`, `STOPPING=1` or `STATUS=…`; returns whether it was sent. A failure has no effect."""
    address = environment.get(_VARIABLE, "")
    if not address.startswith(("/", "@")):
        return False
    if address.startswith("@"):  # a name in the abstract namespace
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as line:
        line.sendto("\n".join(states).encode(), address)
        return True
    return False


# The deadline of a stop, kept by the kernel: a host that has not ended by then is killed by `SIGALRM`.
#
# It needs no memory, no thread and no turn of the loop, and covers everything up to the end of the process. What is
# cut off recovers at the next start, as after a crash.


class StopDeadline:
    """A timer that is set once, when the stop begins. Nothing cancels it: the process ends before."""

    def __init__(self, seconds: float) -> None:
        """Call in the main thread, before a stop can begin."""
        self._seconds = math.ceil(seconds)
        self._is_armed = False
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))

    def arm(self) -> None:
        """Set the timer. Allocates nothing. A second reason to stop does not extend the time."""
        if not self._is_armed:
            signal.alarm(self._seconds)
            self._is_armed = True

    def arm_on(self, number: signal.Signals) -> None:
        """Set the timer when this signal arrives. Call after the event loop has set its handler, which runs next."""
        # A loop without memory cannot read the signal number, and a loop that waits for a lock runs no callback. This
        # handler runs in both cases: setting it resets the loop's `siginterrupt`, so that a signal interrupts the wait.
        of_loop = cast("Callable[[int, FrameType | None], object]", signal.getsignal(number))

        def handler(came: int, frame: FrameType | None) -> None:
            self.arm()
            of_loop(came, frame)

        signal.signal(number, handler)


_OURS = (signal.SIGTERM, signal.SIGINT)
_SETTLED = frozenset({"ready", "away", "quarantined", "stopped"})


def serve(settings: Settings, announcer: Announcer, redactor: Redactor | None = None) -> int:
    """Run until a signal arrives; returns 0 after an orderly stop. Raises `CliError` and `HostError` if the host cannot
    start."""
    lock = DataLock.take(settings.data)
    try:
        tls = tls_of(settings)  # first of all, like the socket
        with _bound(settings) as listener:
            deadline = StopDeadline(2 * settings.grace_s + STOP_DEADLINE_S)
            host = _host(settings, redactor, deadline)
            address = own_address(settings.host, listener.getsockname()[1], tls=tls is not None)
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                return runner.run(_Serving(settings, host, announcer, address, tls, deadline).run(listener))
    finally:
        lock.close()


def _loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    try:
        import uvloop
    except ImportError:  # not on every system
        return None
    return uvloop.Loop


def _started_executor() -> ThreadPoolExecutor:
    """An executor whose threads are all started. A thread that is started without memory may die before it reports its
    start, and the loop would wait for it for ever."""
    count = min(32, (os.cpu_count() or 1) + 4)  # the number that the loop would start
    executor, met = ThreadPoolExecutor(count, thread_name_prefix="bollard"), Barrier(count)
    for _ in range(count):
        executor.submit(met.wait)
    return executor


def _settle_memory() -> None:
    """Exclude the loaded modules from garbage collection: they live as long as the process."""
    gc.collect()
    gc.freeze()


def _bound(settings: Settings) -> socket.socket:
    """Bind the socket first, so that a port in use costs nothing."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageProblem("error.port_taken", "hint.port_taken", port=settings.port) from error
        raise UsageProblem("error.bind", "hint.bind", host=settings.host, port=settings.port, detail=error) from error
    return listener


def _host(settings: Settings, redactor: Redactor | None, deadline: StopDeadline) -> Host:
    try:
        return Host(settings, redactor=redactor, environment=os.environ, on_broken=deadline.arm)
    except OSError as error:
        raise UsageProblem("error.write", "hint.data", path=settings.data, detail=error) from error


class _Serving:
    """One host from its start to its stop."""

    def __init__(
        self,
        settings: Settings,
        host: Host,
        announcer: Announcer,
        address: str,
        tls: ssl.SSLContext | None,
        deadline: StopDeadline,
    ) -> None:
        self._deadline = deadline
        self._settings = settings
        self._host = host
        self._announcer = announcer
        self._address = address
        self._tls = tls
        self._stop = asyncio.Event()

    async def run(self, listener: socket.socket) -> int:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(_started_executor())
        for number in _OURS:
            loop.add_signal_handler(number, self._signalled)
            self._deadline.arm_on(number)
        app = await self._host.start()
        saved = await asyncio.to_thread(self._remember)  # first, so that a client of the host finds its token
        stop_s = self._settings.grace_s + STOP_MARGIN_S
        server = HttpServer(app, self._settings, stop_s=stop_s, tls=self._tls, memory=self._host.reader_memory)
        _settle_memory()
        listener.listen()  # now: a reader of the announcement may connect before the server task runs
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        watching = asyncio.create_task(self._watch())
        try:
            self._announce(saved)
            stopped = asyncio.create_task(self._stop.wait())
            broken = asyncio.create_task(self._host.broken.wait())
            await asyncio.wait({serving, stopped, broken}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            broken.cancel()
            if not self._host.broken.is_set():
                self._announcer.stopping(self._settings.grace_s)
        finally:
            self._deadline.arm()
            watching.cancel()
            tell_systemd(os.environ, "STOPPING=1")
            if not self._host.broken.is_set():
                await self._host.drain()  # while the server still answers requests and ends streams
            server.should_exit = True
            await (self._host.abandon() if self._host.broken.is_set() else self._host.stop())
            server.force_exit = True  # every run has ended: a remaining reader waits for nothing
            await serving
        if self._host.broken.is_set():
            self._announcer.broken()
            return 1
        self._announcer.stopped()
        return 0

    def _signalled(self) -> None:
        """The first signal stops the host; a second one does not wait for its runs."""
        if self._stop.is_set():
            os._exit(1)
        self._stop.set()

    def _announce(self, saved: str | None) -> None:
        self._announcer.listening(self._address, __version__, self._settings)
        tell_systemd(os.environ, "READY=1", f"STATUS=listens at {self._address}")
        if self._host.new_token is not None:
            self._announcer.token(self._host.new_token, saved)
        if self._announcer.has_terminal:
            self._announcer.console(f"{self._address}/#ticket={self._host.sign_in_ticket()}")

    def _remember(self) -> str | None:
        """The file in which the token is saved for this user's commands; `None` if it is not saved, or not known
        here."""
        credentials = Credentials(credentials_path(os.environ))
        data = str(self._settings.data.resolve())
        known = credentials.of_data(data)
        token = self._host.new_token or (known.token if known is not None else None)
        if token is None or not self._host.token.allows(f"Bearer {token}"):
            return None
        try:
            credentials.save(Credential(address=self._address, data=data, token=token))
        except OSError:
            return None
        return str(credentials.path)

    async def _watch(self) -> None:
        """Announce agents when they are ready, and plugins that cannot be used."""
        announced: set[str] = set()
        while True:
            pools = self._host.pools()
            for agent in self._host.agents():
                if agent.agent_id not in announced:
                    announced.add(agent.agent_id)
                    self._announcer.agent(agent.agent_id, agent.label)
            for pool in pools:
                if pool.problem is not None and f"!{pool.source.name}" not in announced:
                    announced.add(f"!{pool.source.name}")
                    self._announcer.plugin_failed(pool.source.name, pool.problem)
            if all(pool.status in _SETTLED for pool in pools):
                return
            await asyncio.sleep(WATCH_S)
