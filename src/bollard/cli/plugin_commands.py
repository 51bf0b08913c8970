"""`bollard plugin …`: reads the arguments and hands them on. Help texts are catalogue keys."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bollard.cli.app import Command, Group
from bollard.cli.errors import UsageProblem
from bollard.cli.limits import LOAD_TIMEOUT_S, RUN_TIMEOUT_S
from bollard.cli.plugin_host_commands import add_host_commands
from bollard.cli.shell import Shell

if TYPE_CHECKING:
    from bollard.cli.session import SessionOptions

__all__ = ["app"]

app = typer.Typer(cls=Group, help="plugin", no_args_is_help=True, rich_markup_mode=None, add_completion=False)

PluginPath = Annotated[Path, typer.Argument(metavar="PATH", help="plugin.path")]


@app.command("new", cls=Command, help="plugin.new")
def new(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="plugin.new.name")],
    into: Annotated[Path, typer.Option("--dir", metavar="PATH", help="plugin.new.dir")] = Path(),
    author: Annotated[str, typer.Option("--author", metavar="AUTHOR", help="plugin.new.author")] = "local",
    single_file: Annotated[bool, typer.Option("--single-file", help="plugin.new.single")] = False,
) -> int:
    from bollard.cli.scaffold import write_plugin

    shell: Shell = ctx.obj
    made = write_plugin(name, into=into, author=author, single_file=single_file)
    if shell.for_programs:
        shell.print_json({"path": str(made.path), "files": [str(file) for file in made.files]})
        return 0
    shell.print(shell.text("new.made", path=made.path))
    for file in made.files:
        shell.print(f"  {file}")
    shell.print(shell.text("new.next", path=made.path))
    return 0


@app.command("check", cls=Command, help="plugin.check")
def check(
    ctx: typer.Context,
    path: PluginPath,
    strict: Annotated[bool, typer.Option("--strict", help="plugin.check.strict")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="plugin.check.timeout")
    ] = LOAD_TIMEOUT_S,
) -> int:
    from bollard.cli.errors import PluginUnusable
    from bollard.cli.plugincheck import check_plugin

    shell: Shell = ctx.obj
    report, loaded = check_plugin(path, shell.text, timeout_s=_positive("--timeout", timeout))
    if shell.for_programs:
        shell.print_json(report.to_json(strict=strict))
    else:
        from bollard.cli.checktable import print_report

        print_report(shell.console(), report, shell.text, strict=strict)
    if not loaded:
        return PluginUnusable.exit_code
    return 0 if report.passed(strict=strict) else 1


@app.command(
    "test",
    cls=Command,
    help="plugin.test",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def run_own_tests(
    ctx: typer.Context,
    path: PluginPath,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="PYTEST_ARGS", help="plugin.test.args")] = None,
) -> int:
    from bollard.cli.plugintest import run_tests

    shell: Shell = ctx.obj
    code = run_tests(path, arguments or [], output_to_stderr=shell.for_programs)
    if shell.for_programs:
        shell.print_json({"path": str(path), "passed": code == 0, "pytest_exit_code": code})
    return 0 if code == 0 else 1


@app.command("run", cls=Command, help="plugin.run")
def run(
    ctx: typer.Context,
    path: PluginPath,
    runner: Annotated[str | None, typer.Option("--runner", metavar="NAME", help="plugin.run.runner")] = None,
    config: Annotated[str, typer.Option("--config", metavar="JSON|@FILE", help="plugin.run.config")] = "{}",
    message: Annotated[list[str] | None, typer.Option("--message", metavar="TEXT", help="plugin.run.message")] = None,
    event: Annotated[str | None, typer.Option("--event", metavar="TYPE", help="plugin.run.event")] = None,
    timeout: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="plugin.run.timeout")] = RUN_TIMEOUT_S,
    record: Annotated[Path | None, typer.Option("--record", metavar="FILE", help="plugin.run.record")] = None,
) -> int:
    import asyncio

    from bollard.cli.json_option import read_json_object
    from bollard.cli.play import MESSAGE
    from bollard.cli.session import SessionOptions

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
        messages = message or [""]  # one run on the event, with or without a text
    return asyncio.run(_play(ctx.obj, options, messages, event or MESSAGE))


add_host_commands(app)


async def _play(shell: Shell, options: "SessionOptions", messages: list[str] | None, event_type: str) -> int:
    from bollard.cli.play import converse, play_all
    from bollard.cli.prompt import GivenLines, PipedLines, Prompt
    from bollard.cli.rendering import renderer_for
    from bollard.cli.session import Session

    renderer = renderer_for(shell)
    interactive = messages is None and sys.stdin.isatty() and shell.mode == "terminal"
    async with Session(options, renderer, shell.text) as session:
        await session.open(interactive=interactive)
        if interactive:
            return await converse(session, renderer, shell.text, Prompt(shell.text))
        lines = PipedLines(sys.stdin) if messages is None else GivenLines(messages)
        return await play_all(session, renderer, shell.text, lines, event_type)


def _positive(option: str, seconds: float) -> float:
    if not 0 < seconds < float("inf"):
        raise UsageProblem("error.seconds", "hint.seconds", option=option, value=f"{seconds:g}")
    return seconds
