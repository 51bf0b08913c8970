"""One knowledge process and the socket to it: started, greeted, asked, ended. When to start one, the engine knows."""

import asyncio
import contextlib
import os
import socket
import sys
from typing import Final, Protocol

import msgspec

from bollard.host.errors import KnowledgeUnavailable
from bollard.wire import worker_environment
from bollard.wire.knowledge_frames import (
    HOST_PID_VARIABLE,
    LENGTH_BYTES,
    Answer,
    Begin,
    Busy,
    Close,
    FromHost,
    FromKnowledge,
    Opened,
    Refused,
    decode_from_knowledge,
    framed,
    length_of,
)

__all__ = ["AGAIN", "KnowledgeLink"]

STOP_S: Final = 15.0
"""Time that the process has to end in good order."""
AGAIN: Final = "ask again; it is started anew"


class Lost(Protocol):
    """Who hears that a process ended."""

    def __call__(self, link: "KnowledgeLink", *, orderly: bool) -> None: ...


class KnowledgeLink:
    """One process, and the socket to it."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        lost: Lost,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._lost = lost
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._orderly = False
        self._sending = asyncio.Lock()
        self.busy = False
        self.vectors = ""
        """Who finds the nearest: `process`, or `database` where PostgreSQL has pgvector."""
        self._hearing = asyncio.create_task(self._hear())

    @classmethod
    async def start(cls, lost: Lost) -> "KnowledgeLink":
        ours, theirs = socket.socketpair()
        try:
            environment = worker_environment(os.environ, [name for name in os.environ if name.startswith("PG")])
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "bollard.knowledge", str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                env={**environment, HOST_PID_VARIABLE: str(os.getpid()), "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise KnowledgeUnavailable(f"the knowledge process cannot be started: {error}", hint=AGAIN) from error
        finally:
            theirs.close()
        reader, writer = await asyncio.open_connection(sock=ours)
        return cls(process, reader, writer, lost)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def waiting(self) -> bool:
        """Whether somebody waits for an answer."""
        return bool(self._answers)

    async def begin(self, begin: Begin) -> None:
        """Raises `KnowledgeUnavailable`."""
        await self._send(begin)
        await asyncio.shield(self._opened)

    async def ask(self, call: int, order: FromHost) -> Answer:
        """Raises `KnowledgeUnavailable` when the process ends meanwhile."""
        if self._hearing.done():
            raise _gone()
        answer = self._answers[call] = asyncio.get_running_loop().create_future()
        try:
            await self._send(order)
            return await answer
        finally:
            self._answers.pop(call, None)
            if answer.done() and not answer.cancelled():
                answer.exception()  # the process may have ended while the order was on its way: that is said once

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def stop(self) -> None:
        """In good order, or by force."""
        self._orderly = True
        with contextlib.suppress(TimeoutError, KnowledgeUnavailable):
            async with asyncio.timeout(STOP_S):
                await self._send(Close())
                await self._process.wait()
        await self.end()

    async def end(self) -> None:
        """Now, and wait for that."""
        self.kill()
        await asyncio.shield(self._hearing)

    async def _send(self, message: FromHost) -> None:
        """A frame is sent whole even when its caller leaves: half of one would be the last."""
        async with self._sending:
            try:
                self._writer.write(framed(message))
                await self._writer.drain()
            except OSError:
                raise _gone() from None

    async def _hear(self) -> None:
        try:
            while True:
                body = await self._reader.readexactly(length_of(await self._reader.readexactly(LENGTH_BYTES)))
                self._heard(decode_from_knowledge(body))
        except (asyncio.IncompleteReadError, OSError, ValueError, msgspec.MsgspecError):
            pass  # it ended, or speaks of something else: both are its end
        self.kill()
        await self._process.wait()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
        for waiting in (self._opened, *self._answers.values()):
            if not waiting.done():
                waiting.set_exception(_gone())
        self._opened.exception()  # nobody may have waited for it
        self._lost(self, orderly=self._orderly)

    def _heard(self, said: FromKnowledge) -> None:
        match said:
            case Opened():
                self.vectors = said.vectors
                self._opened.set_result(None)
            case Refused():
                self._opened.set_exception(KnowledgeUnavailable(said.message, hint=said.hint))
            case Busy():
                self.busy = said.busy
            case _:
                waiting = self._answers.get(said.call)
                if waiting is not None and not waiting.done():
                    waiting.set_result(said)


def _gone() -> KnowledgeUnavailable:
    return KnowledgeUnavailable("the knowledge process has ended", hint=AGAIN, outcome="unknown")
