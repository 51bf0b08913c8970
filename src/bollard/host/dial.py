"""Blocking HTTP connections for threads of their own: to the witness, and to the collector of spans."""

import http.client
import socket
import ssl
from collections.abc import Callable

Dial = Callable[[tuple[str, int], float], socket.socket]
"""Connects to a host and port within so many seconds. Raises `OSError`."""


def open_connection(
    host: str, port: int | None, *, tls: ssl.SSLContext | None, within_s: float, dial: Dial
) -> http.client.HTTPConnection:
    """Connect, with TLS if there is a context. `within_s` limits each wait. Raises `OSError`."""
    if tls is None:
        connection = http.client.HTTPConnection(host, port, timeout=within_s)
    else:
        connection = http.client.HTTPSConnection(host, port, timeout=within_s, context=tls)
    sock = dial((host, connection.port), within_s)
    try:
        connection.sock = sock if tls is None else tls.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise
    return connection
