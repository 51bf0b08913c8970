"""Everything the kit raises on purpose.

KitError
├── WorkerDidNotStart    the command gave no worker that could be tested; nothing was judged
├── NothingSelected      the selection fits no case
└── CaseFailed           the worker did something else than it must
    └── WorkerGone       it ended, or closed its channel, while something was expected of it
"""

__all__ = ["CaseFailed", "KitError", "NothingSelected", "WorkerDidNotStart", "WorkerGone"]


class KitError(Exception):
    """Root of the tree."""


class WorkerDidNotStart(KitError):
    """The command gave no worker that could be tested."""

    def __init__(self, command: str, problem: str, output: str) -> None:
        said = f"\nit wrote: {output}" if output else ""
        super().__init__(f"{command} did not start a worker: {problem}{said}")
        self.command = command
        self.problem = problem
        self.output = output


class NothingSelected(KitError):
    """The selection fits no case."""

    def __init__(self, select: str) -> None:
        super().__init__(f"no case has {select!r} in its name or requirements")
        self.select = select


class CaseFailed(KitError):
    """What was expected, and what came instead."""

    def __init__(self, expected: str, came: str) -> None:
        super().__init__(f"expected {expected}; {came}")
        self.expected = expected
        self.came = came


class WorkerGone(CaseFailed):
    """The worker ended, or closed its channel, while something was expected of it."""
