"""`bollard plugin …`: creates, checks, tests and runs a plugin on this machine. `installed` has the commands for
plugins of a host."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text as Styled

from bollard.cli.command import CommandGroup
from bollard.cli.errors import CheckFailed, PluginUnusable, UsageProblem, writing
from bollard.cli.language import Text
from bollard.cli.limits import LOAD_TIMEOUT_S, RUN_TIMEOUT_S
from bollard.cli.plugins.findings import CheckReport
from bollard.cli.shell import Shell
from bollard.cli.terminal.columns import printable
from bollard.extras import install_command
from bollard.protocol.limits import NAME_CHARACTERS

if TYPE_CHECKING:
    from bollard.cli.plugins.session import SessionOptions


app = CommandGroup("plugin")

PluginPath = Annotated[Path, typer.Argument(metavar="PATH", help="plugin.path")]


@app.command("new")
def new(
    shell: Shell,
    name: Annotated[str, typer.Argument(metavar="NAME", help="plugin.new.name")],
    into: Annotated[Path, typer.Option("--dir", metavar="PATH", help="plugin.new.dir")] = Path(),
    author: Annotated[str, typer.Option("--author", metavar="AUTHOR", help="plugin.new.author")] = "local",
    single_file: Annotated[bool, typer.Option("--single-file", help="plugin.new.single")] = False,
) -> int:
    made = write_plugin(name, into=into, author=author, single_file=single_file)
    files = [str(file) for file in made.files]
    return shell.tell(
        {"path": str(made.path), "files": files},
        shell.text("new.made", path=made.path),
        *(f"  {file}" for file in files),
        shell.text("new.next", path=made.path),
    )


@app.command("check")
def check(
    shell: Shell,
    path: PluginPath,
    strict: Annotated[bool, typer.Option("--strict", help="plugin.check.strict")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="plugin.check.timeout")
    ] = LOAD_TIMEOUT_S,
) -> int:
    from bollard.cli.plugins.check import check_plugin

    report, loaded = check_plugin(path, shell.text, timeout_s=_positive("--timeout", timeout))
    if shell.for_programs:
        shell.print_json(report.to_json(strict=strict))
    else:
        print_report(shell.console(), report, shell.text, strict=strict)
    if not loaded:
        return PluginUnusable.exit_code
    return 0 if report.passed(strict=strict) else 1


@app.command("test", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run_own_tests(
    shell: Shell,
    path: PluginPath,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="PYTEST_ARGS", help="plugin.test.args")] = None,
) -> int:
    code = run_tests(path, arguments or [], output_to_stderr=shell.for_programs)
    shell.show({"path": str(path), "passed": code == 0, "pytest_exit_code": code}, ())
    return 0 if code == 0 else 1


@app.command("run")
def run(
    shell: Shell,
    path: PluginPath,
    runner: Annotated[str | None, typer.Option("--runner", metavar="NAME", help="plugin.run.runner")] = None,
    config: Annotated[str, typer.Option("--config", metavar="JSON|@FILE", help="plugin.run.config")] = "{}",
    message: Annotated[list[str] | None, typer.Option("--message", metavar="TEXT", help="plugin.run.message")] = None,
    event: Annotated[str | None, typer.Option("--event", metavar="TYPE", help="plugin.run.event")] = None,
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="plugin.run.timeout")] = RUN_TIMEOUT_S,
    record: Annotated[Path | None, typer.Option("--record", metavar="FILE", help="plugin.run.record")] = None,
) -> int:
    import asyncio

    from bollard.cli.client.documents import read_json_object
    from bollard.cli.plugins.session import SessionOptions
    from bollard.cli.runs.play import MESSAGE

    if record is not None and not record.parent.is_dir():
        raise UsageProblem("error.no_folder", "hint.no_folder", path=record.parent)
    if record is not None and record.is_dir():
        raise UsageProblem("error.is_folder", "hint.write", path=record)
    if not path.exists():
        raise UsageProblem("error.no_path", "hint.plugin_path", path=path)
    options = SessionOptions(
        path=path,
        runner=runner,
        config=read_json_object("--config", config),
        timeout_s=_positive("--timeout", timeout),
        record=record,
    )
    messages = message
    if event is not None and event != MESSAGE:
        messages = message or [""]  # one run for the event, with or without a text
    return asyncio.run(_play(shell, options, messages, event or MESSAGE))


async def _play(shell: Shell, options: "SessionOptions", messages: list[str] | None, event_type: str) -> int:
    from bollard.cli.plugins.session import Session
    from bollard.cli.runs.dialogue import Dialogue, screen_for
    from bollard.cli.runs.play import play
    from bollard.cli.terminal.page import TerminalPage
    from bollard.cli.terminal.text_renderer import renderer_for

    screen = screen_for(shell) if messages is None else None
    renderer = renderer_for(shell, page=None if screen is None else TerminalPage(screen))
    async with Session(options, renderer, shell.text) as session:
        await session.open(interactive=screen is not None)
        if screen is not None:
            return await Dialogue(session, renderer, shell.text, screen).run()
        return await play(session, renderer, shell, messages, event_type)


def _positive(option: str, seconds: float) -> float:
    if not 0 < seconds < float("inf"):
        raise UsageProblem("error.seconds", "hint.seconds", option=option, value=f"{seconds:g}")
    return seconds


# The report of `bollard plugin check` for a person.


_STYLES: Final = {"error": "red", "warning": "yellow"}
_WIDE_COLUMNS: Final = 110
"""From this width on each field has a column of its own."""


def print_report(console: Console, report: CheckReport, text: Text, *, strict: bool) -> None:
    """Findings, usable entries, and one line with the result."""
    if report.findings:
        console.print(_findings(report, text, console.width))
        console.print()
    for offer in report.usable:
        console.print(text(f"check.{offer.kind}", name=offer.name, label=printable(offer.label)), style="dim")
    if not report.usable:
        console.print(text("check.nothing"), style="dim")
    passed = report.passed(strict=strict)
    verdict = text(
        "check.passed" if passed else "check.failed",
        plugin=report.plugin or report.path,
        errors=report.errors,
        warnings=report.warnings,
    )
    console.print(verdict, style="green" if passed else "red")


def _findings(report: CheckReport, text: Text, columns: int) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    rule, where, field, problem, hint = (
        text(f"check.{name}") for name in ("rule", "where", "field", "problem", "hint")
    )
    narrow = columns < _WIDE_COLUMNS
    headings = (rule, f"{where} / {field}", f"{problem} / {hint}") if narrow else (rule, where, field, problem, hint)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for finding in report.findings:
        cells = [printable(cell) for cell in (finding.where, finding.field, finding.problem, finding.hint)]
        name = Styled(finding.rule, _STYLES[finding.severity])
        if narrow:  # five narrow columns are unreadable: the field goes below the place, the hint below the problem
            table.add_row(name, _stacked(cells[0], cells[1]), _stacked(cells[2], cells[3]))
        else:
            table.add_row(name, *(Styled(cell) for cell in cells))
    return table


def _stacked(upper: str, lower: str) -> Styled:
    return Styled.assemble(upper, "\n", (lower, "dim"))


# `bollard plugin test`: runs pytest on a plugin's own tests, in a child process with the plugin's folder on its path.


_NOTHING_COLLECTED: Final = 5
"""pytest's exit code for no tests."""


