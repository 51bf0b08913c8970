"""`python -m bollard.mcp_bridge`: the process that speaks MCP. The host starts it with a channel on an inherited
socket, and it ends with that channel."""

import asyncio
import gc
import logging
import signal
import socket
import sys

from bollard.helper.host_link import STOP_SIGNALS, host_socket
from bollard.mcp_bridge.bridge import Bridge

_COLLECT_AFTER = 20_000
"""Objects more than before, after which the collector looks."""


async def _serve(channel: socket.socket) -> None:
    bridge = Bridge(channel)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, bridge.end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    gc.freeze()  # what is loaded by now stays
    gc.set_threshold(_COLLECT_AFTER, 20, 20)  # messages make much that goes by itself
    await bridge.serve()


def main() -> int:
    """Serve until the host is gone."""
    channel = host_socket()
    # The SDK writes what servers send, and that may hold anything, into its log.
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the host is asked, and asks
    asyncio.run(_serve(channel))
    return 0


if __name__ == "__main__":
    sys.exit(main())
