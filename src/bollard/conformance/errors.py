"""The errors of the kit, as one tree.

KitError
├── WorkerDidNotStart    the command did not start a testable worker; no case ran
├── NothingSelected      the selection matches no case
└── CaseFailed           the worker violated a requirement
    └── WorkerGone       the worker exited or closed its connection during a case
"""


class KitError(Exception):
    """Root of the tree."""


class WorkerDidNotStart(KitError):
    """The command did not start a testable worker."""

    def __init__(self, command: str, problem: str, output: str) -> None:
        written = f"\nit wrote: {output}" if output else ""
        super().__init__(f"{command} did not start a worker: {problem}{written}")
        self.command = command
        self.problem = problem
        self.output = output


class NothingSelected(KitError):
    """The selection matches no case."""

    def __init__(self, select: str) -> None:
        super().__init__(f"no case has {select!r} in its name or requirements")
        self.select = select


class CaseFailed(KitError):
    """A case failed. Carries the expectation and the actual behaviour."""

    def __init__(self, expected: str, came: str) -> None:
        super().__init__(f"expected {expected}; {came}")
        self.expected = expected
        self.came = came


class WorkerGone(CaseFailed):
    """The worker exited or closed its connection during a case."""
