"""The worker kit: judges any executable that serves the scripted plugin, in any language.

docs/reference/conformance.md says what that plugin does.
Stands on `bollard.protocol` and `bollard.wire` alone, so that it shares no code with the workers it judges.
"""

from bollard.conformance.errors import CaseFailed, KitError, NothingSelected, WorkerDidNotStart, WorkerGone
from bollard.conformance.kit import CASES, run_kit
from bollard.conformance.registry import Case
from bollard.conformance.report import CaseResult, KitReport

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
