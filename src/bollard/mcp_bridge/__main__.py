"""`python -m bollard.mcp_bridge`: the MCP bridge process. The host starts it with an inherited socket; it ends when the
socket closes."""

import asyncio
import gc
import logging
import signal
import socket
import sys

from bollard.helper.host_link import STOP_SIGNALS, host_socket
from bollard.mcp_bridge.bridge import Bridge

_COLLECT_AFTER = 20_000
"""New objects before a garbage collection."""


async def _serve(channel: socket.socket) -> None:
    bridge = Bridge(channel)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, bridge.end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    gc.freeze()  # loaded modules live as long as the process
    gc.set_threshold(_COLLECT_AFTER, 20, 20)  # most objects of a message are freed by reference counting
    await bridge.serve()


def main() -> int:
    """Serve until the host closes the socket."""
    channel = host_socket()
    # The SDK logs messages of servers, which may contain secrets.
    logging.disable(logging.CRITICAL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the host decides when the bridge stops
    asyncio.run(_serve(channel))
    return 0


if __name__ == "__main__":
    sys.exit(main())
