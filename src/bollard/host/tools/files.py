"""`read`, `write`, `edit`, `glob` and `grep` in the folder of a run. Blocking work is done in threads."""

import asyncio
import importlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

from bollard.confine.errors import ConfineError, OverLimit
from bollard.confine.folder import Folder
from bollard.confine.limits import FILE_BYTES, GREP_FILE_BYTES, GREP_LINE_CHARACTERS, PATTERN_CHARACTERS
from bollard.confine.paths import Wildcard
from bollard.host.capabilities.sources import CallOrder, CallResult
from bollard.host.limits import FILE_LINES, FOUND_LINES, PATTERN_BYTES
from bollard.host.tools.ports import flag, number, problem, text, words, words_or
from bollard.host.tools.workspaces import Workspaces, check_room
from bollard.protocol import JsonObject

# What a search looks for in lines: words as they are, or a regular expression of an engine whose time grows with the
# length of the line alone.


class PatternRefused(ValueError):
    """Not a regular expression, or one that only a backtracking engine could follow."""


def line_matcher(pattern: str, *, regex: bool, ignore_case: bool) -> Callable[[str], bool]:
    """Says of a line whether the pattern is in it."""
    if len(pattern) > PATTERN_CHARACTERS:
        raise OverLimit(f"the pattern is longer than {PATTERN_CHARACTERS} characters")
    if not regex:
        if ignore_case:
            small = pattern.casefold()
            return lambda line: small in line.casefold()
        return lambda line: pattern in line
    engine: Any = importlib.import_module("jsonschema_rs")  # by name: it costs 8 MiB that an idle host does not pay
    options = engine.RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=2 * PATTERN_BYTES)
    schema = {"type": "string", "pattern": f"(?i){pattern}" if ignore_case else pattern}
    try:
        return cast("Callable[[str], bool]", engine.validator_for(schema, pattern_options=options).is_valid)
    except ValueError:
        raise PatternRefused(
            "this is not a regular expression that is understood here; lookaround and backreferences are not"
        ) from None


_T = TypeVar("_T")


