"""The folders of runs, and the tools `read`, `write`, `edit`, `glob` and `grep` in them. Blocking work runs in threads.

A folder is created at its first use and removed some time after its last use. Files in it are accessed through
`bollard.confine` only.
"""

import asyncio
import contextlib
import importlib
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

import msgspec
import structlog

from bollard.confine.errors import ConfineError, OverLimit
from bollard.confine.folder import Folder, remove_tree
from bollard.confine.limits import (
    FILE_BYTES,
    FOLDER_BYTES,
    FOLDER_FILES,
    GREP_FILE_BYTES,
    GREP_LINE_CHARACTERS,
    PATTERN_CHARACTERS,
)
from bollard.confine.paths import Wildcard, is_plain_name
from bollard.host.capabilities.sources import CallOrder, CallResult
from bollard.host.errors import ToolFailed
from bollard.host.limits import FILE_LINES, FOUND_LINES, MIB, PATTERN_BYTES, WORKSPACE_KEPT_S
from bollard.host.tools.ports import flag, number, problem, string, string_or, text
from bollard.protocol import JsonObject

_log = structlog.get_logger("bollard.host.tools")


class RunFolders(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of one run."""

    whole: Path
    """The folder whose total size is limited. It contains the others."""
    files: Path
    temporary: Path


class Workspaces:
    """The folders of all runs of this host."""

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def root(self) -> Path:
        return self._root

    def open(self, run_id: str) -> RunFolders:
        """Create the run's folders if needed, and mark them as used. Blocks."""
        if not is_plain_name(run_id):
            raise ToolFailed("this run cannot have files", reason="run_id_unusable")
        whole = self._root / run_id
        folders = RunFolders(whole=whole, files=whole / "files", temporary=whole / "tmp")
        for folder in (self._root, whole, folders.files, folders.temporary):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.utime(whole)
        return folders

    @contextlib.asynccontextmanager
    async def changing(self, run_id: str) -> AsyncGenerator[None]:
        """Serialise changes of a run's files, so that a read-modify-write loses nothing."""
        lock = self._locks.get(run_id)
        if lock is None:
            lock = self._locks[run_id] = asyncio.Lock()
        async with lock:
            yield

    def sweep(self, is_live: Callable[[str], bool], now_s: float | None = None) -> int:
        """Remove the long unused folders of ended runs; returns their number. Blocks."""
        removed, now_s = 0, time.time() if now_s is None else now_s
        with contextlib.suppress(FileNotFoundError):
            for folder in list(self._root.iterdir()):
                try:
                    if is_live(folder.name) or now_s - folder.stat().st_mtime < WORKSPACE_KEPT_S:
                        continue
                    remove_tree(folder)
                    removed += 1
                except OSError as error:
                    _log.warning("the folder of a run cannot be removed", run_id=folder.name, error=str(error))
        return removed


def check_room(folder: Folder, more_bytes: int = 0) -> None:
    """Raises `OverLimit` if the folder has no room for `more_bytes`."""
    used = folder.usage()
    if used.over or used.bytes + more_bytes > FOLDER_BYTES or used.files >= FOLDER_FILES:
        raise OverLimit(
            f"the folder of the run has no room: at most {FOLDER_BYTES // MIB} MiB and {FOLDER_FILES} files",
            hint="remove files that are no longer needed",
        )


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
