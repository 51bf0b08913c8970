"""`python -m bollard.mcp_bridge`: the MCP bridge process. The host starts it with an inherited socket; it ends when the
socket closes."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from typing import Final

import msgspec

from bollard.confine.helper import confine_helper
from bollard.helper.host_link import STOP_SIGNALS, deny_inspection, host_socket
from bollard.helper.process import FrameLink, LinkLimits
from bollard.mcp_bridge.dialer import Dialer
from bollard.mcp_bridge.link import NOT_CONNECTED, Link, undone
from bollard.mcp_bridge.login import LoginFlow
from bollard.mcp_bridge.stdio import Pipes
from bollard.mcp_bridge.translation import failed_result
from bollard.wire import bridge_frames as frames
from bollard.wire.limits import WRITE_HARD_LIMIT_BYTES, WRITE_STALL_S

_TOO_LARGE: Final = "the answer of the server is too large"


class Bridge:
    """Owns the connections, calls and logins of this process."""

    def __init__(self, channel: socket.socket, pipes: socket.socket) -> None:
        """The pipes of each server, and the socket of each connection, arrive on `pipes` before their message does."""
        self._pipes = pipes
        self._host = FrameLink(
            channel,
            decode=frames.to_bridge,
            heard=self._execute,
            lost=self.end,
            limits=LinkLimits(
                frame_bytes=frames.BRIDGE_FRAME_BYTES, unsent_bytes=WRITE_HARD_LIMIT_BYTES, stall_s=WRITE_STALL_S
            ),
        )
        self._links: dict[int, tuple[Link, asyncio.Task[None]]] = {}
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._logins: dict[int, tuple[LoginFlow, asyncio.Task[None]]] = {}
        self._dialer = Dialer(self._send, self._received_socket)
        self._large_frames = asyncio.Lock()
        self._ended = asyncio.Event()

    def end(self) -> None:
        """Let `serve` end."""
        self._ended.set()

    async def serve(self) -> None:
        """Serve until `end`. Every server has ended when this returns."""
        await self._ended.wait()
        tasks = [task for _, task in (*self._links.values(), *self._logins.values())]
        for task in (*self._calls.values(), *tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- orders ---

    def _execute(self, order: frames.ToBridge) -> None:
        match order:
            case frames.OpenStdio():
                self._open(order, Link(order, self._send, self._dialer, _received_pipes(self._pipes)))
            case frames.OpenHttp():
                self._open(order, Link(order, self._send, self._dialer))
            case frames.Close() | frames.Exited() | frames.Refresh():
                if (found := self._links.get(order.link)) is not None:
                    _steer(*found, order)
            case frames.MakeCall():
                task = asyncio.create_task(self._call(order))
                self._calls[order.call] = task
                task.add_done_callback(lambda _: self._calls.pop(order.call, None))
            case frames.CancelCall():
                if (running := self._calls.get(order.call)) is not None:
                    running.cancel()
            case frames.BeginLogin() | frames.FinishLogin() | frames.DropLogin():
                self._log_in(order)
            case frames.Dialled():
                self._dialer.answered(order)
            case frames.Ping():
                self._send(frames.Pong(number=order.number))

    def _open(self, order: frames.OpenStdio | frames.OpenHttp, link: Link) -> None:
        task = asyncio.create_task(link.run())
        self._links[order.link] = link, task
        task.add_done_callback(lambda _: self._left(order.link, link))

    def _left(self, number: int, link: Link) -> None:
        del self._links[number]
        link.release()

    def _received_socket(self) -> socket.socket | None:
        """The next socket; `None` if this process has too many open files."""
        descriptors = _received(self._pipes, 1)
        return socket.socket(fileno=descriptors[0]) if descriptors else None

    def _log_in(self, order: frames.BeginLogin | frames.FinishLogin | frames.DropLogin) -> None:
        if isinstance(order, frames.BeginLogin):
            flow = LoginFlow(order, self._send, self._dialer)
            task = asyncio.create_task(flow.run())
            self._logins[order.login] = flow, task
            task.add_done_callback(lambda _: self._logins.pop(order.login, None))
        elif (found := self._logins.get(order.login)) is None:
            return  # it has ended and reported so
        elif isinstance(order, frames.FinishLogin):
            found[0].finish(order)
        else:
            found[1].cancel()

    async def _call(self, order: frames.MakeCall) -> None:
        found = self._links.get(order.link)
        if found is None:
            self._send(undone(order.call, NOT_CONNECTED, sent=False))
            return
        frame = _encode_answer(await found[0].call(order))
        async with self._large_frames:  # one large answer at a time: the channel limits its unsent bytes
            await self._host.drain()
            self._host.send(frame)

    def _send(self, message: frames.ToHost) -> None:
        if not self._ended.is_set():
            self._host.send(frames.encode_frame(message))


def _steer(link: Link, task: "asyncio.Task[None]", order: frames.Close | frames.Exited | frames.Refresh) -> None:
    match order:
        case frames.Close():
            task.cancel()
        case frames.Exited():
            link.exited(order.code)
        case frames.Refresh():
            link.refresh()


def _received_pipes(pipes: socket.socket) -> Pipes | None:
    """The pipes of the next server; `None` if this process has too many open files."""
    match _received(pipes, 3):
        case [stdin, stdout, stderr]:
            return stdin, stdout, stderr
        case _:
            return None


def _received(pipes: socket.socket, count: int) -> list[int]:
    """The descriptors of the next message; none if this process has no room for all of them."""
    try:
        descriptors = socket.recv_fds(pipes, 1, count)[1]
    except OSError:
        return []
    if len(descriptors) == count:
        return descriptors
    for each in descriptors:
        os.close(each)
    return []


def _encode_answer(answer: frames.Returned | frames.Undone) -> bytes:
    try:
        frame = frames.encode_frame(answer)
    except (ValueError, OverflowError, msgspec.MsgspecError) as error:
        return frames.encode_frame(failed_result(answer.call, f"the answer of the server cannot be written: {error}"))
    return (
        frame
        if len(frame) <= frames.BRIDGE_FRAME_BYTES
        else frames.encode_frame(failed_result(answer.call, _TOO_LARGE))
    )


_COLLECT_AFTER = 20_000
"""New objects before a garbage collection."""


async def _serve(channel: socket.socket, pipes: socket.socket) -> None:
    bridge = Bridge(channel, pipes)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, bridge.end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    gc.freeze()  # loaded modules live as long as the process
    gc.set_threshold(_COLLECT_AFTER, 20, 20)  # most objects of a message are freed by reference counting
    await bridge.serve()


def main() -> int:
    """Serve until the host closes the socket."""
    deny_inspection()
    channel = host_socket()
    pipes = socket.socket(fileno=int(sys.argv[2]))
    pipes.set_inheritable(False)
    pipes.setblocking(False)
    if frames.CONFINED in sys.argv[3:]:
        confine_helper()  # the host opens its connections
    # The SDK logs messages of servers, which may contain secrets.
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the host decides when the bridge stops
    asyncio.run(_serve(channel, pipes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
