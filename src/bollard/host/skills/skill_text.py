"""`SKILL.md`: a block of YAML between two lines of `---`, and the text that an agent gets when it activates the skill.

Pure. What it says about tools that it wants is a wish that people are shown, and grants nothing.
"""

import re
from typing import Final, cast

import msgspec

from bollard.host.errors import InvalidRequest
from bollard.host.limits import SKILL_TEXT_BYTES
from bollard.wire.plain_yaml import YamlError, load_plain_yaml

__all__ = [
    "DESCRIPTION_CHARACTERS",
    "NAME_CHARACTERS",
    "SKILL_FILE",
    "SkillText",
    "compose_skill_text",
    "read_skill_text",
]

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
        raise _wrong(f"it is larger than {SKILL_TEXT_BYTES} bytes", "move what is rarely needed to files of their own")
    found = _FRONT.match(data)
    if found is None:
        raise _wrong("it does not begin with a block of YAML between two lines of ---", _HINT)
    try:
        front = load_plain_yaml(found[1])
        body = data[found.end() :].decode("utf-8")
    except YamlError as error:
        raise _wrong(f"{error.place} of its front matter: {error.problem}", _HINT) from error
    except UnicodeDecodeError as error:
        raise _wrong("it is not UTF-8", "save it as UTF-8") from error
    if not isinstance(front, dict):
        raise _wrong("its front matter is no mapping", _HINT)
    said = cast("dict[str, object]", front)
    name = _text(said, "name", NAME_CHARACTERS)
    if _NAME.fullmatch(name) is None:
        raise _wrong(f"its name {name[:64]!a} is none", "use small letters, digits and single hyphens: report-writer")
    if called is not None and called != name:
        raise _wrong(f"it is called {name}, and its folder otherwise", "give both the same name")
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
        raise _wrong(f"it has no {field}", _HINT)
    if len(value) > most:
        raise _wrong(f"its {field} has {len(value)} characters", f"{most} are allowed")
    return value


def _maybe(said: dict[str, object], field: str) -> str | None:
    return None if said.get(field) is None else _text(said, field, _OTHER_CHARACTERS)


def _wishes(value: object) -> tuple[str, ...]:
    """As words of one text, or as a list. What is neither is no wish."""
    words = value.split() if isinstance(value, str) else cast("list[object]", value) if isinstance(value, list) else []
    return tuple(word[:_OTHER_CHARACTERS] for word in words if isinstance(word, str))[:_WISHES]


def _wrong(problem: str, hint: str) -> InvalidRequest:
    return InvalidRequest(f"{SKILL_FILE} cannot be used: {problem}", hint=hint, field=SKILL_FILE)
