"""The tokens this user's command line knows, in a file that only the user may read.

`bollard up` writes the token of a first start there, so that `bollard chat` just works on the same machine. The host
itself keeps a digest only and never reads this file.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

__all__ = ["Credential", "Credentials", "credentials_path"]


def credentials_path(environment: Mapping[str, str]) -> Path:
    """Where the file is for this user."""
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
    """The file. One that cannot be read is treated as empty: a token can always be given by hand."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def token_for(self, address: str) -> str | None:
        """The token of the host that listened there last."""
        return next((entry.token for entry in self._read() if entry.address == address), None)

    def of_data(self, data: str) -> Credential | None:
        """The token that belongs to a data directory."""
        return next((entry for entry in self._read() if entry.data == data), None)

    def save(self, credential: Credential) -> None:
        """Keep it. Another data directory that listened there keeps its token without the address. Raises `OSError`."""
        kept = [
            replace(entry, address="") if entry.address == credential.address else entry
            for entry in self._read()
            if entry.data != credential.data
        ]
        body = json.dumps({"hosts": [asdict(entry) for entry in (credential, *kept)]}, indent=2)
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # A new file that is moved into place: nobody ever sees half of it, and it is never readable by others.
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
