"""The worker kit: tests any executable that serves the scripted plugin, in any language.

docs/reference/conformance.md describes that plugin. The kit depends on `bollard.protocol` and `bollard.wire` only, so
that it shares no code with the workers it tests.
"""

from bollard.conformance.errors import CaseFailed, KitError, NothingSelected, WorkerDidNotStart, WorkerGone
from bollard.conformance.kit import CASES, CaseResult, KitReport, run_kit
from bollard.conformance.registry import Case

__all__ = [
    "CASES",
    "Case",
    "CaseFailed",
    "CaseResult",
    "KitError",
    "KitReport",
    "NothingSelected",
    "WorkerDidNotStart",
    "WorkerGone",
    "run_kit",
]
