"""One command line. What went wrong becomes a sentence, a hint and an exit code here, and nowhere else."""

import io
import os
import re
import sys
import traceback
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TextIO, cast

import typer

from bollard.cli.app import build
from bollard.cli.errors import EXIT_INTERRUPTED, CliError, UsageProblem
from bollard.cli.language import Text, choose_language, load_text
from bollard.cli.shell import read_invocation
from bollard.cli.terminal.columns import printable

# What commands write to stdout and stderr, with bidirectional controls escaped: a name that somebody chose must not
# turn the words around it. All output passes here, whatever draws it.
#
# A control becomes `\uXXXX`. In JSON that is another spelling of the same character, so programs read what was there.
# Bytes that are written to the buffer below, such as the content of an artifact, stay what they are.


_CONTROLS: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def escaped(text: str) -> str:
    """The text with its bidirectional controls escaped."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class _Escaped:
    """A stream that escapes what is written, and is the stream below it in everything else."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(escaped(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def escaped_output() -> Generator[None]:
    """For as long as one command runs."""
    out, err = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = cast("TextIO", _Escaped(out)), cast("TextIO", _Escaped(err))
    try:
        yield
    finally:
        sys.stdout, sys.stderr = out, err


_USAGE_ERROR: Final[type[Exception]] = typer.BadParameter.__bases__[0]
"""The parser's own error, which typer does not export."""


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run one command line and give its exit code."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # invalid bytes are replaced
            stream.reconfigure(errors="replace")
    with escaped_output():
        return _run(arguments, environment)


def _run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    text = load_text(choose_language(environment))
    try:
        rest, shell = read_invocation(arguments, environment, stdout_is_terminal=sys.stdout.isatty())
        text = shell.text
        code = build(text).main(args=rest, prog_name="bollard", standalone_mode=False, obj=shell)
        sys.stdout.flush()
    except CliError as error:
        return _tell_problem(error, text)
    except BrokenPipeError:
        # The reader of our output is gone; the buffer must not fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("\n")
        return EXIT_INTERRUPTED
    except _USAGE_ERROR as error:
        return _usage_error(error, text)
    except Exception as error:  # noqa: BLE001 -- the last boundary: a bug of ours becomes a sentence
        if (problem := _known_problem(error)) is not None:
            return _tell_problem(problem, text)
        if environment.get("BOLLARD_DEBUG"):
            traceback.print_exc()
        detail = f"{type(error).__name__}: {error}"
        return _tell(text("error.bug", detail=detail), text("hint.bug"), 1, text)
    return code if isinstance(code, int) else 0


def _known_problem(error: Exception) -> CliError | None:
    """What is wrong where the host's own code, running in this process, refuses or is not installed."""
    if isinstance(error, ImportError):
        ours = (error.name or "").startswith("bollard")
        return None if ours else UsageProblem("error.no_host", "hint.no_host", module=error.name)
    from bollard.cli.client.host_client import problem_of
    from bollard.host.errors import HostError

    return problem_of(error) if isinstance(error, HostError) else None


def _tell_problem(error: CliError, text: Text) -> int:
    fields = _fields(error, text)
    return _tell(text(error.key, **fields), text(error.hint, **fields), error.exit_code, text)


def _fields(error: CliError, text: Text) -> dict[str, object]:
    """The fields of both sentences. Those of the host are in the language of `text` if it has them."""
    if not error.code:
        return error.fields
    message, hint = str(error.fields.get("detail", "")), str(error.fields.get("advice", ""))
    detail, advice = text.host_error(error.code, error.details, message, hint)
    return {**error.fields, "detail": detail, "advice": advice}


def _tell(sentence: str, hint: str, code: int, text: Text) -> int:
    sys.stderr.write(printable(f"bollard: {sentence}\n{text('hint', hint=hint)}\n"))
    return code


def _usage_error(error: Any, text: Text) -> int:
    """The parser's errors by their class, because their sentences are English only."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stdout.write(error.ctx.get_help() + "\n")
        return 0
    path = error.ctx.command_path if error.ctx is not None else "bollard"
    param = getattr(error, "param", None)
    named = (param.metavar if param.param_type_name == "argument" else param.opts[0]) if param is not None else ""
    near = ", ".join(getattr(error, "possibilities", None) or ())
    match type(error).__name__:
        case "NoSuchOption":
            problem = UsageProblem(
                "error.option",
                "hint.option_near" if near else "hint.help",
                word=error.option_name,
                near=near,
                path=path,
            )
        case "MissingParameter":
            problem = UsageProblem("error.missing", "hint.help", word=named, path=path)
        case "BadOptionUsage":
            problem = UsageProblem("error.option_value", "hint.help", word=error.option_name, path=path)
        case "BadParameter":
            problem = UsageProblem("error.value", "hint.help", word=named, detail=error.message.rstrip("."), path=path)
        case _:
            detail = error.format_message().rstrip(".")
            problem = UsageProblem("error.usage", "hint.help", detail=detail, path=path)
    return _tell_problem(problem, text)
