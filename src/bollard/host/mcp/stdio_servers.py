"""The processes of MCP servers that speak over stdio: the host starts and ends them, confined as workers are, and the
bridge gets their pipes."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bollard.confine.errors import ConfineError
from bollard.host.egress.connection_log import SERVER, ProxyClient
from bollard.host.errors import SandboxUnavailable
from bollard.host.mcp.folder_watch import FOLDER_FILLED, FOLDER_FULL, FolderWatch, is_full
from bollard.host.mcp.limits import PLACES_SHOWN
from bollard.host.mcp.missing_permission import MEMORY_USED_UP, MissingPermission, missing_permission
from bollard.host.mcp.named_files import find_named_files, script_of
from bollard.host.mcp.servers import SavedMcpServer
from bollard.host.reason import Why, why
from bollard.host.workers.sandbox import ConfinedWorker, WorkerSandbox
from bollard.protocol import PluginSandbox
from bollard.wire import check_program, worker_argv
from bollard.wire.bridge_frames import SERVER_END_S, SERVER_KILL_S
from bollard.wire.process import ChildProcess, ProgramNotFound

Pipes = tuple[int, int, int]


class NotStarted(Exception):
    """A server was not started."""

    def __init__(self, problem: Why, hint: str) -> None:
        super().__init__(problem.sentence)
        self.problem = problem
        self.hint = hint


class ServerProcess:
    """One process, from its start to its end."""

    def __init__(
        self, child: ChildProcess, confined: ConfinedWorker | None, pipes: Pipes, refused: Sequence[str], hidden: Path
    ) -> None:
        """`pipes` are the other ends of its stdin, stdout and stderr; `refused` are the places that it could not
        reach; `hidden` is the data directory."""
        self._child = child
        self._confined = confined
        self._refused = refused
        self._hidden = hidden
        self._folder: FolderWatch | None = None
        self.pipes: Pipes | None = pipes
        self.exited: Final = child.exited

    @property
    def group(self) -> int:
        """Its process group."""
        return self._child.pid

    def release_pipes(self) -> None:
        """Close the host's ends: the bridge has them, or never will."""
        for each in self.pipes or ():
            os.close(each)
        self.pipes = None

    def missing(self, lines: Iterable[str]) -> MissingPermission | None:
        """The permission whose lack may have ended it. `lines` are the last ones of its stderr."""
        confined = self._confined
        if self._folder is not None and self._folder.is_full:
            return FOLDER_FILLED
        if confined is None:
            return None
        if confined.memory_kills:
            return MEMORY_USED_UP
        return missing_permission(self._refused, lines, self._lacks(confined.reads), self._lacks(confined.writes))

    def _lacks(self, has: Callable[[str], bool]) -> Callable[[str], bool]:
        def lacks(path: str) -> bool:
            real = Path(path).resolve()
            return not has(path) and not has(str(real)) and real.exists() and not real.is_relative_to(self._hidden)

        return lacks

    def watch(self, folder: Path) -> None:
        """End it when its folder is full."""
        self._folder = FolderWatch(folder, self.kill)

    def kill(self) -> None:
        """Kill it and everything that it started."""
        self._child.kill()

    async def end(self) -> None:
        """End it as MCP specifies, after its stdin was closed: wait, SIGTERM, wait, SIGKILL. Remove what is left."""
        self.release_pipes()
        if self._folder is not None:
            await self._folder.close()
        await asyncio.wait([self.exited], timeout=SERVER_END_S)
        self._child.terminate()
        await asyncio.wait([self.exited], timeout=SERVER_KILL_S)
        self._child.kill()
        await asyncio.wait([self.exited])
        if self._confined is not None:
            await self._confined.close()


