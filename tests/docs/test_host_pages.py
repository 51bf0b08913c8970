"""The pages about the host have a heading for everything that the host has."""

import re
from pathlib import Path
from typing import Any

from bollard.host import limits
from bollard.host.api import operations
from bollard.host.http import answers
from bollard.host.limits import (
    EVENT_DATA_BYTES,
    INPUT_TEXT_BYTES,
    QUEUED_RUNS,
    QUEUED_RUNS_OF_AGENT,
    QUEUED_RUNS_OF_CALLER,
    QUEUED_RUNS_OF_CONVERSATION,
    SUBSCRIBER_BYTES,
    SUBSCRIBER_FRAMES,
)
from bollard.host.runs.stream import parse_place
from bollard.host.settings import Settings, read_settings
from bollard.protocol.limits import KIB, MIB

METHODS = {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


def _titles(page: Any, level: str) -> list[str]:
    return [title.replace("`", "") for title in re.findall(rf"^{level} (.+)$", page.prose, re.MULTILINE)]


def test_every_route_has_its_heading(pages: dict[str, Any]) -> None:
    titles = _titles(pages["docs/reference/http.md"], "##")
    told = {title for title in titles if title.partition(" ")[0] in METHODS}
    assert told == _routes()


def _routes() -> set[str]:
    return {f"{operation.method} {operation.path}" for operation in operations()}


def test_every_error_code_has_its_heading_and_its_status(pages: dict[str, Any]) -> None:
    page = pages["docs/reference/http.md"]
    statuses = answers.STATUS
    assert _titles(page, "###") == sorted(statuses, key=_titles(page, "###").index)
    for code, status in statuses.items():
        assert f"### `{code}`\n\n{status}. " in page.prose, code


def test_the_numbers_of_the_pages_match_the_code(pages: dict[str, Any]) -> None:
    page = " ".join(pages["docs/reference/http.md"].prose.split())
    for sentence in (
        f"at most {answers.BODY_BYTES // MIB} MiB, and strict",
        f"`text` up to {INPUT_TEXT_BYTES // KIB} KiB",
        f"| object | up to {EVENT_DATA_BYTES // KIB} KiB |",
        f"may be {SUBSCRIBER_FRAMES} records or {SUBSCRIBER_BYTES // MIB} MiB behind",
        f"{QUEUED_RUNS // 1000} 000 waiting runs",
        f"{QUEUED_RUNS_OF_CONVERSATION} of one conversation, {QUEUED_RUNS_OF_CALLER} of one caller, "
        f"{QUEUED_RUNS_OF_AGENT} of one agent",
    ):
        assert sentence in page, sentence
    assert str(parse_place("1.4")) == "1.4"


def test_every_setting_has_its_heading_and_its_default(pages: dict[str, Any]) -> None:
    page = pages["docs/reference/settings.md"]
    known = list(Settings.__struct_fields__)
    assert _titles(page, "##")[: len(known)] == known
    defaults = Settings()
    for name in known:
        section = page.prose.split(f"## {name}\n")[1].split("\n## ")[0]
        value = getattr(defaults, name)
        value = ",".join(value) if isinstance(value, tuple) and value else value
        shown = {"": "empty", "()": "none", "True": "`true`", "False": "`false`"}.get(str(value), f"`{value}`")
        assert f"Default: {shown}" in " ".join(section.split()), name
        assert f"BOLLARD_{name.upper()}" in section, name


def test_the_documented_variables_are_read() -> None:
    read = read_settings(
        {"BOLLARD_PORT": "9000", "BOLLARD_RETENTION": "message.completed=90"}, Path("/nonexistent"), {}
    )
    assert (read.port, read.retention) == (9000, (("message.completed", 90.0),))


def test_the_numbers_of_the_edge_match_the_code(pages: dict[str, Any]) -> None:
    page = pages["docs/reference/http.md"].prose
    defaults = Settings()
    for row in (
        f"| the head of a request | {limits.REQUEST_HEAD_S:g} s, {limits.REQUEST_HEAD_BYTES // KIB} KiB, "
        f"{limits.REQUEST_HEADERS} lines |",
        f"| its body | {limits.BODY_BYTES_PER_S // KIB} KiB a second, looked at every {limits.BODY_WINDOW_S:g} s |",
        f"| the time between two of them | {limits.CONNECTION_IDLE_S:g} s |",
        f"| a reader that takes nothing | {limits.DRAIN_S:g} s |",
        f"| connections | {_number(defaults.connections)} in all, {_number(defaults.connections_per_address)} of one ",
        f"| requests of one identity | {_number(defaults.requests_per_minute)} a minute, "
        f"{_number(defaults.requests_per_minute // 6)} at once; {_number(defaults.requests_at_once)} unanswered |",
        f"| requests without a valid token | {limits.STRANGER_REQUESTS_PER_MINUTE} a minute from one address |",
        f"| one message over a WebSocket | {limits.SOCKET_MESSAGE_BYTES // MIB} MiB |",
    ):
        assert row in page, row


def _number(value: int) -> str:
    return f"{value:,}".replace(",", " ") if value >= 10_000 else str(value)
