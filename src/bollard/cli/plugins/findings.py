"""The report of `bollard plugin check`, with one finding for each broken rule."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Final, Literal

from bollard.protocol import JsonObject, JsonValue

Severity = Literal["error", "warning"]

FOLDER_RULES: Final[Mapping[str, Severity]] = MappingProxyType(
    {
        "PC01": "error",
        "PC02": "error",
        "PC03": "warning",
        "PC04": "warning",
        "PC05": "error",
        "PC06": "warning",
        "PC07": "warning",
        "PC08": "error",
        "PC09": "error",
        "PC10": "error",
        "PC11": "error",
        "PC12": "error",
    }
)
"""The rules that the command checks, not the loader. Their texts have the keys `rule.…`."""

_MILD: Final = frozenset({"PL15"})
"""Rules of the loader whose violation leaves the entry usable as the manifest describes it."""


def severity_of(rule: str) -> Severity:
    """Whether breaking a rule fails the check, or only with `--strict`."""
    return "warning" if rule in _MILD else FOLDER_RULES.get(rule, "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One broken rule."""

    rule: str
    where: str
    field: str
    problem: str
    hint: str

    @property
    def severity(self) -> Severity:
        return severity_of(self.rule)

    def to_json(self) -> JsonObject:
        return {**asdict(self), "severity": self.severity}


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A usable runner or tool."""

    kind: Literal["runner", "tool"]
    name: str
    label: str

    def to_json(self) -> JsonObject:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The usable entries and the findings of one plugin."""

    path: str
    plugin: str | None
    """`author/name version`; `None` if the plugin cannot be loaded."""
    usable: tuple[Offer, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        return len(self.findings) - self.errors

    def passed(self, *, strict: bool) -> bool:
        return not self.errors and not (strict and self.warnings)

    def to_json(self, *, strict: bool) -> JsonObject:
        usable: list[JsonValue] = [offer.to_json() for offer in self.usable]
        findings: list[JsonValue] = [finding.to_json() for finding in self.findings]
        return {
            "path": self.path,
            "plugin": self.plugin,
            "passed": self.passed(strict=strict),
            "errors": self.errors,
            "warnings": self.warnings,
            "usable": usable,
            "findings": findings,
        }