def run_tests(path: Path, arguments: Sequence[str], *, output_to_stderr: bool) -> int:
    """Run the tests and return pytest's exit code; raises if there are none."""
    if importlib.util.find_spec("pytest") is None:
        raise UsageProblem("error.no_pytest", "hint.no_pytest", command=install_command("test"))
    if not path.exists():
        raise UsageProblem("error.no_path", "hint.plugin_path", path=path)
    folder, targets = _targets(path.resolve())
    if not targets:
        raise CheckFailed("error.no_tests", _tests_hint(path), path=path)
    inherited = os.environ.get("PYTHONPATH")
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(folder), *([inherited] if inherited else [])]),
        # Bytecode and pytest's cache do not belong into a plugin that is shipped.
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    code = subprocess.run(  # noqa: S603 -- our own interpreter, with arguments of the user
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *targets, *arguments],
        cwd=folder,
        env=environment,
        stdout=sys.stderr if output_to_stderr else None,
        check=False,
    ).returncode
    if code == _NOTHING_COLLECTED:
        raise CheckFailed("error.no_tests", _tests_hint(path), path=path)
    return code


def _tests_hint(path: Path) -> str:
    """A program has the tests of its language; its protocol has the kit."""
    from bollard.manifest.text import declared_worker

    return "hint.no_tests.program" if declared_worker(path).command else "hint.no_tests"


