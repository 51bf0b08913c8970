"""The headers of the console. They differ from the headers of the API: a page may run its own scripts."""

import secrets
from typing import Final

NONCE: Final = "__CSP_NONCE__"
"""In `index.html` the host replaces this with the nonce of the response."""
TRUSTED_TYPES: Final = ("bollard", "dompurify", "default")
"""The Trusted Types policies that the console may create. Empty switches Trusted Types off."""

_PAGE: Final = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self' 'nonce-{nonce}'",
    "img-src 'self' data: blob:",
    "font-src 'self'",
    "connect-src 'self'",
    "media-src 'self' blob:",
    "manifest-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    *(("require-trusted-types-for 'script'", f"trusted-types {' '.join(TRUSTED_TYPES)}") if TRUSTED_TYPES else ()),
)
_NOTICE: Final = (
    "default-src 'none'",
    "script-src 'nonce-{nonce}'",
    "style-src 'nonce-{nonce}'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
)
_PERMISSIONS: Final = ", ".join(
    f"{feature}=()"
    for feature in ("camera", "display-capture", "geolocation", "microphone", "payment", "serial", "usb")
)


def new_nonce() -> str:
    return secrets.token_urlsafe(16)


def page_headers(nonce: str) -> dict[str, str]:
    """The headers of the console page."""
    return _headers(_PAGE, nonce)


def notice_headers(nonce: str) -> dict[str, str]:
    """The headers of the page of a host without a console."""
    return _headers(_NOTICE, nonce)


def _headers(policy: tuple[str, ...], nonce: str) -> dict[str, str]:
    return {
        "content-security-policy": "; ".join(policy).replace("{nonce}", nonce),
        "permissions-policy": _PERMISSIONS,
        "vary": "Accept",
    }
