"""The errors of `bollard.sdk.http` and `bollard.sdk.websocket`, as one tree below `SdkError`.

NetworkError
├── PermissionMissing    the plugin has no consent to the name
├── NotConnected         no connection was made, so the request had no effect
├── NoAnswer             the request was sent, and no complete answer came; it may have had an effect
├── AnswerTooLarge       the answer or message is larger than the limit
├── InvalidAnswer        the answer is not what the caller asked for, such as JSON
├── BadStatus            the server refused the request, or failed
└── SocketClosed         the other side closed the WebSocket, or it broke
"""

import os
from urllib.parse import urlsplit

from bollard.sdk.errors import SdkError

PERMISSION = "spec.sandbox.network"
"""The permission that the proxy of the host names when it refuses a connection."""


_NETWORK_VARIABLE = "BOLLARD_SANDBOX_NETWORK"
"""Is `none` in a sandbox without a network."""
_OWN = ("127.0.0.1", "::1", "localhost")


class NetworkError(SdkError):
    """Root of the tree. `place` is the URL without its query, which may hold a secret."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem


class PermissionMissing(NetworkError):
    """The plugin has no consent to this name: add it to `spec.sandbox.network` of the manifest."""


def not_connected(place: str, problem: str) -> NetworkError:
    """The error of a connection that was not made: `PermissionMissing` if the sandbox has no network."""
    if os.environ.get(_NETWORK_VARIABLE) == "none" and urlsplit(place).hostname not in _OWN:
        return PermissionMissing(place, f"{PERMISSION} of this plugin is none: {problem}")
    return NotConnected(place, problem)


class NotConnected(NetworkError):
    """No connection was made. The request had no effect, so it can be repeated."""


class NoAnswer(NetworkError):
    """The request was sent, and no complete answer came. It may have had an effect."""


class AnswerTooLarge(NetworkError):
    """The answer is larger than `limit` bytes."""

    def __init__(self, place: str, limit: int) -> None:
        super().__init__(place, f"the answer is larger than {limit} bytes")
        self.limit = limit


class InvalidAnswer(NetworkError):
    """The answer is not what the caller asked for."""


class BadStatus(NetworkError):
    """The server answered with a status of 400 or more. `body` is the beginning of its answer."""

    def __init__(self, place: str, status: int, body: bytes) -> None:
        super().__init__(place, f"status {status}")
        self.status = status
        self.body = body


class SocketClosed(NetworkError):
    """The WebSocket is closed. `code` is that of the close frame, or 1006 if there was none."""

    def __init__(self, place: str, code: int, reason: str) -> None:
        super().__init__(place, f"closed with code {code}" + (f": {reason}" if reason else ""))
        self.code = code
        self.reason = reason
