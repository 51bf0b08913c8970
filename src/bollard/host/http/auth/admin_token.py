"""The admin token: made at first start, shown once, kept as a digest. Who holds it may do everything."""

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from bollard.trust import make_folder, sync_folder


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
        make_folder(path.parent)
        fresh = path.with_suffix(".new")  # whole or not at all: half a digest would lock everyone out
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(digest + "\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        sync_folder(path.parent)  # before anyone is shown a token that a power loss would take back
        return cls(digest), token

    def allows(self, authorization: str | None) -> bool:
        """Whether an `Authorization` header holds the token."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return False
        return self.matches(hashlib.sha256(token.strip().encode()).hexdigest())

    def matches(self, digest: str) -> bool:
        """Whether it is the token's digest."""
        return hmac.compare_digest(digest, self._digest)
