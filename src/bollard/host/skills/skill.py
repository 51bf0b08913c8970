"""A skill as it is offered and as it is saved. Values only."""

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from typing import Final, Literal, cast

import msgspec
from pydantic import Field, ValidationError

from bollard.host.errors import HostError, InvalidRequest
from bollard.host.limits import SKILL_BYTES, SKILL_FILES, SKILL_PATH_CHARACTERS, SKILL_TEXT_BYTES
from bollard.protocol import Digest, Flag, Int, JsonObject, Strict, first_problem
from bollard.trust import canonical_sha256
from bollard.wire.manifest_text import YamlError, load_plain_yaml

# `SKILL.md`: a block of YAML between two lines of `---`, and the text that an agent gets when it activates the skill.
#
# Pure. What it says about tools that it wants is a wish that people are shown, and grants nothing.


SKILL_FILE: Final = "SKILL.md"
NAME_CHARACTERS: Final = 64
DESCRIPTION_CHARACTERS: Final = 1024
_OTHER_CHARACTERS: Final = 500
"""Of what else it may say of itself: the licence, what it is compatible with."""
_WISHES: Final = 64
"""Tools that it may want."""
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FRONT: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_HINT: Final = "a skill begins with `---`, `name: …`, `description: …`, `---`; see docs/guides/skills.md"


class SkillText(msgspec.Struct, frozen=True, kw_only=True):
    """What `SKILL.md` says."""

    name: str
    description: str
    body: str
    license: str | None = None
    compatibility: str | None = None
    wishes: tuple[str, ...] = ()
    """Tools that it asks for: `allowed-tools`."""


def read_skill_text(data: bytes, called: str | None = None) -> SkillText:
    """Raises `InvalidRequest`. `called` is the name that its folder has."""
    if len(data) > SKILL_TEXT_BYTES:
        raise _wrong_text(
            f"it is larger than {SKILL_TEXT_BYTES} bytes", "move what is rarely needed to files of their own"
        )
    found = _FRONT.match(data)
    if found is None:
        raise _wrong_text("it does not begin with a block of YAML between two lines of ---", _HINT)
    try:
        front = load_plain_yaml(found[1])
        body = data[found.end() :].decode("utf-8")
    except YamlError as error:
        raise _wrong_text(f"{error.place} of its front matter: {error.problem}", _HINT) from error
    except UnicodeDecodeError as error:
        raise _wrong_text("it is not UTF-8", "save it as UTF-8") from error
    if not isinstance(front, dict):
        raise _wrong_text("its front matter is no mapping", _HINT)
    said = cast("dict[str, object]", front)
    name = _text(said, "name", NAME_CHARACTERS)
    if _NAME.fullmatch(name) is None:
        raise _wrong_text(
            f"its name {name[:64]!a} is none", "use small letters, digits and single hyphens: report-writer"
        )
    if called is not None and called != name:
        raise _wrong_text(f"it is called {name}, and its folder otherwise", "give both the same name")
    return SkillText(
        name=name,
        description=_text(said, "description", DESCRIPTION_CHARACTERS),
        body=body,
        license=_maybe(said, "license"),
        compatibility=_maybe(said, "compatibility"),
        wishes=_wishes(said.get("allowed-tools")),
    )


def compose_skill_text(name: str, description: str, body: str) -> bytes:
    """A `SKILL.md` that says this. Whoever reads it judges it."""
    return f"---\nname: {_quoted(name)}\ndescription: {_quoted(description)}\n---\n{body}".encode("utf-8", "replace")


def _quoted(text: str) -> str:
    """In single quotes a text stands for itself, on one line."""
    return "'" + " ".join(text.split()).replace("'", "''") + "'"


def _text(said: dict[str, object], field: str, most: int) -> str:
    value = said.get(field)
    if not isinstance(value, str) or not value.strip():
        raise _wrong_text(f"it has no {field}", _HINT)
    if len(value) > most:
        raise _wrong_text(f"its {field} has {len(value)} characters", f"{most} are allowed")
    return value


def _maybe(said: dict[str, object], field: str) -> str | None:
    return None if said.get(field) is None else _text(said, field, _OTHER_CHARACTERS)


