"""The severity of record types. Types that are not in the table are `info`. Pure."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

Severity = Literal["debug", "info", "warning", "error", "critical"]
SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
"""In ascending order."""

_BY_SEVERITY: Final[Mapping[Severity, frozenset[str]]] = MappingProxyType(
    {
        "debug": frozenset(
            {
                "api.called",
                "delivery.shown",
                "delivery.started",
                "message.completed",
                "model.called",
                "result.gap",
                "run.claimed",
                "state.deleted",
                "state.updated",
                "steering.acknowledged",
                "storage.deleted",
                "storage.updated",
            }
        ),
        "warning": frozenset(
            {
                "action.failed",
                "action.rejected",
                "api.denied",
                "approval.denied",
                "approval.expired",
                "delivery.failed",
                "event.dropped",
                "grant.revoked",
                "login.failed",
                "outpost.lost",
                "plugin.refused",
                "result.rejected",
                "run.cancelled",
                "runtime.lost",
                "runtime.refused",
                "runtime.revoked",
                "steering.dropped",
                "webhook.failed",
                "worker.violation",
            }
        ),
        "error": frozenset({"action.unknown", "delivery.unknown", "outpost.revoked", "plugin.quarantined"}),
        "critical": frozenset({"audit.gap", "store.restored"}),
    }
)
_OF: Final[Mapping[str, Severity]] = {kind: severity for severity, kinds in _BY_SEVERITY.items() for kind in kinds}

TypeChoice = tuple[frozenset[str] | None, frozenset[str]]
"""The included types (`None` for all), and the excluded types."""


def severity_of(kind: str) -> Severity:
    return _OF.get(kind, "info")


def types_of(least: Severity) -> TypeChoice:
    """The types with at least this severity."""
    below = frozenset[str]().union(
        *(_BY_SEVERITY.get(each, frozenset()) for each in SEVERITIES[: SEVERITIES.index(least)])
    )
    if SEVERITIES.index(least) <= SEVERITIES.index("info"):
        return None, below  # whatever has no row is info
    above = SEVERITIES[SEVERITIES.index(least) :]
    return frozenset[str]().union(*(_BY_SEVERITY.get(each, frozenset()) for each in above)), frozenset()
