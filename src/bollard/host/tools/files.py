"""`read`, `write`, `edit`, `glob` and `grep` in the folder of a run. Blocking work runs in threads."""

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
from bollard.host.tools.ports import flag, number, problem, string, string_or, text
from bollard.host.tools.workspaces import Workspaces, check_room
from bollard.protocol import JsonObject


class PatternRefused(ValueError):
    """Not a regular expression, or one that needs a backtracking engine."""


def line_matcher(pattern: str, *, regex: bool, ignore_case: bool) -> Callable[[str], bool]:
    """A predicate for lines that contain the pattern. Regular expressions run in linear time."""
    if len(pattern) > PATTERN_CHARACTERS:
        raise OverLimit(f"the pattern is longer than {PATTERN_CHARACTERS} characters")
    if not regex:
        if ignore_case:
            small = pattern.casefold()
            return lambda line: small in line.casefold()
        return lambda line: pattern in line
    engine: Any = importlib.import_module("jsonschema_rs")  # by name: it takes 8 MiB that an idle host saves
    options = engine.RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=2 * PATTERN_BYTES)
    schema = {"type": "string", "pattern": f"(?i){pattern}" if ignore_case else pattern}
    try:
        return cast("Callable[[str], bool]", engine.validator_for(schema, pattern_options=options).is_valid)
    except ValueError:
        raise PatternRefused(
            "the regular expression is not supported; lookaround and backreferences are not available"
        ) from None


_T = TypeVar("_T")


class FileTools:
    """The file tools. Each call opens the run's folder by its descriptor and stays beneath it."""

    def __init__(self, workspaces: Workspaces) -> None:
        self._workspaces = workspaces

    async def read(self, order: CallOrder) -> CallResult:
        path = string(order.arguments, "path")
        first = number(order.arguments, "offset", 1)
        most = min(number(order.arguments, "limit", FILE_LINES), FILE_LINES)
        content = await self.content(order, path)
        try:
            lines = content.decode().splitlines()
        except UnicodeDecodeError:
            return problem(f"the file is not text: {len(content)} bytes", "use exec to inspect it")
        part = lines[first - 1 : first - 1 + most]
        facts: JsonObject = {"path": path, "lines": len(lines), "first": first, "shown": len(part)}
        if len(part) < len(lines):
            part.append(f"[lines {first} to {first - 1 + len(part)} of {len(lines)}]")
        return text("\n".join(part), facts)

    async def write(self, order: CallOrder) -> CallResult:
        path, content = string(order.arguments, "path"), string(order.arguments, "content").encode()
        async with self._workspaces.changing(order.context.run_id):
            is_new = await self.put(order, path, content)
        done = "written" if is_new else "replaced"
        return text(f"{done}: {path}, {len(content)} bytes", {"path": path, "bytes": len(content), "new": is_new})

    async def edit(self, order: CallOrder) -> CallResult:
        path = string(order.arguments, "path")
        old, new = string(order.arguments, "old"), string(order.arguments, "new")
        async with self._workspaces.changing(order.context.run_id):
            content = await self.content(order, path)
            try:
                before = content.decode()
            except UnicodeDecodeError:
                return problem("the file is not text", "use exec to change it")
            count = before.count(old)
            if count == 0:
                return problem("the file does not contain the old text", "read the file and copy the text exactly")
            if count > 1 and not flag(order.arguments, "replace_all"):
                return problem(f"the file contains the old text {count} times", "add context to it, or use replace_all")
            if len(before) + count * (len(new) - len(old)) > FILE_BYTES:
                return problem(f"the file would be larger than {FILE_BYTES} bytes")
            await self.put(order, path, before.replace(old, new).encode())
        return text(f"replaced {count} time{'s' if count > 1 else ''} in {path}", {"path": path, "replaced": count})

    async def glob(self, order: CallOrder) -> CallResult:
        wildcard = Wildcard(string(order.arguments, "pattern"))
        start = string_or(order.arguments, "path", ".")
        return await self._inside(order, lambda folder: _find_paths(folder, wildcard, start))

    async def grep(self, order: CallOrder) -> CallResult:
        try:
            matches = line_matcher(
                string(order.arguments, "pattern"),
                regex=flag(order.arguments, "regex"),
                ignore_case=flag(order.arguments, "ignore_case"),
            )
        except PatternRefused as error:
            return problem(str(error), "search for text as it is, or simplify the expression")
        names = Wildcard(string_or(order.arguments, "glob", "**"))
        start = string_or(order.arguments, "path", ".")
        cancelled = threading.Event()
        try:
            return await self._inside(order, lambda folder: find_lines(folder, matches, names, start, cancelled))
        finally:
            cancelled.set()  # frees the thread after a cancellation

    async def content(self, order: CallOrder, path: str) -> bytes:
        """Read a whole file of the run."""
        return await self._inside(order, lambda folder: folder.read(path))

    async def put(self, order: CallOrder, path: str, content: bytes) -> bool:
        """Write a file of the run, if there is room; returns whether it is new. The caller holds `changing`."""

        def write() -> bool:
            folders = self._workspaces.open(order.context.run_id)
            with Folder(folders.whole) as whole, Folder(folders.files) as files:
                check_room(whole, len(content))
                return files.write(path, content)

        return await asyncio.to_thread(write)

    async def _inside(self, order: CallOrder, work: Callable[[Folder], _T]) -> _T:
        def run() -> _T:
            with Folder(self._workspaces.open(order.context.run_id).files) as folder:
                return work(folder)

        return await asyncio.to_thread(run)


def _find_paths(folder: Folder, wildcard: Wildcard, start: str) -> CallResult:
    paths: list[str] = []
    more = False
    for entry in folder.walk(start):
        relative = entry.path if start == "." else entry.path.removeprefix(start.rstrip("/") + "/")
        if entry.kind != "other" and wildcard.matches(relative):
            if len(paths) == FOUND_LINES:
                more = True
                break
            paths.append(entry.path + ("/" if entry.kind == "folder" else ""))
    listing = "\n".join(paths) if paths else "no matches"
    return text(listing + (f"\n[only the first {FOUND_LINES}]" if more else ""), {"paths": list(paths), "more": more})


def find_lines(
    folder: Folder, matches: Callable[[str], bool], names: Wildcard, start: str, cancelled: threading.Event
) -> CallResult:
    """Search every file until `cancelled` is set. Sparse files are large without needing room, so this may be long."""
    found: list[str] = []
    left_out = 0
    for entry in folder.walk(start):
        if cancelled.is_set():
            break
        if entry.kind != "file" or not names.matches(entry.path):
            continue
        try:
            lines = folder.read(entry.path, limit=GREP_FILE_BYTES).decode().splitlines()
        except (OverLimit, UnicodeDecodeError, ConfineError):
            left_out += 1  # too large, not text, or removed meanwhile
            continue
        for count, line in enumerate(lines, 1):
            if matches(line):
                found.append(f"{entry.path}:{count}: {line[:GREP_LINE_CHARACTERS]}")
                if len(found) == FOUND_LINES:
                    return text(
                        "\n".join([*found, f"[only the first {FOUND_LINES}]"]), {"lines": len(found), "more": True}
                    )
    lines = found or ["no matches"]
    if left_out:
        lines = [*lines, f"[{left_out} files were left out: too large, or not text]"]
    return text("\n".join(lines), {"lines": len(found), "more": False, "left_out": left_out})
