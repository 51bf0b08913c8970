"""Runs the host in this process: the socket, the lock, the loop, the signals. What a host is, `bollard.host` knows."""

import asyncio
import errno
import gc
import os
import signal
import socket
import ssl

from bollard import __version__
from bollard.cli.announcing import Announcer
from bollard.cli.credentials import Credential, Credentials, credentials_path
from bollard.cli.data_lock import DataLock
from bollard.cli.errors import UsageProblem
from bollard.cli.host_problems import problem_of
from bollard.cli.http_server import HttpServer, tls_of
from bollard.cli.limits import STOP_MARGIN_S, WATCH_S
from bollard.cli.systemd_notice import tell_systemd
from bollard.host.app import Host
from bollard.host.errors import HostError
from bollard.host.exposure import own_address
from bollard.host.secrets.redactor import Redactor
from bollard.host.settings import Settings

__all__ = ["serve"]

_OURS = (signal.SIGTERM, signal.SIGINT)
_SETTLED = frozenset({"ready", "away", "quarantined", "stopped"})


def serve(settings: Settings, announcer: Announcer, redactor: Redactor | None = None) -> int:
    """Until a signal comes; 0 after an orderly stop. Raises `CliError` when the host cannot start."""
    lock = DataLock.take(settings.data)
    try:
        tls = _tls(settings)
        with _bound(settings) as listener:
            host = _host(settings, redactor)
            address = own_address(settings.host, listener.getsockname()[1], tls=tls is not None)
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                return runner.run(_Serving(settings, host, announcer, address, tls).run(listener))
    finally:
        lock.close()


def _loop_factory() -> "type[asyncio.AbstractEventLoop] | None":
    try:
        import uvloop
    except ImportError:  # not on every system
        return None
    return uvloop.Loop


def _settle_memory() -> None:
    """What is loaded by now lives as long as the process: the collector need not look at it again."""
    gc.collect()
    gc.freeze()


def _tls(settings: Settings) -> ssl.SSLContext | None:
    """Before anything else is begun, like the socket."""
    try:
        return tls_of(settings)
    except HostError as error:
        raise problem_of(error) from error


def _bound(settings: Settings) -> socket.socket:
    """The socket, before anything else is begun: a port that is taken must cost nothing."""
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


def _host(settings: Settings, redactor: Redactor | None) -> Host:
    try:
        return Host(settings, redactor=redactor, environment=os.environ)
    except OSError as error:
        detail = error.strerror or error
        raise UsageProblem("error.write", "hint.data", path=settings.data, detail=detail) from error
    except HostError as error:
        raise problem_of(error) from error


class _Serving:
    """One host from its start to its stop."""

    def __init__(
        self, settings: Settings, host: Host, announcer: Announcer, address: str, tls: ssl.SSLContext | None
    ) -> None:
        self._settings = settings
        self._host = host
        self._announcer = announcer
        self._address = address
        self._tls = tls
        self._stop = asyncio.Event()

    async def run(self, listener: socket.socket) -> int:
        loop = asyncio.get_running_loop()
        for number in _OURS:
            loop.add_signal_handler(number, self._signalled)
        try:
            app = await self._host.start()
        except HostError as error:
            raise problem_of(error) from error
        saved = await asyncio.to_thread(self._remember)  # before anybody can ask: whoever reaches the host finds it
        stop_s = self._settings.grace_s + STOP_MARGIN_S
        server = HttpServer(app, self._settings, stop_s=stop_s, tls=self._tls)
        _settle_memory()
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
            watching.cancel()
            tell_systemd(os.environ, "STOPPING=1")
            if not self._host.broken.is_set():
                await self._host.drain()  # while the server still serves: who asks is told, who reads gets the end
            server.should_exit = True
            await (self._host.abandon() if self._host.broken.is_set() else self._host.stop())
            server.force_exit = True  # every run has ended: a reader that is still there waits for nothing
            await serving
        if self._host.broken.is_set():
            self._announcer.broken()
            return 1
        self._announcer.stopped()
        return 0

    def _signalled(self) -> None:
        """The first signal stops the host, a second one does not wait for its runs."""
        if self._stop.is_set():
            os._exit(1)
        self._stop.set()

    def _announce(self, saved: str | None) -> None:
        self._announcer.listening(self._address, __version__, self._settings)
        tell_systemd(os.environ, "READY=1", f"STATUS=listens at {self._address}")
        if self._host.new_token is not None:
            self._announcer.token(self._host.new_token, saved)

    def _remember(self) -> str | None:
        """Where the token is kept for this user's own commands; nothing when it is not, or is not known here."""
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
        """Say which agents are there as they come, and which plugins will not."""
        told: set[str] = set()
        while True:
            pools = self._host.pools()
            for agent in self._host.agents():
                if agent.agent_id not in told:
                    told.add(agent.agent_id)
                    self._announcer.agent(agent.agent_id, agent.label)
            for pool in pools:
                if pool.problem is not None and f"!{pool.source.name}" not in told:
                    told.add(f"!{pool.source.name}")
                    self._announcer.plugin_failed(pool.source.name, pool.problem)
            if all(pool.status in _SETTLED for pool in pools):
                return
            await asyncio.sleep(WATCH_S)
