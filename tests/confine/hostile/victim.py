"""A process of the host's user with a secret in its memory: `victim.py KEY NOTES`. It notes signals of input."""

import ctypes
import json
import os
import signal
import sys


def main() -> None:
    canary = ctypes.create_string_buffer(b"canary")
    room = ctypes.create_string_buffer(3 * 4096)
    descriptor = os.open(sys.argv[1], os.O_RDONLY)
    signal.signal(signal.SIGURG, lambda *_: None)
    signal.signal(signal.SIGIO, lambda *_: open(sys.argv[2], "w").close())
    print(
        json.dumps(
            {
                "victim": os.getpid(),
                "victim_group": os.getpgrp(),
                "victim_address": ctypes.addressof(canary),
                "victim_scratch": ctypes.addressof(room) + 4096,
                "victim_descriptor": descriptor,
            }
        ),
        flush=True,
    )
    sys.stdin.read()


if __name__ == "__main__":
    main()
