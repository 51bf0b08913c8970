"""The admin token: created at the first start, shown once, stored as a digest. It has every right."""

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
        """Load or create the token. Returns the token itself only when it was created."""
        if path.exists():
            return cls(path.read_text(encoding="ascii").strip()), None
        token = f"bollard_{secrets.token_urlsafe(32)}"
        digest = hashlib.sha256(token.encode()).hexdigest()
        make_folder(path.parent)
        fresh = path.with_suffix(".new")  # atomic: half a digest would lock everyone out
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(digest + "\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        sync_folder(path.parent)  # a token that was shown must survive a power loss
        return cls(digest), token

    def allows(self, authorization: str | None) -> bool:
        """Whether an `Authorization` header has the token."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return False
        return self.matches(hashlib.sha256(token.strip().encode()).hexdigest())

    def matches(self, digest: str) -> bool:
        """Whether this is the digest of the token."""
        return hmac.compare_digest(digest, self._digest)
