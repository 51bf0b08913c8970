"""The pages about the host have a heading for everything that the host has."""

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from bollard.host.http import answers
from bollard.host.http.routes import Api
from bollard.host.limits import EVENT_DATA_BYTES, INPUT_TEXT_BYTES, QUEUED_RUNS, SUBSCRIBER_BYTES, SUBSCRIBER_FRAMES
from bollard.host.runs.reading import parse_place
from bollard.host.settings import Settings, read_settings
from bollard.protocol.limits import KIB, MIB


def _titles(page: Any, level: str) -> list[str]:
    return [title.replace("`", "") for title in re.findall(rf"^{level} (.+)$", page.prose, re.MULTILINE)]


def test_every_route_has_its_heading(pages: dict[str, Any]) -> None:
    titles = _titles(pages["docs/reference/http.md"], "##")
    told = {title for title in titles if title.partition(" ")[0] in ("GET", "POST", "PUT", "DELETE")}
    assert told == _routes()


def _routes() -> set[str]:
    """Read from the source, because building an `Api` takes a whole host."""
    found = re.findall(r'self\._\w+\("(\w+)", "([^"]+)"', inspect.getsource(Api.routes))
    return {f"{method} {path}" for method, path in found}


def test_every_error_code_has_its_heading_and_its_status(pages: dict[str, Any]) -> None:
    page = pages["docs/reference/http.md"]
    statuses: dict[str, int] = vars(answers)["_STATUS"]
    assert _titles(page, "###") == sorted(statuses, key=_titles(page, "###").index)
    for code, status in statuses.items():
        assert f"### `{code}`\n\n{status}. " in page.prose, code


def test_the_numbers_of_the_pages_are_those_of_the_code(pages: dict[str, Any]) -> None:
    page = " ".join(pages["docs/reference/http.md"].prose.split())
    for sentence in (
        f"at most {answers.BODY_BYTES // MIB} MiB, and strict",
        f"`text` up to {INPUT_TEXT_BYTES // KIB} KiB",
        f"| object | up to {EVENT_DATA_BYTES // KIB} KiB |",
        f"may be {SUBSCRIBER_FRAMES} records or {SUBSCRIBER_BYTES // MIB} MiB behind",
        f"{QUEUED_RUNS // 1000} 000 waiting runs",
    ):
        assert sentence in page, sentence
    assert str(parse_place("1.4")) == "1.4"


def test_every_setting_has_its_heading_and_its_default(pages: dict[str, Any]) -> None:
    page = pages["docs/reference/settings.md"]
    known = [item.name for item in fields(Settings)]
    assert _titles(page, "##")[: len(known)] == known
    defaults = Settings()
    for name in known:
        section = page.prose.split(f"## {name}\n")[1].split("\n## ")[0]
        value = getattr(defaults, name)
        shown = {"": "empty", "()": "none", "True": "`true`"}.get(str(value), f"`{value}`")
        assert f"Default: {shown}" in " ".join(section.split()), name
        assert f"BOLLARD_{name.upper()}" in section, name


def test_the_documented_variables_are_read() -> None:
    read = read_settings(
        {"BOLLARD_PORT": "9000", "BOLLARD_RETENTION": "message.completed=90"}, Path("/nonexistent"), {}
    )
    assert (read.port, read.retention) == (9000, (("message.completed", 90.0),))
