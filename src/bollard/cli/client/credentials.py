"""The tokens of this user's command line, in a file that only the user may read.

`bollard up` writes the token of a first start there, so that `bollard chat` works on the same machine without a login.
The host itself stores only a digest and never reads this file.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

_SESSION: Final = "session"
"""In place of a data directory: the token is of a session."""


def credentials_path(environment: Mapping[str, str]) -> Path:
    """The path of the file for this user."""
    config = environment.get("XDG_CONFIG_HOME", "")
    folder = Path(config) if config.startswith("/") else Path(environment.get("HOME") or Path.home()) / ".config"
    return folder / "bollard" / "credentials.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """The token of one host: where it listened last, and the data directory it belongs to."""

    address: str
    data: str
    token: str


class Credentials:
    """The credentials file. An unreadable file counts as empty."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def addresses(self) -> list[str]:
        """The addresses of the saved hosts, the newest first."""
        return [entry.address for entry in self._read() if entry.address]

    def token_for(self, address: str) -> str | None:
        """The token for an address: of the session, else of the host that listened there last."""
        found = (entry.token for entry in self._read() if entry.address == address)
        return self.session_for(address) or next(found, None)

    def session_for(self, address: str) -> str | None:
        """The session of `bollard login` for an address."""
        entries = (entry for entry in self._read() if entry.data == _SESSION)
        return next((entry.token for entry in entries if entry.address == address), None)

    def begin_session(self, address: str, token: str) -> None:
        """Save a session. Raises `OSError`."""
        self._write([Credential(address=address, data=_SESSION, token=token), *self._without_session(address)])

    def end_session(self, address: str) -> None:
        """Delete the session. Raises `OSError`."""
        self._write(self._without_session(address))

    def _without_session(self, address: str) -> list[Credential]:
        return [entry for entry in self._read() if (entry.data, entry.address) != (_SESSION, address)]

    def of_data(self, data: str) -> Credential | None:
        """The token of a data directory."""
        return next((entry for entry in self._read() if entry.data == data), None)

    def save(self, credential: Credential) -> None:
        """Save a token. Another data directory at this address loses the address, not its token. Raises `OSError`."""
        kept = [
            replace(entry, address="") if entry.address == credential.address else entry
            for entry in self._read()
            if entry.data not in (credential.data, _SESSION)
        ]
        here = (credential.address, credential.data)
        same_host = any((entry.address, entry.data) == here for entry in self._read())
        sessions = [entry for entry in self._read() if entry.data == _SESSION]
        if not same_host:  # the old session belongs to the previous host
            sessions = [entry for entry in sessions if entry.address != credential.address]
        self._write([*sessions, credential, *kept])

    def _write(self, entries: Sequence[Credential]) -> None:
        body = json.dumps({"hosts": [asdict(entry) for entry in entries]}, indent=2)
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Written to a new file and moved into place: never partial, never readable by others.
        descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=".credentials-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(body + "\n")
            Path(name).replace(self.path)
        except OSError:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise

    def _read(self) -> list[Credential]:
        try:
            entries: list[dict[str, Any]] = json.loads(self.path.read_text(encoding="utf-8"))["hosts"]
            return [Credential(**cast("dict[str, str]", entry)) for entry in entries]
        except (OSError, ValueError, KeyError, TypeError):
            return []