class StdioServers:
    """Starts the processes of servers. One per host."""

    def __init__(self, sandbox: WorkerSandbox | None, hidden: Path) -> None:
        """`hidden` is the data directory, of which a server has only its own folder."""
        self._sandbox = sandbox
        self._hidden = hidden.resolve()

    @property
    def is_confined(self) -> bool:
        return self._sandbox is not None and self._sandbox.level.name != "none"

    def denied(self, sandbox: PluginSandbox | None) -> str | None:
        """The first path of a sandbox that the operator of the host does not allow."""
        return None if self._sandbox is None or sandbox is None else self._sandbox.denied(sandbox)

    async def start(
        self,
        server: SavedMcpServer,
        workspace: str,
        *,
        environment: Mapping[str, str],
        values: Mapping[str, str],
        folder: Path,
        say: Callable[[str], None],
    ) -> ServerProcess:
        """Start a server in its folder. `values` are the variables of the saved server; `say` gets a line for each
        place that it may not reach. Raises `NotStarted` and `OSError`."""
        try:
            argv = worker_argv((server.command or "", *server.args), folder, {**environment, **values})
        except ProgramNotFound as error:
            problem = why("the program does not exist", "mcp.no_program")
            raise NotStarted(problem, "use its full path, or a program in the host's PATH") from error
        if await asyncio.to_thread(is_full, folder):
            raise NotStarted(FOLDER_FULL.problem, FOLDER_FULL.hint)
        refused: list[str] = []

        def note(host: str, port: int) -> None:
            place = f"{host}:{port}"
            if place not in refused and len(refused) < PLACES_SHOWN:
                refused.append(place)
                say(f"[host] sandbox.network of this server does not admit {place}")

        confined = await self._confine(server, workspace, argv, values, folder, note, say)
        try:
            return await _spawn(argv, confined, environment, values, folder, refused, self._hidden)
        except ConfineError as error:
            raise _unconfined(error) from error

    async def _confine(
        self,
        server: SavedMcpServer,
        workspace: str,
        argv: Sequence[str],
        values: Mapping[str, str],
        folder: Path,
        note: Callable[[str, int], None],
        say: Callable[[str], None],
    ) -> ConfinedWorker | None:
        if self._sandbox is None:
            return None
        try:
            sandbox = self._sandbox.allowed(server.sandbox or PluginSandbox())
        except SandboxUnavailable as error:
            path = error.details["path"]
            problem = why(f"{path} is below none of the roots that the operator allows", "mcp.path_denied", path=path)
            raise NotStarted(problem, error.hint or "") from error
        named = find_named_files(
            script_of(argv[0], server.args),
            (*server.args, *values.values()),
            allows=self._sandbox.allows,
            withholds=self._sandbox.withholds,
            writable=(str(folder), *sandbox.write),
        )
        if self.is_confined:
            for path in named.withheld[:PLACES_SHOWN]:
                say(f"[host] sandbox.read of this server does not have {path}; sandbox_roots must allow it")
        client = ProxyClient(workspace=workspace, plugin=f"{SERVER}{server.server_id}")
        try:
            return await self._sandbox.confine_server(
                sandbox.model_copy(update={"read": (*sandbox.read, *named.allowed)}),
                client,
                argv,
                folder=folder,
                read=named.script,
                refused=note,
            )
        except ConfineError as error:
            raise _unconfined(error) from error


async def _spawn(
    argv: Sequence[str],
    confined: ConfinedWorker | None,
    environment: Mapping[str, str],
    values: Mapping[str, str],
    folder: Path,
    refused: Sequence[str],
    hidden: Path,
) -> ServerProcess:
    """Start the process. Raises `ConfineError` and `OSError`."""
    opened: list[int] = []
    process: ServerProcess | None = None
    try:
        for _ in range(3):
            opened += os.pipe()
        stdin, to_server, from_server, stdout, from_stderr, stderr = opened
        if confined is not None:
            check_program(argv[0])
        child = ChildProcess(
            argv if confined is None else confined.argv,
            environment={**environment, **values}
            if confined is None
            else confined.environment(environment, home=str(folder), values=values),
            descriptors=() if confined is None else confined.descriptors,
            output=None,
            cwd=folder if confined is None else None,
            standard=(stdin, stdout, stderr),
        )
        process = ServerProcess(child, confined, (to_server, from_server, from_stderr), refused, hidden)
        for each in (stdin, stdout, stderr):
            opened.remove(each)
            os.close(each)
        opened.clear()
        if confined is not None:
            await confined.start()
        process.watch(folder)
    except BaseException:
        if process is not None:
            process.kill()
            await process.end()
        elif confined is not None:
            await confined.close()
        for each in opened:
            with contextlib.suppress(OSError):
                os.close(each)
        raise
    return process


def _unconfined(error: ConfineError) -> NotStarted:
    problem = why(f"its sandbox could not be made: {error}", "mcp.sandbox", inner={"problem": error.message})
    return NotStarted(problem, error.hint)
