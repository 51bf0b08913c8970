"""`bollard plugin dev`: runs a plugin on a host during its development.

Every save is checked here and uploaded; the host starts it beside the previous version. A broken save changes nothing.
Ctrl-C removes the plugin. The host removes it too if this command stops sending heartbeats.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bollard.cli.client.host_client import HostClient
from bollard.cli.errors import CliError, HostRefusal, UsageProblem
from bollard.cli.limits import DEV_KEEP_S, DEV_LOOK_S, LOAD_TIMEOUT_S
from bollard.cli.plugins.check import check_plugin
from bollard.cli.plugins.host_plugins import (
    ARCHIVE,
    Consenting,
    PackedPlugin,
    change_lines,
    follow_lines,
    log_line,
    one,
    pack_plugin,
    with_consent,
)
from bollard.cli.shell import Shell
from bollard.wire.plugin_files import plugin_files

if TYPE_CHECKING:
    from bollard.protocol import JsonObject


Stamp = dict[str, tuple[int, int]]
"""Time and size of each file of the plugin, by name."""


def stamp_of(path: Path) -> Stamp:
    """The current stamps; files that vanish meanwhile are left out."""
    found: Stamp = {}
    for name, file in plugin_files(path):
        with contextlib.suppress(OSError):
            seen = file.stat()
            found[name] = (seen.st_mtime_ns, seen.st_size)
    return found


class DevelopmentSession:
    """One plugin on one host."""

    def __init__(self, shell: Shell, client: HostClient, path: Path, consenting: Consenting) -> None:
        self._shell = shell
        self._client = client
        self._path = path
        self._first_yes = consenting
        self._plugin_id: str | None = None
        self._digest: str | None = None
        self._seen: Stamp = {}
        self._again = False
        self._line = 0
        self._stop = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    async def run(self) -> int:
        """Run until Ctrl-C. Raises `CliError` if the first version cannot be used."""
        if not self._path.exists():
            raise UsageProblem("error.no_path", "hint.plugin_path", path=self._path)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop.set)
        self._seen = stamp_of(self._path)
        await self._send(list(self._seen), first=True)
        keeping = asyncio.create_task(self._keep())
        try:
            while not await self._stopped(DEV_LOOK_S):
                await self._look()
        finally:
            keeping.cancel()
            if self._following is not None:
                self._following.cancel()
            await self._leave()
        return 0

    async def _stopped(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()
        return self._stop.is_set()

    async def _look(self) -> None:
        """Upload changes. A file that is still being written is checked again later."""
        now = stamp_of(self._path)
        if now == self._seen and not self._again:
            return
        if await self._stopped(DEV_LOOK_S / 3) or stamp_of(self._path) != now:
            return
        changed = sorted(name for name in {*now, *self._seen} if now.get(name) != self._seen.get(name))
        self._seen, self._again = now, False
        try:
            await self._send(changed, first=False)
        except CliError as error:
            self._print("kept", problem=self._sentence(error))

    async def _send(self, changed: list[str], *, first: bool) -> None:
        packed = await asyncio.to_thread(pack_plugin, self._path)
        if packed.digest == self._digest:
            return
        self._plugin_id = self._plugin_id or packed.described.plugin_id
        if packed.described.plugin_id != self._plugin_id:
            raise UsageProblem("error.dev_renamed", "hint.dev_renamed", plugin=packed.described.plugin_id)
        if self._following is None:
            self._line = await self._last_line()
        began = time.monotonic()
        report, loaded = await asyncio.to_thread(check_plugin, self._path, self._shell.text, timeout_s=LOAD_TIMEOUT_S)
        if not loaded or not report.passed(strict=False):
            findings = [
                f"{each.rule} {each.where}: {each.problem}" for each in report.findings if each.severity == "error"
            ]
            raise UsageProblem("error.dev_check", "hint.dev_check", problem="; ".join(findings[:3]))
        answer = await with_consent(
            lambda consent: self._put(packed, consent), self._first_yes if first else self._later_yes
        )
        self._digest = packed.digest
        took_ms = round((time.monotonic() - began) * 1000)
        self._print("reloaded", plugin=self._plugin_id, took_ms=took_ms, changed=changed, answer=answer, first=first)
        if self._following is None:
            self._following = asyncio.create_task(self._follow(self._plugin_id))

    async def _last_line(self) -> int:
        """The number of the newest log line; older lines are not shown."""
        with contextlib.suppress(HostRefusal):
            page: Any = await self._client.get(one(self._plugin_id or "", "/logs?limit=1"))
            return page["items"][-1]["number"] if page["items"] else 0
        return 0

    def _later_yes(self, details: dict[str, Any]) -> bool:
        """Consent was given at the start; access that later saves request is only shown."""
        if not self._shell.for_programs:
            self._shell.print(self._shell.text("dev.wider"))
            for line in change_lines(details["change"]):
                self._shell.print(line)
        return True

    async def _put(self, packed: PackedPlugin, consent: str | None) -> JsonObject:
        path = one(packed.described.plugin_id, "/dev")
        query = "" if consent is None else f"?consent={consent}"
        return await self._client.upload("PUT", f"{path}{query}", packed.data, ARCHIVE)

    async def _keep(self) -> None:
        """Send heartbeats. A restarted host gets the code again."""
        while True:
            await asyncio.sleep(DEV_KEEP_S)
            if self._plugin_id is None:
                continue
            try:
                await self._client.post(one(self._plugin_id, "/dev"), {})
            except HostRefusal as refusal:
                if refusal.code == "not_found":
                    self._digest, self._again = None, True
            except CliError:
                self._digest, self._again = None, True  # unreachable: retried at the next check

    async def _follow(self, plugin_id: str) -> None:
        def show(line: dict[str, Any]) -> None:
            self._print("line", line=line)

        with contextlib.suppress(CliError):
            await follow_lines(self._client, plugin_id, self._line, show)

    async def _leave(self) -> None:
        if self._plugin_id is None or self._digest is None:
            return
        try:
            await self._client.call("DELETE", one(self._plugin_id, "/dev"))
        except CliError as error:
            self._print("left", plugin=self._plugin_id, problem=self._sentence(error))
        else:
            self._print("left", plugin=self._plugin_id)

    def _sentence(self, error: CliError) -> str:
        return error.sentences(self._shell.text)[0]

    # --- output ---

    def _print(self, event: str, **fields: Any) -> None:
        if self._shell.for_programs:
            self._shell.print(json.dumps({"event": event, **fields}, ensure_ascii=False))
            return
        for line in self._lines(event, fields):
            self._shell.print(line)

    def _lines(self, event: str, fields: dict[str, Any]) -> Iterator[str]:
        text = self._shell.text
        match event:
            case "reloaded":
                key = "dev.began" if fields["first"] else "dev.reloaded"
                names = ", ".join(fields["changed"][:5])
                yield text(key, plugin=fields["plugin"], took_ms=fields["took_ms"], files=names)
                if fields["first"]:
                    yield text("dev.try", agent=fields["plugin"].partition("/")[2])
            case "kept":
                yield text("dev.kept", problem=fields["problem"])
            case "line":
                yield log_line(fields["line"])
            case _:
                problem = fields.get("problem")
                yield text("dev.left", plugin=fields["plugin"]) if problem is None else str(problem)
