"""`python relayed_worker.py COMMAND…`: a worker behind the relay of a remote runtime, on an inherited socket."""

import asyncio
import os
import socket
import sys
from pathlib import Path

from bollard.runtime.program import Program, ProgramRelay
from bollard.wire import connect_socket


async def main() -> int:
    channel = socket.socket(fileno=int(os.environ.pop("BOLLARD_CHANNEL_FD")))
    program = Program.of_command(sys.argv[1:], Path.cwd(), os.environ)
    relay = ProgramRelay(await connect_socket(channel), program, lambda line: print(line, file=sys.stderr))
    await relay.serve()
    return relay.exit_code or 0


if __name__ == "__main__":
    os._exit(asyncio.run(main()))
