"""What the kit hands back: one value for each case, one for the whole."""

from dataclasses import dataclass

__all__ = ["CaseResult", "KitReport"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult:
    """One case and how it went."""

    name: str
    sentence: str
    """What the worker must do."""
    requirements: tuple[str, ...]
    passed: bool
    detail: str
    """Empty when it passed; else what was expected and what came."""
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class KitReport:
    """All cases, in the kit's order."""

    worker: str
    """Who was tested, as it introduced itself."""
    cases: tuple[CaseResult, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        return all(case.passed for case in self.cases)

    @property
    def failures(self) -> tuple[CaseResult, ...]:
        return tuple(case for case in self.cases if not case.passed)
