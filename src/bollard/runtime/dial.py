"""The connection of a worker to its host: an inherited socket, or a WebSocket to a remote host."""

import argparse
import os
import socket
from collections.abc import Awaitable, Callable

from bollard.extras import install_command
from bollard.protocol import CHANNEL_FD_VARIABLE
from bollard.runtime.process import detach_forked_children, write_stderr
from bollard.wire import ChannelClosed, IncompatiblePeer, Transport, connect_socket

Dial = Callable[[], Awaitable[Transport]]


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


def prepare_dial(arguments: argparse.Namespace) -> Dial:
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
            tell=write_stderr,
        )
        write_stderr(f"connected to {address.authority}")
        return transport

    return connect_enrolled
