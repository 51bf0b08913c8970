"""`--help` everywhere, in both languages, at once."""

import subprocess
import sys

import pytest

from bollard import __version__
from bollard.cli.terminal.columns import width_of

COMMANDS = (
    (),
    ("up",),
    ("chat",),
    ("runs",),
    ("runs", "list"),
    ("runs", "show"),
    ("runs", "cancel"),
    ("runs", "records"),
    ("runs", "watch"),
    ("runs", "steer"),
    ("runs", "explain"),
    ("runs", "grant"),
    ("runs", "revoke"),
    ("agents",),
    ("agents", "list"),
    ("agents", "show"),
    ("agents", "save"),
    ("agents", "delete"),
    ("agents", "new"),
    ("bindings",),
    ("bindings", "list"),
    ("bindings", "show"),
    ("bindings", "save"),
    ("bindings", "delete"),
    ("resolve",),
    ("events",),
    ("events", "post"),
    ("log",),
    ("log", "rebuild"),
    ("drain",),
    ("doctor",),
    ("backup",),
    ("restore",),
    ("export",),
    ("import",),
    ("migrate",),
    ("plugin",),
    ("plugin", "new"),
    ("plugin", "check"),
    ("plugin", "test"),
    ("plugin", "run"),
    ("openapi",),
    ("protocol",),
    ("protocol", "schema"),
    ("conformance",),
)
HEAVY = ("pydantic", "rich", "yaml", "msgspec", "asyncio")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize(("language", "usage"), [("en_US", "Usage:"), ("zh_Hans", "用法：")])
def test_every_command_has_a_help_text(bollard, command: tuple[str, ...], language: str, usage: str) -> None:
    done = bollard(*command, "--help", BOLLARD_LANG=language)

    assert done.code == 0
    assert done.err == ""
    assert done.out.startswith(f"{usage} {' '.join(('bollard', *command))} ")
    assert max(width_of(line) for line in done.out.splitlines()) <= 80


def test_help_fills_a_wider_terminal_but_stays_readable(bollard) -> None:
    widths = [
        max(width_of(line) for line in bollard("--help", COLUMNS=columns).out.splitlines())
        for columns in ("120", "300")
    ]
    assert 80 < widths[0] == widths[1] <= 100


def test_short_h_is_help(bollard) -> None:
    assert bollard("plugin", "run", "-h").out == bollard("plugin", "run", "--help").out


@pytest.mark.parametrize("command", [(), ("plugin",), ("protocol",), ("artifacts",), ("log",)], ids=" ".join)
def test_a_group_without_a_command_shows_its_help(bollard, command: tuple[str, ...]) -> None:
    done = bollard(*command)
    assert (done.code, done.out, done.err) == (0, bollard(*command, "--help").out, "")


def test_the_version_is_one_line(bollard) -> None:
    assert bollard("--version").out == f"bollard {__version__}\n"


def test_headings_are_bold_on_a_terminal_only(terminal) -> None:
    shell = terminal("--help", columns=120)
    shell.expect("Commands:")
    assert shell.end() == 0
    assert "Exit codes: 0 success" in shell.shown


def test_help_imports_no_heavy_modules() -> None:
    code = (
        "import sys; from bollard.cli.app import run; run(['--help'], {});"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_the_global_options_may_be_anywhere(bollard, tmp_path) -> None:
    assert bollard("plugin", "--help", "--lang", "zh_Hans").out == bollard("--lang=zh_Hans", "plugin", "--help").out
    assert bollard("plugin", "new", "one", "--text").out.startswith("Created one:")
    assert bollard("--text", "plugin", "new", "two").out.startswith("Created two:")


def test_completion_can_be_shown(bollard) -> None:
    done = bollard("--show-completion", SHELL="/bin/bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "Traceback" not in done.err
