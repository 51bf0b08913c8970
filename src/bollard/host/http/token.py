"""The admin token: made at first start, shown once, kept as a digest. Who holds it may do everything."""

import hashlib
import hmac
import secrets
from pathlib import Path

__all__ = ["AdminToken"]


class AdminToken:
    """Checks bearer tokens against the digest in the data directory."""

    def __init__(self, digest: str) -> None:
        self._digest = digest

    @classmethod
    def open(cls, path: Path) -> "tuple[AdminToken, str | None]":
        """The token's check, and the token itself when it was made just now."""
        if path.exists():
            return cls(path.read_text(encoding="ascii").strip()), None
        token = f"bollard_{secrets.token_urlsafe(32)}"
        digest = hashlib.sha256(token.encode()).hexdigest()
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")  # whole or not at all: half a digest would lock everyone out
        fresh.touch(mode=0o600)
        fresh.write_text(digest + "\n", encoding="ascii")
        fresh.replace(path)
        return cls(digest), token

    def allows(self, authorization: str | None) -> bool:
        """Whether an `Authorization` header holds the token."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return False
        given = hashlib.sha256(token.strip().encode()).hexdigest()
        return hmac.compare_digest(given, self._digest)
