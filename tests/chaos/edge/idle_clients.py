"""Opens connections without requests, in a separate process: port and number as arguments. Prints `open` when all are
connected, and their number when the peer has closed the last of them."""

import contextlib
import resource
import selectors
import socket
import sys


def main() -> None:
    port, number = int(sys.argv[1]), int(sys.argv[2])
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    watched = selectors.DefaultSelector()
    for _ in range(number):
        client = socket.create_connection(("127.0.0.1", port))
        watched.register(client, selectors.EVENT_READ)
    print("open", flush=True)
    ended = 0
    while ended < number:
        for key, _ in watched.select():
            if _is_over(key.fileobj):
                watched.unregister(key.fileobj)
                key.fileobj.close()
                ended += 1
    print(ended, flush=True)


def _is_over(client) -> bool:
    with contextlib.suppress(ConnectionError):
        return client.recv(4096) == b""
    return True


main()