def _wishes(value: object) -> tuple[str, ...]:
    """As words of one text, or as a list. What is neither is no wish."""
    words = value.split() if isinstance(value, str) else cast("list[object]", value) if isinstance(value, list) else []
    return tuple(word[:_OTHER_CHARACTERS] for word in words if isinstance(word, str))[:_WISHES]


def _wrong_text(problem: str, hint: str) -> InvalidRequest:
    return InvalidRequest(f"{SKILL_FILE} cannot be used: {problem}", hint=hint, field=SKILL_FILE)


# The files of a skill: which names they may have, and the digest that names the version they make. Pure.


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
        raise _wrong_files(f"it has {len(files)} files", f"a skill has at most {SKILL_FILES}")
    size = sum(map(len, files.values()))
    if size > SKILL_BYTES:
        raise _wrong_files(f"its files have {size} bytes together", f"a skill has at most {SKILL_BYTES}")
    seen: dict[str, str] = {}
    for path in files:
        check_path(path)
        other = seen.setdefault(unicodedata.normalize("NFKC", path).casefold(), path)
        if other != path:
            raise _wrong_files(f"{path!a} and {other!a} are one name on some machines", "give them different names")
    if SKILL_FILE not in files:
        raise _wrong_files(f"it has no {SKILL_FILE}", f"the folder of a skill has {SKILL_FILE} at its top")
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
    return _wrong_files(f"the name {path[:80]!a} of a file is not taken: {problem}", "rename the file")


def _wrong_files(problem: str, hint: str) -> InvalidRequest:
    return InvalidRequest(f"the skill is not taken: {problem}", hint=hint, field="files")


Origin = Literal["workspace", "plugin"]
_MINE: Final = "workspace"


class OfferedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """One skill that a workspace has now."""

    skill_id: str
    """`report-writer`, or `author/plugin/report-writer` for that of a plugin."""
    description: str
    digest: str
    files: tuple[FileEntry, ...]
    wishes: tuple[str, ...]
    source: str = _MINE
    """`workspace`, or `plugin:author/name`."""
    authored: bool = False
    """Whether a run wrote it: what it says is no more trustworthy than what that run read."""

    def file(self, path: str) -> FileEntry | None:
        """Only a file that was there when the skill was taken has a name here."""
        return next((each for each in self.files if each.path == path), None)


class Unusable(msgspec.Struct, frozen=True, kw_only=True):
    """A skill that is there and cannot be used, and why."""

    skill_id: str
    reason: str


class _File(Strict):
    path: str
    size: Int = Field(ge=0)
    sha256: Digest


class KeptVersion(Strict):
    """One version: what it says of itself, and which content its files have."""

    digest: Digest
    description: str
    files: tuple[_File, ...]
    wishes: tuple[str, ...] = ()
    by: str
    at_ms: Int = Field(ge=0)
    authored: Flag = False

    @staticmethod
    def of(content: SkillContent, *, by: str, at_ms: int, authored: bool) -> "KeptVersion":
        return KeptVersion(
            digest=content.digest,
            description=content.text.description,
            files=tuple(_File(path=each.path, size=each.size, sha256=each.sha256) for each in content.files),
            wishes=content.text.wishes,
            by=by,
            at_ms=at_ms,
            authored=authored,
        )


class KeptSkill(Strict):
    """One skill of a workspace, as it is saved."""

    name: str
    current: KeptVersion
    earlier: tuple[KeptVersion, ...] = ()
    """Newest first."""

    @property
    def contents(self) -> frozenset[str]:
        """The digests of the files that must stay."""
        return frozenset(file.sha256 for version in (self.current, *self.earlier) for file in version.files)

    def offered(self) -> OfferedSkill:
        now = self.current
        return OfferedSkill(
            skill_id=self.name,
            description=now.description,
            digest=now.digest,
            files=tuple(FileEntry(path=each.path, size=each.size, sha256=each.sha256) for each in now.files),
            wishes=now.wishes,
            authored=now.authored,
        )


def kept_from_store(body: JsonObject, workspace: str) -> KeptSkill:
    """What `to_wire` gave to the store. Raises `HostError`."""
    del workspace
    try:
        return KeptSkill.from_wire(body)
    except ValidationError as error:
        field, problem = first_problem(error)
        raised: HostError = InvalidRequest(f"{field}: {problem}", field=field)
        raise raised from error
