"""The host's log: a sentence with fields, JSON into a pipe, and nothing in it that opens anything."""

import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import structlog
from tests.tables import for_each

from bollard.cli.operate.host_log import configure_logs, without_secrets
from bollard.host.secrets.redactor import Redactor

ADMIN = "bollard_" + "x" * 40
KEY = "blk_ab12cd_" + "y" * 40
TICKET = "tkt_" + "z" * 40


@pytest.fixture
def logged(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The lines on stderr."""
    before, root = structlog.get_config(), logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield lambda: [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    structlog.configure(**before)
    root.handlers[:] = handlers
    root.setLevel(level)


@for_each(
    "name",
    ["token", "admin_token", "Authorization", "cookie", "set-cookie", "api_key", "apikey", "password", "db_passwd"],
)
def test_a_field_with_the_name_of_a_secret_is_blanked(name: str) -> None:
    said = {"event": "x", name: "open sesame", "fields": {"deep": [{name: "open sesame"}]}}
    shown = without_secrets(None, "info", said)
    assert "sesame" not in json.dumps(shown)
    assert shown[name] == "***"


@for_each(
    ("text", "secret"),
    [
        (ADMIN, ADMIN),
        (KEY, "y" * 40),
        (TICKET, "z" * 40),
        ("bls_" + "w" * 40, "w" * 40),
        ("Bearer abc.def-123", "abc.def-123"),
        ("Basic dXNlcjpwdw==", "dXNlcjpwdw"),
        ("postgresql://user:word@host/db", "word"),
        ("cookie: bollard=s3ss10n; Path=/", "s3ss10n"),
        ("__Host-bollard=s3ss10n", "s3ss10n"),
        ("/stream?ticket=abcdef", "abcdef"),
        ("https://h/?token=abcdef&x=1", "abcdef"),
    ],
)
def test_a_text_that_looks_like_a_secret_is_blanked_everywhere(text: str, secret: str) -> None:
    holder = {"event": f"it said {text}", "list": [text, (text,)], "error": ValueError(text), "raw": text.encode()}
    shown = json.dumps(without_secrets(None, "info", {**holder, "fields": {text: {"deep": text}}}))
    assert secret not in shown
    assert shown.count("***") == 7


def test_other_values_stay() -> None:
    said = {
        "event": "a run ended",
        "run": "run_1",
        "input_tokens": 12,
        "tokens": 3,
        "ms": 1.5,
        "ok": True,
        "none": None,
    }
    assert without_secrets(None, "info", said) == said


def test_a_cyclic_value_is_truncated() -> None:
    endless: dict[str, Any] = {"event": "x"}
    endless["me"] = endless
    assert "***" in json.dumps(without_secrets(None, "info", endless))


def test_a_line_in_a_pipe_is_json_with_its_fields(logged: Any) -> None:
    configure_logs("info", for_people=False)
    structlog.get_logger("bollard.test").info("a run ended", run="run_1", trace="0af7", token=ADMIN)
    (line,) = logged()
    assert (line["event"], line["run"], line["trace"], line["token"]) == ("a run ended", "run_1", "0af7", "***")
    assert line["level"] == "info"
    assert line["timestamp"].endswith("Z")


def test_the_level_filters_records_including_those_of_workers(logged: Any) -> None:
    configure_logs("warning", for_people=False)
    log = structlog.get_logger("bollard.test")
    log.info("not this")
    log.log(logging.INFO, "nor this")
    log.log(logging.ERROR, "this")
    logging.getLogger("uvicorn").warning("and %s", f"Bearer {ADMIN}")
    assert [(line["event"], line["level"]) for line in logged()] == [("this", "error"), ("and Bearer ***", "warning")]


def test_an_exception_is_logged_with_its_trace_and_without_its_secret(logged: Any) -> None:
    configure_logs("info", for_people=False)
    try:
        int(KEY)
    except ValueError:
        structlog.get_logger("bollard.test").exception("it failed")
    (line,) = logged()
    assert "ValueError: invalid literal" in line["exception"]
    assert KEY not in json.dumps(line)


def test_a_secret_known_to_the_redactor_is_in_no_line(logged: Any) -> None:
    redactor = Redactor()
    configure_logs("info", for_people=False, hidden=redactor.everywhere.value)
    redactor.add("default", "a-known-value")  # later secrets count too
    log = structlog.get_logger("bollard.test")
    log.info("it said a-known-value", deep={"list": ["612d6b6e6f776e2d76616c7565"]}, named="YS1rbm93bi12YWx1ZQ==")
    (line,) = logged()
    assert (line["event"], line["deep"], line["named"]) == ("it said ***", {"list": ["***"]}, "***Q==")
