"""Whether a page in a browser may ask this: by `Origin` and `Sec-Fetch-Site`, which a page cannot forge. Pure.

Only what a browser would send by itself is guarded here: requests with our cookie, requests that change something, and
WebSockets. Whoever is no browser sends neither header and needs a token anyway.
"""

from collections.abc import Iterable
from typing import Final

from bollard.host.errors import HostError
from bollard.host.http.errors import ForbiddenOrigin
from bollard.host.settings import Settings

__all__ = ["SAFE_METHODS", "OriginRules", "Said", "said_in"]

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""What changes nothing."""
_NEAR: Final = frozenset({b"same-origin", b"none"})
"""What `Sec-Fetch-Site` says of our own pages and of what a person typed."""
_COOKIE: Final = b"bollard="
"""The end of both names of our cookie."""
_READ: Final = frozenset({b"origin", b"sec-fetch-site", b"cookie", b"host"})


class Said:
    """What a request says about where it comes from and where it goes."""

    __slots__ = ("cookie", "host", "origin", "site")

    def __init__(self) -> None:
        self.origin: bytes | None = None
        self.site: bytes | None = None
        self.host: bytes | None = None
        self.cookie = False


def said_in(headers: Iterable[tuple[bytes, bytes]]) -> Said:
    """One pass over the headers: this is on the hot path."""
    said = Said()
    for name, value in headers:
        if name in _READ:
            if name == b"host":
                said.host = value
            elif name == b"origin":
                # Two of them are as good as a foreign one.
                said.origin = value if said.origin is None else b"null"
            elif name == b"sec-fetch-site":
                said.site = value
            elif _COOKIE in value:
                said.cookie = True
    return said


class OriginRules:
    """The origins that may ask: those of the settings, and the host's own address."""

    def __init__(self, settings: Settings) -> None:
        self._listed = frozenset(origin.encode() for origin in settings.origins)

    def is_listed(self, origin: bytes) -> bool:
        """Whether pages of this origin may read our answers (CORS)."""
        return origin in self._listed

    def check(self, said: Said, scheme: str, *, guarded: bool) -> HostError | None:
        """Why a page may not ask this. `guarded`: it changes something, or opens a WebSocket."""
        if said.origin is not None:
            if said.origin in self._listed or self._is_own(said, scheme) or not (guarded or said.cookie):
                return None
            shown = said.origin.decode("latin-1")[:200]
            return ForbiddenOrigin(
                f"pages of {shown} may not ask this host",
                hint=f"if they may, add it to the setting origins: {shown}",
            )
        if said.site is not None:
            if said.site in _NEAR or not (guarded or said.cookie):
                return None
            return ForbiddenOrigin(
                "a page of another site asks", hint="ask from a page of an origin in the setting origins"
            )
        if guarded and said.cookie:  # every browser says where such a request comes from
            return ForbiddenOrigin(
                "a request with the session's cookie must say where it comes from",
                hint="send the Origin header, or `Authorization: Bearer …` instead of the cookie",
            )
        return None

    @staticmethod
    def _is_own(said: Said, scheme: str) -> bool:
        """The page came from the address that it asks. `Host` was checked before."""
        secure = scheme in ("https", "wss")
        return said.host is not None and said.origin == (b"https://" if secure else b"http://") + said.host.lower()
