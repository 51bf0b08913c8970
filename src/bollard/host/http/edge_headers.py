"""What every answer carries, whatever it is: the headers that tell a browser to do as little as possible with it.

They are bytes that are made once: an answer's head is on the hot path.
"""

from typing import Final

__all__ = ["CACHE_HEADER", "POLICY_HEADER", "fixed_headers"]

_FIXED: Final = (
    b"x-content-type-options: nosniff\r\n"
    b"x-frame-options: DENY\r\n"
    b"referrer-policy: no-referrer\r\n"
    b"cross-origin-opener-policy: same-origin\r\n"
    b"cross-origin-resource-policy: same-origin\r\n"
)
_ONLY_TLS: Final = b"strict-transport-security: max-age=31536000\r\n"
POLICY_HEADER: Final = (
    b"content-security-policy: "
    b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox\r\n"
)
"""For every answer that does not bring its own policy: nothing of it is a page."""
CACHE_HEADER: Final = b"cache-control: no-store\r\n"
"""For every answer that does not say how long it may be kept."""


def fixed_headers(*, tls: bool) -> bytes:
    """The same for every answer of a host."""
    return _FIXED + _ONLY_TLS if tls else _FIXED
