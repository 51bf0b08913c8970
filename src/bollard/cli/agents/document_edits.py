"""Changes of a saved document on the command line: assignments such as `config.prompt=hi`, and a file in an editor."""

import difflib
import json
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from bollard.cli.client.documents import parse_document
from bollard.cli.errors import UsageProblem

if TYPE_CHECKING:
    from bollard.protocol import JsonObject, JsonValue

EditFormat = Literal["yaml", "json"]
FORMATS: Final[tuple[EditFormat, ...]] = ("yaml", "json")
_EDITOR: Final = "vi"
_REVISION: Final = re.compile(r'^( *"?revision"?: *)\d+', re.MULTILINE)


# --- assignments ---


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A new value for one field of a document. `None` removes the field, so that its default applies."""

    path: tuple[str, ...]
    value: "JsonValue"

    @property
    def key(self) -> str:
        return ".".join(self.path)


def read_assignment(given: str) -> Assignment:
    """`a.b=VALUE`: JSON where it parses, otherwise text; `@FILE` is the text of a file. Raises `UsageProblem`."""
    key, equals, value = given.partition("=")
    path = tuple(key.split("."))
    if not equals or not all(path):
        raise UsageProblem("error.assignment", "hint.assignment", given=given)
    if value.startswith("@"):
        return Assignment(path=path, value=_text_of(key, Path(value[1:])))
    try:
        return Assignment(path=path, value=json.loads(value, parse_constant=_refuse_constant))
    except (ValueError, RecursionError):
        return Assignment(path=path, value=value)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")  # Python reads NaN and Infinity, which are words here


def _text_of(key: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem("error.json_file", "hint.assignment", option=key, path=path, detail=error) from error


def assigned(document: "Mapping[str, JsonValue]", assignments: Sequence[Assignment]) -> "JsonObject":
    """A copy of the document with the assignments. Missing objects on the way are created. Raises `UsageProblem` for a
    way through something that is not an object."""
    changed = deepcopy(dict(document))
    for each in assignments:
        place = changed
        for depth, part in enumerate(each.path[:-1], start=1):
            inside = place.setdefault(part, {})
            if not isinstance(inside, dict):
                inner = ".".join(each.path[:depth])
                raise UsageProblem("error.assignment_path", "hint.assignment_path", field=each.key, inner=inner)
            place = inside
        if each.value is None:
            place.pop(each.path[-1], None)
        else:
            place[each.path[-1]] = each.value
    return changed


def value_at(document: "Mapping[str, JsonValue]", path: Sequence[str]) -> "JsonValue":
    """The value of a field; `None` for an absent one."""
    place: Any = document
    for part in path:
        place = cast("dict[str, Any]", place).get(part) if isinstance(place, dict) else None
    return place


# --- a file in an editor ---


class EditedFile:
    """A document as a file that its user edits. The file stays until `remove`, so that no typed text is lost."""

    def __init__(self, name: str, document: "JsonObject", form: EditFormat) -> None:
        self._form: EditFormat = form
        self._before = written(document, form)
        self.path = Path(tempfile.mkdtemp(prefix="bollard-")) / f"{name}.{form}"
        self.path.write_text(self._before, encoding="utf-8")

    def edit(self, environment: Mapping[str, str]) -> None:
        """Open the editor of the user and wait for its end. Raises `UsageProblem`."""
        editor = environment.get("VISUAL") or environment.get("EDITOR") or _EDITOR
        try:
            code = subprocess.call([*shlex.split(editor), str(self.path)])  # noqa: S603 -- the user's own editor
        except (OSError, ValueError) as error:
            raise UsageProblem("error.editor", "hint.editor", editor=editor, detail=error) from error
        if code:
            raise UsageProblem("error.editor_code", "hint.editor_code", editor=editor, code=code, path=self.path)

    @property
    def is_changed(self) -> bool:
        return self._text() != self._before

    def diff(self) -> Iterator[str]:
        """The changed lines with two lines around them."""
        lines = self._before.splitlines(), self._text().splitlines()
        yield from [*difflib.unified_diff(*lines, n=2, lineterm="")][2:]

    def rebase(self, current: "JsonObject") -> list[str]:
        """Continue on a document that changed meanwhile, whose revision the file gets. Returns the lines that changed
        meanwhile, as a diff."""
        before, self._before = self._before, written(current, self._form)
        text = _REVISION.sub(rf"\g<1>{current.get('revision')}", self._text(), count=1)
        self.path.write_text(text, encoding="utf-8")
        lines = before.splitlines(), self._before.splitlines()
        return [*difflib.unified_diff(*lines, n=0, lineterm="")][2:]

    def document(self) -> "JsonObject":
        """The document in the file. Raises `UsageProblem`."""
        return parse_document(str(self.path), self._text())

    def remove(self) -> None:
        """Remove the file and its folder, with the backups that an editor left beside it."""
        shutil.rmtree(self.path.parent, ignore_errors=True)

    def _text(self) -> str:
        try:
            return self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageProblem("error.document", "hint.document", path=self.path, detail=error) from error


def written(document: "JsonObject", form: EditFormat) -> str:
    """The document as text that people edit."""
    if form == "json":
        return json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    import yaml  # not needed by other commands

    class Dumper(yaml.SafeDumper):
        """Writes a text with several lines as a block."""

        def ignore_aliases(self, data: object) -> bool:
            del data
            return True

    def block(dumper: Any, text: str) -> Any:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    Dumper.add_representer(str, block)
    return yaml.dump(document, Dumper=Dumper, allow_unicode=True, sort_keys=False, width=10_000)
