"""Where a remote runtime dials: reads the address, and refuses to speak in the clear to another machine. Pure."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from bollard.wire import IncompatiblePeer
from bollard.wire.addresses import is_loopback

__all__ = ["HostAddress", "check_privacy", "read_address"]

_SCHEMES: Final = {"ws": False, "http": False, "wss": True, "https": True}
_PORTS: Final = {False: 80, True: 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAddress:
    """A host, and the path below which it answers."""

    secure: bool
    host: str
    port: int
    prefix: str

    @property
    def authority(self) -> str:
        """`host:port`, as a URL has it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def socket_url(self, path: str) -> str:
        return f"{'wss' if self.secure else 'ws'}://{self.authority}{self.prefix}{path}"


def read_address(url: str) -> HostAddress:
    """Raises `IncompatiblePeer` for what is no address, or would be spoken in the clear."""
    parts = _split(url)
    secure = _SCHEMES.get(parts.scheme)
    if secure is None or not parts.hostname or parts.username is not None or parts.query or parts.fragment:
        raise IncompatiblePeer(f"{url!r} is not the address of a host", "use wss://host, or ws://127.0.0.1:8420")
    check_privacy(url)
    return HostAddress(
        secure=secure, host=parts.hostname, port=parts.port or _PORTS[secure], prefix=parts.path.rstrip("/")
    )


def check_privacy(url: str) -> None:
    """Without TLS only to this machine. Raises `IncompatiblePeer`."""
    parts = _split(url)
    if not _SCHEMES.get(parts.scheme, True) and not is_loopback(parts.hostname or ""):
        raise IncompatiblePeer(
            f"{url!r} would be spoken in the clear to another machine",
            "use wss://; ws:// is for this machine's own addresses only",
        )


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise IncompatiblePeer(f"{url!r} is not an address", "use wss://host, or ws://127.0.0.1:8420") from error
    return parts
