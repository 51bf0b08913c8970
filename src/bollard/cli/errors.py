"""Errors of the command line, as one tree. Each has a message and a hint, by their keys, and an exit code.

CliError
├── CheckFailed        1  a check failed
├── UsageProblem       2  the command line is invalid
├── PluginUnusable     3  the plugin cannot be loaded
├── WorkerProblem      4  the worker or its connection failed
└── HostProblem        4  the host cannot start, is unreachable, or refused
    └── HostRefusal    4  the host refused with a code
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Final, Self

if TYPE_CHECKING:
    from pathlib import Path

    from bollard.cli.language import Text
    from bollard.host.errors import HostError
    from bollard.protocol import JsonObject

EXIT_UNWITNESSED: Final = 5
"""The log was verified, but no witness covers its end."""
EXIT_INTERRUPTED: Final = 130
EXIT_TERMINATED: Final = 143


class CliError(Exception):
    """Root of the tree. `key` and `hint` are keys of the catalogue; `fields` fills both texts."""

    exit_code: ClassVar[int] = 1

    def __init__(self, key: str, hint: str, **fields: object) -> None:
        super().__init__(key)
        self.key = key
        self.hint = hint
        self.fields = fields
        self.code = ""
        """The code of the host's error. With the details it finds the texts of `detail` and `advice`."""
        self.details: JsonObject = {}

    @classmethod
    def of(cls, error: "HostError", key: str, hint: str = "hint.host", **fields: object) -> Self:
        """The problem that an error of the host's code causes in this process."""
        problem = cls(key, hint, detail=error.message, advice=error.hint, **fields)
        problem.code, problem.details = error.code, error.details
        return problem

    def sentences(self, text: "Text") -> tuple[str, str]:
        """The sentence and the hint in a language."""
        fields = dict(self.fields)
        if self.code:
            details = str(fields.get("detail", "")), str(fields.get("advice", ""))
            fields["detail"], fields["advice"] = text.host_error(self.code, self.details, *details)
        return text(self.key, **fields), text(self.hint, **fields)


class CheckFailed(CliError):
    """A check failed."""


class UsageProblem(CliError):
    """Wrong usage."""

    exit_code = 2


class PluginUnusable(CliError):
    """The plugin cannot be loaded."""

    exit_code = 3


class WorkerProblem(CliError):
    """The worker or its connection failed."""

    exit_code = 4


class HostProblem(CliError):
    """The host cannot start, is unreachable, or refused the request."""

    exit_code = 4


class HostRefusal(HostProblem):
    """The host refused; a command can react to `code` and `details`."""

    def __init__(self, key: str, hint: str, *, code: str, details: "JsonObject", **fields: object) -> None:
        super().__init__(key, hint, **fields)
        self.code = code
        self.details = details


@contextmanager
def writing(path: "Path") -> Generator[None]:
    """Turns an `OSError` of the block into a `UsageProblem`: the file or folder cannot be written."""
    try:
        yield
    except OSError as error:
        raise UsageProblem("error.write", "hint.write", path=path, detail=error) from error
