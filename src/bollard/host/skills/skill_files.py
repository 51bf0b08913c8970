"""The files of a skill: which names they may have, and the digest that names the version they make. Pure."""

import hashlib
import unicodedata
from collections.abc import Mapping
from typing import Final

import msgspec

from bollard.host.errors import InvalidRequest
from bollard.host.limits import SKILL_BYTES, SKILL_FILES, SKILL_PATH_CHARACTERS
from bollard.host.skills.skill_text import SKILL_FILE, SkillText, read_skill_text
from bollard.trust import canonical_sha256

__all__ = ["FileEntry", "SkillContent", "check_path", "read_content"]

_DEPTH: Final = 8
_FORBIDDEN: Final = frozenset('\\:*?"<>|')
"""What some file system would take for something else."""


class FileEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One file: how large, and of which content."""

    path: str
    size: int
    sha256: str


class SkillContent(msgspec.Struct, frozen=True, kw_only=True):
    """A skill as its files say it."""

    text: SkillText
    files: tuple[FileEntry, ...]
    """By path; `SKILL.md` among them."""
    digest: str
    """Of every file with its name: the version."""


def read_content(files: Mapping[str, bytes], called: str | None = None) -> SkillContent:
    """What these files make. Raises `InvalidRequest`."""
    if len(files) > SKILL_FILES:
        raise _wrong(f"it has {len(files)} files", f"a skill has at most {SKILL_FILES}")
    size = sum(map(len, files.values()))
    if size > SKILL_BYTES:
        raise _wrong(f"its files have {size} bytes together", f"a skill has at most {SKILL_BYTES}")
    seen: dict[str, str] = {}
    for path in files:
        check_path(path)
        other = seen.setdefault(unicodedata.normalize("NFKC", path).casefold(), path)
        if other != path:
            raise _wrong(f"{path!a} and {other!a} are one name on some machines", "give them different names")
    if SKILL_FILE not in files:
        raise _wrong(f"it has no {SKILL_FILE}", f"the folder of a skill has {SKILL_FILE} at its top")
    text = read_skill_text(files[SKILL_FILE], called)
    entries = tuple(
        FileEntry(path=path, size=len(files[path]), sha256=hashlib.sha256(files[path]).hexdigest())
        for path in sorted(files)
    )
    return SkillContent(text=text, files=entries, digest=canonical_sha256({each.path: each.sha256 for each in entries}))


def check_path(path: str) -> None:
    """Refuse whatever is not the plain name of a file inside a folder. Raises `InvalidRequest`."""
    parts = path.split("/")
    if not path or len(path) > SKILL_PATH_CHARACTERS or len(parts) > _DEPTH:
        raise _name(path, f"it has more than {SKILL_PATH_CHARACTERS} characters or {_DEPTH} folders, or is empty")
    for part in parts:
        if part in ("", ".", "..") or part != part.strip() or part.endswith("."):
            raise _name(path, "each part must be a plain name")
        if any(not char.isprintable() or char in _FORBIDDEN for char in part):
            raise _name(path, "it has a character that names do not have")
    if unicodedata.normalize("NFC", path) != path:
        raise _name(path, "it is not in Unicode's form NFC")


def _name(path: str, problem: str) -> InvalidRequest:
    return _wrong(f"the name {path[:80]!a} of a file is not taken: {problem}", "rename the file")


def _wrong(problem: str, hint: str) -> InvalidRequest:
    return InvalidRequest(f"the skill is not taken: {problem}", hint=hint, field="files")
