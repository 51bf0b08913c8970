"""Errors of the test itself, never of the runner: a recording or a script does not match."""

from bollard.sdk.errors import SdkError


class ReplayMismatch(SdkError):
    """The runner made another call than in the recording."""

    def __init__(self, expected: str | None, got: str | None, position: int) -> None:
        wanted = "nothing more" if expected is None else expected
        asked = "the run ended" if got is None else f"the runner asked {got}"
        super().__init__(f"call {position}: the recording has {wanted}, but {asked}. Record the run again")
        self.expected = expected
        self.got = got
        self.position = position


class RecordingError(SdkError):
    """A file is not a recording."""

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(f"{path}, line {line}: {problem}")
        self.path = path
        self.line = line
        self.problem = problem


class ResultNeverCame(SdkError):
    """A live run ended before the awaited result."""

    def __init__(self, kind: str, status: str) -> None:
        super().__init__(f"the run ended ({status}) before it sent another {kind}")
        self.kind = kind
        self.status = status
