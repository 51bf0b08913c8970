"""A program in any language as the worker of a remote runtime: the relay between the host and the program.

The relay carries frames unchanged, with two additions: the digest of the program's files in the answer to `initialize`,
if the program reports none, and the program's output as log records. It answers no method itself.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from errno import errorcode
from pathlib import Path
from typing import Any, Final, Self

from bollard.confine.errors import ConfineError
from bollard.confine.plugin_launch import level_of
from bollard.confine.worker_level import UNCONFINED, WorkerLevel
from bollard.host.egress.connection_log import ConnectionSum
from bollard.host.workers.plugin_sandbox import confine_plugin, connection_sentence
from bollard.host.workers.sandbox import ConfinedWorker
from bollard.manifest import PluginLoadError, Problem, read_manifest
from bollard.manifest.text import DeclaredWorker, declared_worker
from bollard.protocol import CHANNEL_FD_VARIABLE, JsonObject, JsonValue
from bollard.protocol.limits import LOG_MESSAGE_CHARACTERS
from bollard.runtime.limits import EXIT_GRACE_S, PROGRAM_BYTES, PROGRAM_FILES
from bollard.runtime.problems import make_sendable
from bollard.wire import (
    Transport,
    WireError,
    WorkerProcess,
    decode,
    encode,
    spawn_worker,
    worker_argv,
    worker_environment,
)
from bollard.wire.envelope import encode_notification
from bollard.wire.errors import FrameError
from bollard.wire.flow_control import LogLimiter
from bollard.wire.plugin_files import PluginFileError, digest_of_plugin, plugin_files
from bollard.wire.process import PipeName


def code_of(command: Sequence[str], folder: Path) -> Path:
    """The code that a command runs: the folder of the first of its words that is a file, or else the program itself.

    In `node worker.mjs` that is the folder of `worker.mjs`. A program on the PATH or with an absolute path belongs to
    the machine and is not such a word. Raises `PluginLoadError` if there is no such program.
    """
    words = command if "/" in command[0] and not command[0].startswith("/") else command[1:]
    file = next((path for path in (folder / word for word in words) if path.is_file()), None)
    if file is not None:
        return file.resolve().parent
    program = shutil.which(command[0])
    if program is None:
        details: JsonObject = {"problem_type": "plugin.no_program", "program": command[0]}
        raise _unusable(shlex.join(command), f"{command[0]} is neither a file nor on the PATH", details)
    return Path(program).resolve()


def _unusable(
    where: str, problem: str, details: JsonObject, hint: str = "name a program on the PATH, or an executable file"
) -> Exception:
    return PluginLoadError(Problem("PL01", where, "command", problem, hint, details))


def _os_problem(error: OSError) -> JsonObject:
    return {"problem_type": f"os.{errorcode.get(error.errno or 0, 'unknown')}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A command that can be started, and the digest of its code."""

    argv: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    digest: str
    declared: DeclaredWorker | None = None
    """What the manifest asks for; `None` for a command that a person typed, which is not confined."""
    code: Path = Path()
    """The plugin's folder or file."""
    level: WorkerLevel = UNCONFINED

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person at this machine should know before a plugin is served."""
        if self.declared is None:
            return ()
        if self.level.name == "none":
            problem = self.level.problem or "BOLLARD_WORKER_SANDBOX is none"
            return (f"the plugin is not confined and can read everything that this user can read: {problem}",)
        return ()

    @classmethod
    def of_plugin(cls, code: Path, inherited: Mapping[str, str]) -> Self:
        """The worker of a plugin: the program of its manifest, or the Python runtime. It gets the variables that the
        manifest names, and the level of this machine. Raises `PluginLoadError` and `ConfineError`."""
        if code.is_dir():
            read_manifest(code)
        declared = declared_worker(code)
        environment = worker_environment(inherited, declared.env)
        if declared.command:
            program = cls._build(declared.command, code, inherited, _digest_of(code))
        else:
            argv = (sys.executable, "-P", "-m", "bollard.runtime", str(code))
            folder = code if code.is_dir() else code.parent
            program = cls(argv=argv, folder=folder, environment=environment, digest=_digest_of(code))
        return replace(program, environment=environment, declared=declared, code=code, level=level_of(inherited))

    @classmethod
    def of_command(cls, command: Sequence[str], folder: Path, inherited: Mapping[str, str]) -> Self:
        """A command that a person typed in `folder`. Its words are part of its digest. Raises `PluginLoadError`."""
        code = _digest_of(code_of(command, folder))
        digest = hashlib.sha256(json.dumps([*command, code]).encode()).hexdigest()
        return cls._build(command, folder, inherited, digest)

    @classmethod
    def _build(cls, command: Sequence[str], folder: Path, inherited: Mapping[str, str], digest: str) -> Self:
        # The person at this machine started the runtime, so the program gets that environment, but no token of Bollard.
        environment = {name: value for name, value in inherited.items() if not name.upper().startswith("BOLLARD_")}
        try:
            argv = worker_argv(command, folder, environment)
        except OSError as error:
            raise _unusable(shlex.join(command), str(error), _os_problem(error)) from error
        return cls(argv=tuple(argv), folder=folder, environment=environment, digest=digest)


def _digest_of(path: Path) -> str:
    """The digest of a folder or file, within the limits of a plugin. Raises `PluginLoadError`."""
    size = 0
    for files, (_, file) in enumerate(plugin_files(path), start=1):
        size += file.stat().st_size
        if files > PROGRAM_FILES or size > PROGRAM_BYTES:
            problem = f"{path} has more than {PROGRAM_FILES} files or {PROGRAM_BYTES} bytes"
            details: JsonObject = {"problem_type": "plugin.too_large", "files": PROGRAM_FILES, "limit": PROGRAM_BYTES}
            raise _unusable(path.name, problem, details, "put the program into a folder of its own")
    try:
        return digest_of_plugin(path)
    except PluginFileError as error:
        raise _unusable(
            path.name, str(error), {"problem_type": "plugin.unreadable"}, "make the file readable"
        ) from error


class ProgramRelay:
    """Serves one program over one connection until the host or the program is done."""

    def __init__(self, host: Transport, program: Program, tell: Callable[[str], None]) -> None:
        """`tell` gets the program's output before the host knows it."""
        self._host: Final = host
        self._program: Final = program
        self._tell: Final = tell
        self._loop: Final = asyncio.get_running_loop()
        self._log_gate: Final = LogLimiter(self._loop.time())
        self._ended: Final[asyncio.Future[str]] = self._loop.create_future()
        self._hung_up: Final = asyncio.Event()
        """Set when the connection to the host is closed."""
        self._disconnected: Final = asyncio.Event()
        """Set when the connection to the program is closed."""
        self._sandbox: ConfinedWorker | None = None
        """The sandbox of the program, if it has one."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._introduced = False
        self.heard_at = self._loop.time()
        """When the last frame of the host arrived, on the loop's clock."""
        self.dismissed = False
        """Whether the host has sent `shutdown`."""
        self.exit_code: int | None = None
        """The exit code of a program that ended by itself."""

    async def serve(self) -> str:
        """Relay until one side ends, and return the reason. The program then has `EXIT_GRACE_S` to exit."""
        try:
            process = await self._start()
        except OSError as error:
            self._host.close("the program cannot be started")
            raise _unusable(shlex.join(self._program.argv), str(error), _os_problem(error)) from error
        except ConfineError as error:
            self._host.close("the program cannot be confined")
            raise _unusable(shlex.join(self._program.argv), error.message, {**error.details}, error.hint) from error
        self._process = process
        watching = self._spawn(self._watch_exit(process))
        self._host.start(_Side(self._from_host, self._host_lost))
        process.transport.start(_Side(self._from_program, self._program_lost))
        reason = await self._ended
        watching.cancel()
        if self.exit_code is None:
            await process.stop(EXIT_GRACE_S)
        else:
            await process.kill()  # its children
        if self._sandbox is not None:
            if self._sandbox.memory_kills:
                self._tell("its memory was used up; spec.sandbox.memory_mib of its manifest asks for more")
            await self._sandbox.close()
        self._host.close(reason)
        with contextlib.suppress(TimeoutError):  # the last frames leave first
            await asyncio.wait_for(self._hung_up.wait(), EXIT_GRACE_S)
        return reason

    async def _start(self) -> WorkerProcess:
        """Start the program, confined if it is a plugin: it must not read the key of this runtime."""
        program = self._program
        if program.declared is not None:
            self._sandbox = await confine_plugin(
                program.level,
                program.argv,
                code=program.code,
                declared=program.declared,
                environment=os.environ,
                descriptor_variable=CHANNEL_FD_VARIABLE,
                note=self._connected,
            )
        if (sandbox := self._sandbox) is None:
            return await spawn_worker(
                program.argv, environment=program.environment, output=self._printed, cwd=program.folder
            )
        process: WorkerProcess | None = None
        try:
            process = await spawn_worker(
                sandbox.argv,
                environment=sandbox.environment(program.environment),
                output=self._printed,
                descriptors=sandbox.descriptors,
            )
            await sandbox.start()
        except BaseException:
            if process is not None:
                await process.kill()
            await sandbox.close()
            raise
        return process

    def hang_up(self, reason: str) -> None:
        """End the relay."""
        self._end(reason)

    async def _watch_exit(self, process: WorkerProcess) -> None:
        code = await process.wait()
        await self._disconnected.wait()  # its last frames are relayed
        self.exit_code = code
        self._end(f"the program ended with code {code}")

    def _host_lost(self, reason: str) -> None:
        self._hung_up.set()
        self._end(reason)

    def _program_lost(self, reason: str) -> None:
        """The program closed its connection, and has the grace to exit, or reads nothing any more."""
        del reason
        self._disconnected.set()
        self._spawn(self._stop())

    async def _stop(self) -> None:
        await self._process.stop(EXIT_GRACE_S)

    def _end(self, reason: str) -> None:
        if not self._ended.done():
            self._ended.set_result(reason)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # --- frames ---

    def _from_host(self, frames: list[bytes | FrameError]) -> None:
        self.heard_at = self._loop.time()
        for frame in frames:
            if isinstance(frame, FrameError):
                self._tell(f"a frame of the host is dropped: {frame}")
                continue
            if b'"shutdown"' in frame and _member(frame, "method") == "shutdown":
                self.dismissed = True
            self._process.transport.send(frame)
        self._slow_down(self._host, self._process.transport)

    def _from_program(self, frames: list[bytes | FrameError]) -> None:
        for frame in frames:
            if isinstance(frame, FrameError):
                self._log("warning", f"a frame of the program is dropped: {frame}", {})
            else:
                self._host.send(frame if self._introduced else self._introduce(frame))
        self._slow_down(self._process.transport, self._host)

    def _introduce(self, frame: bytes) -> bytes:
        """Add the digest to the answer to `initialize`. Other frames stay as they are."""
        result = _member(frame, "result")
        plugin = result.get("plugin") if isinstance(result, dict) else None
        if not isinstance(result, dict) or not isinstance(plugin, dict):
            return frame
        self._introduced = True
        if plugin.get("digest") is not None:
            return frame
        message: JsonObject = {"jsonrpc": "2.0", "id": _member(frame, "id")}
        return encode({**message, "result": {**result, "plugin": {**plugin, "digest": self._program.digest}}})

    def _slow_down(self, source: Transport, target: Transport) -> None:
        """Read no more from one side while the other one is congested."""
        if target.congested:
            source.pause_reading()
            self._spawn(self._resume(source, target))

    async def _resume(self, source: Transport, target: Transport) -> None:
        try:
            await target.drain()
        except WireError:
            return  # the target is closed, and the relay ends
        source.resume_reading()

    # --- output ---

    def _printed(self, stream: PipeName, line: str) -> None:
        if not self._introduced:
            self._tell(line)
            return
        self._log("info" if stream == "stdout" else "warning", line, {"stream": stream})

    def _connected(self, found: ConnectionSum) -> None:
        """Report connections of the plugin in its log, the only message that the protocol has for them."""
        if not self._introduced:
            self._tell(connection_sentence(found))
            return
        fields: JsonObject = {"host": found.host, "port": found.port, "outcome": found.outcome, "count": found.count}
        self._log("info" if found.outcome == "closed" else "warning", connection_sentence(found), fields)

    def _log(self, level: str, message: str, fields: JsonObject) -> None:
        dropped = self._log_gate.admit(self._loop.time())
        if dropped is None or self._ended.done():
            return
        counted: JsonObject = {**fields, "dropped": dropped} if dropped else fields
        message = make_sendable(message[:LOG_MESSAGE_CHARACTERS])
        record: JsonObject = {"level": level, "message": message, "fields": counted}
        self._host.send(encode_notification("log", record))


@dataclass(frozen=True, slots=True)
class _Side:
    """The `Receiver` of one connection."""

    take: Callable[[list[bytes | FrameError]], None]
    lost: Callable[[str], None]

    def frames_received(self, frames: list[bytes | FrameError]) -> None:
        self.take(frames)

    def connection_lost(self, reason: str) -> None:
        self.lost(reason)


def _member(frame: bytes, name: str) -> JsonValue:
    """One member of a frame that is an object; `None` where there is none."""
    try:
        message = decode(frame)
    except WireError:
        return None
    return message.get(name) if isinstance(message, dict) else None
