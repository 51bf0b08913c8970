"""`python -m bollard.mcp_bridge`: the process that speaks MCP. The host starts it with a channel on an inherited
socket, and it ends with that channel."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys

from bollard.mcp_bridge.bridge import Bridge
from bollard.protocol import CHANNEL_FD_VARIABLE
from bollard.wire.bridge_frames import BRIDGE_FRAME_BYTES
from bollard.wire.stream import connect_socket

_EXIT_CHANNEL = 4
_COLLECT_AFTER = 20_000
"""Objects more than before, after which the collector looks."""


async def _serve(channel: socket.socket) -> None:
    transport = await connect_socket(channel, BRIDGE_FRAME_BYTES)
    bridge = Bridge(transport)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, bridge.connection_lost, "it was asked to end")
    gc.freeze()  # what is loaded by now stays
    gc.set_threshold(_COLLECT_AFTER, 20, 20)  # messages make much that goes by itself
    await bridge.serve()


def main() -> int:
    """Serve until the host is gone."""
    number = os.environ.pop(CHANNEL_FD_VARIABLE, None)
    if number is None:
        sys.stderr.write(f"{CHANNEL_FD_VARIABLE} is not set: the host starts this by itself\n")
        return _EXIT_CHANNEL
    channel = socket.socket(fileno=int(number))
    channel.set_inheritable(False)
    # The SDK writes what servers send, and that may hold anything, into its log.
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the host is asked, and asks
    asyncio.run(_serve(channel))
    return 0


if __name__ == "__main__":
    sys.exit(main())