class FileTools:
    """Each call opens the run's folder by its descriptor, and reaches nothing but what is beneath."""

    def __init__(self, workspaces: Workspaces) -> None:
        self._workspaces = workspaces

    async def read(self, order: CallOrder) -> CallResult:
        path = words(order.arguments, "path")
        first = number(order.arguments, "offset", 1)
        most = min(number(order.arguments, "limit", FILE_LINES), FILE_LINES)
        content = await self.content(order, path)
        try:
            lines = content.decode().splitlines()
        except UnicodeDecodeError:
            return problem(f"this file is not text: {len(content)} bytes", "look at it with exec")
        shown = lines[first - 1 : first - 1 + most]
        facts: JsonObject = {"path": path, "lines": len(lines), "first": first, "shown": len(shown)}
        if len(shown) < len(lines):
            shown.append(f"[lines {first} to {first - 1 + len(shown)} of {len(lines)}]")
        return text("\n".join(shown), facts)

    async def write(self, order: CallOrder) -> CallResult:
        path, content = words(order.arguments, "path"), words(order.arguments, "content").encode()
        async with self._workspaces.changing(order.context.run_id):
            is_new = await self.put(order, path, content)
        done = "written" if is_new else "replaced"
        return text(f"{done}: {path}, {len(content)} bytes", {"path": path, "bytes": len(content), "new": is_new})

    async def edit(self, order: CallOrder) -> CallResult:
        path = words(order.arguments, "path")
        old, new = words(order.arguments, "old"), words(order.arguments, "new")
        async with self._workspaces.changing(order.context.run_id):
            content = await self.content(order, path)
            try:
                before = content.decode()
            except UnicodeDecodeError:
                return problem("this file is not text", "change it with exec")
            count = before.count(old)
            if count == 0:
                return problem("the old text is not in the file", "read the file and copy it exactly")
            if count > 1 and not flag(order.arguments, "replace_all"):
                return problem(f"the old text is there {count} times", "give more of what is around it, or replace_all")
            if len(before) + count * (len(new) - len(old)) > FILE_BYTES:
                return problem(f"the file would be larger than {FILE_BYTES} bytes")
            await self.put(order, path, before.replace(old, new).encode())
        return text(f"replaced {count} time{'s' if count > 1 else ''} in {path}", {"path": path, "replaced": count})

    async def glob(self, order: CallOrder) -> CallResult:
        wildcard = Wildcard(words(order.arguments, "pattern"))
        start = words_or(order.arguments, "path", ".")
        return await self._inside(order, lambda folder: _globbed(folder, wildcard, start))

    async def grep(self, order: CallOrder) -> CallResult:
        try:
            matches = line_matcher(
                words(order.arguments, "pattern"),
                regex=flag(order.arguments, "regex"),
                ignore_case=flag(order.arguments, "ignore_case"),
            )
        except PatternRefused as error:
            return problem(str(error), "search for text as it is, or simplify the expression")
        names = Wildcard(words_or(order.arguments, "glob", "**"))
        start = words_or(order.arguments, "path", ".")
        given_up = threading.Event()
        try:
            return await self._inside(order, lambda folder: found_lines(folder, matches, names, start, given_up))
        finally:
            given_up.set()  # nobody waits any more: the thread is for others

    async def content(self, order: CallOrder, path: str) -> bytes:
        """A whole file of the run."""
        return await self._inside(order, lambda folder: folder.read(path))

    async def put(self, order: CallOrder, path: str, content: bytes) -> bool:
        """Write a file of the run, if there is room. The caller holds `changing`."""

        def written() -> bool:
            place = self._workspaces.open(order.context.run_id)
            with Folder(place.whole) as whole, Folder(place.files) as files:
                check_room(whole, len(content))
                return files.write(path, content)

        return await asyncio.to_thread(written)

    async def _inside(self, order: CallOrder, work: Callable[[Folder], _T]) -> _T:
        def done() -> _T:
            with Folder(self._workspaces.open(order.context.run_id).files) as folder:
                return work(folder)

        return await asyncio.to_thread(done)


def _globbed(folder: Folder, wildcard: Wildcard, start: str) -> CallResult:
    found: list[str] = []
    more = False
    for entry in folder.walk(start):
        relative = entry.path if start == "." else entry.path.removeprefix(start.rstrip("/") + "/")
        if entry.kind != "other" and wildcard.matches(relative):
            if len(found) == FOUND_LINES:
                more = True
                break
            found.append(entry.path + ("/" if entry.kind == "folder" else ""))
    shown = "\n".join(found) if found else "nothing has such a name"
    return text(shown + (f"\n[only the first {FOUND_LINES}]" if more else ""), {"paths": list(found), "more": more})


def found_lines(
    folder: Folder, matches: Callable[[str], bool], names: Wildcard, start: str, given_up: threading.Event
) -> CallResult:
    """Looks through every file, until it is given up: files with holes are large and need no room."""
    found: list[str] = []
    left_out = 0
    for entry in folder.walk(start):
        if given_up.is_set():
            break
        if entry.kind != "file" or not names.matches(entry.path):
            continue
        try:
            lines = folder.read(entry.path, limit=GREP_FILE_BYTES).decode().splitlines()
        except (OverLimit, UnicodeDecodeError, ConfineError):
            left_out += 1  # too large, not text, or taken away meanwhile
            continue
        for count, line in enumerate(lines, 1):
            if matches(line):
                found.append(f"{entry.path}:{count}: {line[:GREP_LINE_CHARACTERS]}")
                if len(found) == FOUND_LINES:
                    return text(
                        "\n".join([*found, f"[only the first {FOUND_LINES}]"]), {"lines": len(found), "more": True}
                    )
    shown = found or ["no line has it"]
    if left_out:
        shown = [*shown, f"[{left_out} files were left out: too large, or not text]"]
    return text("\n".join(shown), {"lines": len(found), "more": False, "left_out": left_out})
