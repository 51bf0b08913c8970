"""The key of a remote runtime: created on its machine, stored in a file that only its user may read, and never sent.

The file also names the host of the key, so that no other host can obtain a signature for it.
"""

import contextlib
import json
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bollard.trust.keys import SigningKey
from bollard.wire import IncompatiblePeer


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeKey:
    """A key and its host. `host_id` is `None` before the enrolment."""

    secret: bytes
    host_id: str | None = None

    @property
    def signing(self) -> SigningKey:
        return SigningKey(self.secret)

    def __repr__(self) -> str:
        return f"RuntimeKey({self.signing.verify_key.key_id}, host_id={self.host_id!r})"


def load_key(path: Path) -> RuntimeKey:
    """Read the key file. Raises `IncompatiblePeer` with a hint."""
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        detail = getattr(error, "strerror", None) or "it is not text"
        raise IncompatiblePeer(
            f"the key {path} cannot be read: {detail}", "enrol this runtime: --enroll CODE, once"
        ) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise IncompatiblePeer(f"the key {path} is readable by others", f"chmod 600 {path}")
    try:
        body = json.loads(text)
        secret, host_id = bytes.fromhex(body["private_key"]), body["host_id"]
        SigningKey(secret)
    except (ValueError, KeyError, TypeError) as error:
        raise IncompatiblePeer(f"{path} does not hold the key of a runtime", "remove it, and enrol again") from error
    return RuntimeKey(secret=secret, host_id=host_id if isinstance(host_id, str) else None)


def make_key() -> RuntimeKey:
    """Create a key in memory."""
    return RuntimeKey(secret=SigningKey.new_secret())


def save_key(path: Path, key: RuntimeKey) -> None:
    """Write the key file atomically, readable by this user alone. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # created with mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"private_key": key.secret.hex(), "host_id": key.host_id}, file)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
