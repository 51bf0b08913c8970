"""A skill: its `SKILL.md`, its files, and its offered and stored forms. Pure."""

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from typing import Final, Literal, cast

import msgspec
from pydantic import Field, ValidationError

from bollard.host.errors import HostError, InvalidRequest
from bollard.host.limits import SKILL_BYTES, SKILL_FILES, SKILL_PATH_CHARACTERS, SKILL_TEXT_BYTES
from bollard.host.reason import Why
from bollard.manifest.text import YamlError, load_plain_yaml
from bollard.protocol import Digest, Flag, Int, JsonObject, Strict, first_problem
from bollard.trust import canonical_sha256

# --- SKILL.md: YAML front matter between two lines of `---`, then the text for the agent ---

SKILL_FILE: Final = "SKILL.md"
NAME_CHARACTERS: Final = 64
DESCRIPTION_CHARACTERS: Final = 1024
_OTHER_CHARACTERS: Final = 500
"""Characters of the other front matter fields: licence and compatibility."""
_WISHES: Final = 64
"""Tools that a skill may request."""
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_FRONT: Final = re.compile(rb"\A(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_HINT: Final = "a skill begins with `---`, `name: …`, `description: …`, `---`; see docs/guides/skills.md"


class SkillText(msgspec.Struct, frozen=True, kw_only=True):
    """The content of `SKILL.md`."""

    name: str
    description: str
    body: str
    license: str | None = None
    compatibility: str | None = None
    wishes: tuple[str, ...] = ()
    """Tools that it requests (`allowed-tools`). Shown to people; grants nothing."""


def read_skill_text(data: bytes, called: str | None = None) -> SkillText:
    """Read a `SKILL.md`. `called` is the name of its folder. Raises `InvalidRequest`."""
    if len(data) > SKILL_TEXT_BYTES:
        problem = f"it is larger than {SKILL_TEXT_BYTES} bytes"
        raise _invalid_text("size", problem, "move rarely needed text to other files", limit=SKILL_TEXT_BYTES)
    match = _FRONT.match(data)
    if match is None:
        raise _invalid_text("no_front_matter", "it does not begin with YAML between two lines of ---", _HINT)
    try:
        front = load_plain_yaml(match[1])
        body = data[match.end() :].decode("utf-8")
    except YamlError as error:
        problem = f"{error.place} of its front matter: {error.problem}"
        details: JsonObject = {"at": error.place, "problem": error.problem, **error.details}
        raise _invalid_text("front_matter", problem, _HINT, details) from error
    except UnicodeDecodeError as error:
        raise _invalid_text("not_utf8", "it is not UTF-8", "save it as UTF-8") from error
    if not isinstance(front, dict):
        raise _invalid_text("not_mapping", "its front matter is not a mapping", _HINT)
    fields = cast("dict[str, object]", front)
    name = _text(fields, "name", NAME_CHARACTERS)
    if _NAME.fullmatch(name) is None:
        name = ascii(name[:64])
        hint = "use lower-case letters, digits and single hyphens, like report-writer"
        raise _invalid_text("name", f"its name {name} is not valid", hint, name=name)
    if called is not None and called != name:
        problem = f"its name is {name}, but its folder is {called}"
        raise _invalid_text("folder_name", problem, "give both the same name", name=name, folder=called)
    return SkillText(
        name=name,
        description=_text(fields, "description", DESCRIPTION_CHARACTERS),
        body=body,
        license=_optional_text(fields, "license"),
        compatibility=_optional_text(fields, "compatibility"),
        wishes=_wishes(fields.get("allowed-tools")),
    )


def compose_skill_text(name: str, description: str, body: str) -> bytes:
    """Write a `SKILL.md`. Validates nothing; `read_skill_text` does."""
    return f"---\nname: {_quoted(name)}\ndescription: {_quoted(description)}\n---\n{body}".encode("utf-8", "replace")


def _quoted(text: str) -> str:
    """A YAML string in single quotes, on one line."""
    return "'" + " ".join(text.split()).replace("'", "''") + "'"


def _text(fields: dict[str, object], key: str, limit: int) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value.strip():
        raise _invalid_text("missing_field", f"it has no {key}", _HINT, key=key)
    if len(value) > limit:
        problem = f"its {key} has {len(value)} characters"
        raise _invalid_text(
            "field_length", problem, f"use at most {limit} characters", key=key, count=len(value), limit=limit
        )
    return value


def _optional_text(fields: dict[str, object], key: str) -> str | None:
    return None if fields.get(key) is None else _text(fields, key, _OTHER_CHARACTERS)


def _wishes(value: object) -> tuple[str, ...]:
    """The words of a text, or the items of a list. Empty for anything else."""
    words = value.split() if isinstance(value, str) else cast("list[object]", value) if isinstance(value, list) else []
    return tuple(word[:_OTHER_CHARACTERS] for word in words if isinstance(word, str))[:_WISHES]


def _invalid_text(
    reason: str, problem: str, hint: str, values: JsonObject | None = None, /, **details: str | int
) -> InvalidRequest:
    error = InvalidRequest(
        f"{SKILL_FILE} is invalid: {problem}", reason=f"skill_text_{reason}", hint=hint, field=SKILL_FILE, **details
    )
    error.details |= values or {}
    return error


# --- files ---

_DEPTH: Final = 8
_FORBIDDEN: Final = frozenset('\\:*?"<>|')
"""Characters that are special on some file systems."""


class FileEntry(Strict):
    """The path, size and digest of one file."""

    path: str
    size: Int = Field(ge=0)
    sha256: Digest


class SkillContent(msgspec.Struct, frozen=True, kw_only=True):
    """A skill read from its files."""

    text: SkillText
    files: tuple[FileEntry, ...]
    """Sorted by path, with `SKILL.md`."""
    digest: str
    """The version: a digest of all paths and contents."""


def read_content(files: Mapping[str, bytes], called: str | None = None) -> SkillContent:
    """Read and validate the files of a skill. Raises `InvalidRequest`."""
    if len(files) > SKILL_FILES:
        problem, hint = f"it has {len(files)} files", f"a skill has at most {SKILL_FILES} files"
        raise _invalid_files("count", problem, hint, count=len(files), limit=SKILL_FILES)
    size = sum(map(len, files.values()))
    if size > SKILL_BYTES:
        problem, hint = f"its files have {size} bytes in total", f"a skill has at most {SKILL_BYTES} bytes"
        raise _invalid_files("size", problem, hint, size=size, limit=SKILL_BYTES)
    seen: dict[str, str] = {}
    for path in files:
        check_path(path)
        other = seen.setdefault(unicodedata.normalize("NFKC", path).casefold(), path)
        if other != path:
            problem = f"{path!a} and {other!a} are the same name on some systems"
            raise _invalid_files("same_name", problem, "rename one of them", file=ascii(path), other=ascii(other))
    if SKILL_FILE not in files:
        raise _invalid_files("no_text", f"it has no {SKILL_FILE}", f"put {SKILL_FILE} at the top of its folder")
    text = read_skill_text(files[SKILL_FILE], called)
    entries = tuple(
        FileEntry(path=path, size=len(files[path]), sha256=hashlib.sha256(files[path]).hexdigest())
        for path in sorted(files)
    )
    return SkillContent(text=text, files=entries, digest=canonical_sha256({each.path: each.sha256 for each in entries}))


def check_path(path: str) -> None:
    """Raise `InvalidRequest` unless the path is a portable relative path inside a folder."""
    parts = path.split("/")
    if not path or len(path) > SKILL_PATH_CHARACTERS or len(parts) > _DEPTH:
        problem = f"it has more than {SKILL_PATH_CHARACTERS} characters or {_DEPTH} folders, or is empty"
        raise _invalid_name("length", path, problem, limit=SKILL_PATH_CHARACTERS, depth=_DEPTH)
    for part in parts:
        if part in ("", ".", "..") or part != part.strip() or part.endswith("."):
            raise _invalid_name("component", path, "a component is empty, '.', '..', or ends with a dot or a space")
        if any(not char.isprintable() or char in _FORBIDDEN for char in part):
            raise _invalid_name("character", path, "it contains a character that is not allowed")
    if unicodedata.normalize("NFC", path) != path:
        raise _invalid_name("not_nfc", path, "it is not in Unicode normal form NFC")


def _invalid_name(reason: str, path: str, problem: str, /, **details: str | int) -> InvalidRequest:
    file = ascii(path[:80])
    return _invalid_files(
        f"name_{reason}", f"the file name {file} is not allowed: {problem}", "rename the file", file=file, **details
    )


def _invalid_files(reason: str, problem: str, hint: str, /, **details: str | int) -> InvalidRequest:
    return InvalidRequest(
        f"the skill is rejected: {problem}", reason=f"skill_files_{reason}", hint=hint, field="files", **details
    )


# --- offered and stored skills ---

Origin = Literal["workspace", "plugin"]
_MINE: Final = "workspace"


class OfferedSkill(msgspec.Struct, frozen=True, kw_only=True):
    """One skill of a workspace, with its current files."""

    skill_id: str
    """`report-writer`, or `author/plugin/report-writer` for that of a plugin."""
    description: str
    digest: str
    files: tuple[FileEntry, ...]
    wishes: tuple[str, ...]
    source: str = _MINE
    """`workspace`, or `plugin:author/name`."""
    authored: bool = False
    """Whether a run wrote it. Its text is then as untrusted as the data that the run had read."""

    def file(self, path: str) -> FileEntry | None:
        """The file at this path, if the skill has it."""
        return next((each for each in self.files if each.path == path), None)


class Unusable(msgspec.Struct, frozen=True, kw_only=True):
    """A skill that cannot be used, and why."""

    skill_id: str
    reason: Why


class KeptVersion(Strict):
    """One stored version of a skill: its description and the digests of its files."""

    digest: Digest
    description: str
    files: tuple[FileEntry, ...]
    wishes: tuple[str, ...] = ()
    by: str
    at_ms: Int = Field(ge=0)
    authored: Flag = False

    @staticmethod
    def of(content: SkillContent, *, by: str, at_ms: int, authored: bool) -> "KeptVersion":
        return KeptVersion(
            digest=content.digest,
            description=content.text.description,
            files=content.files,
            wishes=content.text.wishes,
            by=by,
            at_ms=at_ms,
            authored=authored,
        )


class KeptSkill(Strict):
    """One skill of a workspace, as stored."""

    name: str
    current: KeptVersion
    earlier: tuple[KeptVersion, ...] = ()
    """Newest first."""

    @property
    def contents(self) -> frozenset[str]:
        """The digests of all file contents that its versions need."""
        return frozenset(file.sha256 for version in (self.current, *self.earlier) for file in version.files)

    def offered(self) -> OfferedSkill:
        current = self.current
        return OfferedSkill(
            skill_id=self.name,
            description=current.description,
            digest=current.digest,
            files=current.files,
            wishes=current.wishes,
            authored=current.authored,
        )


def kept_from_store(body: JsonObject, workspace: str) -> KeptSkill:
    """Read a stored skill. Raises `HostError`."""
    del workspace
    try:
        return KeptSkill.from_wire(body)
    except ValidationError as error:
        field, problem = first_problem(error)
        raised: HostError = InvalidRequest(f"{field}: {problem}", reason="skill_stored", field=field, problem=problem)
        raise raised from error
