"""What `bollard up` says while it starts and stops: sentences for a person, or one JSON line for each thing."""

import contextlib
import json
import sys
from collections.abc import Mapping
from typing import Protocol

from bollard.cli.columns import printable
from bollard.cli.shell import Shell
from bollard.host.settings import Settings

__all__ = ["Announcer", "LineAnnouncer", "TextAnnouncer"]


class Announcer(Protocol):
    """Told by the one who serves."""

    def listening(self, address: str, version: str, settings: Settings) -> None: ...

    def token(self, token: str, saved: str | None) -> None:
        """The admin token of a first start, and the file in which it was kept for this user."""
        ...

    def agent(self, agent_id: str, label: Mapping[str, str]) -> None: ...

    def plugin_failed(self, name: str, problem: str) -> None: ...

    def stopping(self, grace_s: float) -> None: ...

    def stopped(self) -> None: ...

    def broken(self) -> None:
        """The host had to stop: nothing can be written."""
        ...


class TextAnnouncer:
    """For a person."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._text = shell.text

    def listening(self, address: str, version: str, settings: Settings) -> None:
        data = settings.data.resolve()
        self._say(self._text("up.listening", address=address, version=version))
        self._say(self._text("up.database" if settings.database else "up.data", path=data))

    def token(self, token: str, saved: str | None) -> None:
        self._say(self._text("up.token", token=token))
        self._say(self._text("up.token_saved", path=saved) if saved else self._text("up.token_unsaved"))

    def agent(self, agent_id: str, label: Mapping[str, str]) -> None:
        shown = printable(label.get(self._text.language) or label.get("en_US", agent_id))
        self._say(self._text("up.agent", agent=printable(agent_id), label=shown))

    def plugin_failed(self, name: str, problem: str) -> None:
        self._say(self._text("up.failed", plugin=printable(name), problem=printable(problem)))
        self._say(self._text("hint", hint=self._text("hint.check")))

    def stopping(self, grace_s: float) -> None:
        self._say(self._text("up.stopping", seconds=f"{grace_s:g}"))

    def stopped(self) -> None:
        self._say(self._text("up.stopped"))

    def broken(self) -> None:
        self._say(self._text("up.broken"))
        self._say(self._text("hint", hint=self._text("hint.broken")))

    def _say(self, sentence: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # whoever listened has gone; the host has not
            self._shell.print(sentence)


class LineAnnouncer:
    """For a program."""

    def listening(self, address: str, version: str, settings: Settings) -> None:
        _line("listening", address=address, version=version, data=str(settings.data.resolve()))

    def token(self, token: str, saved: str | None) -> None:
        _line("token", token=token, saved=saved)

    def agent(self, agent_id: str, label: Mapping[str, str]) -> None:
        _line("agent.ready", agent=agent_id, label=dict(label))

    def plugin_failed(self, name: str, problem: str) -> None:
        _line("plugin.failed", plugin=name, problem=problem)

    def stopping(self, grace_s: float) -> None:
        _line("stopping", grace_s=grace_s)

    def stopped(self) -> None:
        _line("stopped")

    def broken(self) -> None:
        _line("broken")


def _line(event: str, **fields: object) -> None:
    with contextlib.suppress(BrokenPipeError):  # whoever listened has gone; the host has not
        sys.stdout.write(json.dumps({"event": event, **fields}, ensure_ascii=False) + "\n")
        sys.stdout.flush()
