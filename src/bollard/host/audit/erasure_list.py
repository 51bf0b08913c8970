"""The list of erasures: who was erased, by digests of names. A restore and an import apply it again.

The list is a file of JSON lines in the data directory, because an older backup knows nothing of a later erasure. It
names people by digests, and short names can be guessed from them.
"""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from bollard.host.errors import BadArchive

ERASURES_FILE: Final = "erasures.jsonl"


class Erasure(msgspec.Struct, frozen=True, kw_only=True):
    """One erased person."""

    erasure_id: str
    workspace: str
    people: tuple[str, ...]
    """Digests of the names of the person."""
    erased_ms: int


_decode: Final = msgspec.json.Decoder(Erasure).decode


def add_erasure(data: Path, erasure: Erasure) -> None:
    """Append an erasure to the list of a data directory, durably."""
    descriptor = os.open(data / ERASURES_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "ab") as file:
        file.write(msgspec.json.encode(erasure) + b"\n")
        file.flush()
        os.fsync(file.fileno())


def read_erasures(files: Iterable[Path]) -> list[Erasure]:
    """The erasures of these files; a file that does not exist has none. Raises `BadArchive`."""
    found: dict[str, Erasure] = {}
    for file in files:
        if not file.is_file():
            continue
        for number, line in enumerate(file.read_bytes().splitlines(), start=1):
            try:
                erasure = _decode(line)
            except msgspec.MsgspecError as error:
                raise BadArchive(
                    f"line {number} of {file} is not an erasure",
                    reason="erasures_unreadable",
                    hint="use the file erasures.jsonl of the data directory of the host",
                    path=str(file),
                    line=number,
                ) from error
            found[erasure.erasure_id] = erasure
    return list(found.values())