def _targets(path: Path) -> tuple[Path, list[str]]:
    """The plugin's folder, and the tests in it."""
    if path.is_dir():
        return path, [name for name in ("tests",) if (path / name).is_dir()]
    beside = path.with_name(f"test_{path.name}")
    return path.parent, [file.name for file in (path, beside) if file.is_file() and _has_tests(file)]


def _has_tests(file: Path) -> bool:
    try:
        body = ast.parse(file.read_bytes()).body
    except (SyntaxError, ValueError):
        return True  # pytest reports the problem
    named = (node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef))
    return any(name.startswith(("test_", "Test")) for name in named)


# Writes a new plugin from the templates. Never overwrites a file.


_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]*")
_SUFFIX: Final = ".txt"
"""The suffix of template files, so that no tool treats them as code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPlugin:
    """The created files: the folder or file to name in other commands, and every file."""

    path: Path
    files: tuple[Path, ...]


def write_plugin(name: str, *, into: Path, author: str, single_file: bool) -> NewPlugin:
    """Write a folder of the fixed shape, or one file; raises `UsageProblem` before anything is written."""
    for option, value in (("NAME", name), ("--author", author)):
        if not _NAME.fullmatch(value) or len(value) > NAME_CHARACTERS:
            raise UsageProblem("error.name", "hint.name", option=option, value=value, limit=NAME_CHARACTERS)
    if not into.is_dir():
        raise UsageProblem("error.no_folder", "hint.no_folder", path=into)
    # A file is imported, so its name must be a module's.
    path = into / (re.sub(r"[.-]", "_", name) + ".py" if single_file else name)
    if path.exists() or path.is_symlink():
        raise UsageProblem("error.exists", "hint.exists", path=path)
    title = re.sub(r"[._-]+", " ", name).strip().capitalize() or name
    fields = {"name": name, "author": author, "title": title}
    templates = resources.files("bollard.cli") / "templates"
    with writing(path):
        if single_file:
            return NewPlugin(path=path, files=(_write(templates / f"single.py{_SUFFIX}", path, fields),))
        path.mkdir()
        return NewPlugin(path=path, files=tuple(_write_folder(templates / "folder", path, fields)))


def _write_folder(source: Traversable, target: Path, fields: dict[str, str]) -> list[Path]:
    target.mkdir(exist_ok=True)
    written: list[Path] = []
    for entry in sorted(source.iterdir(), key=lambda item: (item.is_dir(), item.name)):
        if entry.is_dir():
            written += _write_folder(entry, target / entry.name, fields)
        elif entry.name.endswith(_SUFFIX):
            written.append(_write(entry, target / entry.name.removesuffix(_SUFFIX), fields))
    return written


def _write(source: Traversable, target: Path, fields: dict[str, str]) -> Path:
    content = Template(source.read_text(encoding="utf-8")).substitute(fields)
    with target.open("x", encoding="utf-8") as file:
        file.write(content)
    return target
