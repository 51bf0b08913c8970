"""Every type of record that the audit promises is really written somewhere: here is where."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.tables import for_each

from bollard.host.audit.severity import SEVERITIES, severity_of, types_of
from bollard.host.log.retention import ERASURES, KINDS
from bollard.protocol import HOST_RECORD_TYPES, RESULT_TYPES

HOST = Path(__file__).parents[3] / "src" / "bollard" / "host"
OUTPOSTS = {"outpost.enrolled", "outpost.connected", "outpost.lost", "outpost.revoked"}
"""Nothing writes them yet: there are no outposts."""
WRITTEN_IN = {
    "action.started": "actions/call_records.py",
    "action.completed": "actions/call_records.py",
    "action.failed": "actions/call_records.py",
    "action.rejected": "actions/call_records.py",
    "action.unknown": "actions/call_records.py",
    "approval.requested": "approvals/approvals.py",
    "approval.granted": "approvals/decisions.py",
    "approval.denied": "approvals/decisions.py",
    "approval.expired": "approvals/decisions.py",
    "approval.used": "approvals/approvals.py",
    "grant.issued": "runs/creation.py",
    "grant.revoked": "runs/live_run.py",
    "run.created": "runs/creation.py",
    "run.started": "runs/live_run.py",
    "run.waiting": "runs/control.py",
    "run.ended": "runs/machine.py",
    "run.cancelled": "runs/live_run.py",
    "steering.queued": "events/steering.py",
    "steering.injected": "events/steering.py",
    "steering.dropped": "runs/machine.py",
    "api.called": "run_api/gate.py",
    "api.denied": "run_api/gate.py",
    "model.called": "run_api/model_billing.py",
    "secret.used": "secrets/vault.py",
    "plugin.installed": "plugins/repository.py",
    "plugin.updated": "plugins/repository.py",
    "plugin.quarantined": "plugins/placement.py",
    "plugin.refused": "plugins/repository.py",
    "worker.connection": "egress/connection_records.py",
    "worker.violation": "plugins/violations.py",
    "token.issued": "identity/keys.py",
    "policy.changed": "log/saved_resources.py",
    "knowledge.changed": "knowledge/library.py",
    "artifact.created": "files/file_repository.py",
    "artifact.deleted": "log/removal.py",
    "login.succeeded": "identity/sessions.py",
    "login.failed": "identity/login_attempts.py",
    "login.ended": "identity/sessions.py",
    "audit.exported": "http/resources/audit.py",
    "audit.gap": "audit/witness.py",
    "retention.purged": "log/retention.py",
    "log.archived": "audit/segments.py",
}


def texts_passed(tree: ast.AST) -> Iterator[str]:
    """Every text in a place where a call, or a pair given to one, can take it; `*` for inserted values."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call):
            parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.Tuple | ast.IfExp):
            parts = list(ast.iter_child_nodes(node))  # type: ignore[arg-type]
        for part in parts:
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value
            elif isinstance(part, ast.JoinedStr):
                yield "".join(str(each.value) if isinstance(each, ast.Constant) else "*" for each in part.values)


@for_each("kind", WRITTEN_IN)
def test_each_record_type_is_written_in_the_module_of_the_table(kind: str) -> None:
    path = HOST / WRITTEN_IN[kind]
    found = set(texts_passed(ast.parse(path.read_text(encoding="utf-8"))))
    family = f"{kind.partition('.')[0]}.*"
    assert kind in found or family in found, f"{path.name} does not write {kind}"


RECORDING = {"NewRecord", "Judged", "_insist", "_kept", "_note", "_record", "_write", "_written", "beside", "into_run"}
RECORDING |= {"note", "observe", "record", "settle", "write", "write_down", "write_first"}
"""Functions that write a record."""
CHOSEN_BEFORE = {"action.completed", "action.failed", "approval.denied", "approval.granted"} | ERASURES
"""Kinds that are put together, or chosen, before the call."""
CALLS = {"agents.call", "platform.request", "tools.detail"}
"""Names of the run API, which stand in pairs too."""


def kinds_recorded(tree: ast.AST) -> Iterator[str]:
    """Every record type in a call that writes one, or in a pair that is written beside a change."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in RECORDING:
                parts = [*node.args, *(keyword.value for keyword in node.keywords)]
        elif isinstance(node, ast.Tuple) and len(node.elts) == 2:
            parts = [node.elts[0]] if not isinstance(node.elts[1], ast.Constant) else []
        for part in parts:
            for each in ast.walk(part) if isinstance(part, ast.IfExp) else [part]:
                text = each.value if isinstance(each, ast.Constant) else None
                if isinstance(text, str) and re.fullmatch(r"[a-z]+\.[a-z_]+", text):
                    yield text


def test_every_record_type_in_the_code_is_in_the_list_of_types() -> None:
    found: set[str] = set()
    for path in HOST.rglob("*.py"):
        found |= set(kinds_recorded(ast.parse(path.read_text(encoding="utf-8"))))
    assert found - CALLS <= KINDS
    assert KINDS - found == {*RESULT_TYPES, *HOST_RECORD_TYPES, *CHOSEN_BEFORE} - found
    assert WRITTEN_IN.keys() <= KINDS


def test_no_future_record_type_of_the_table_is_written_yet() -> None:
    sources = [path.read_text(encoding="utf-8") for path in HOST.rglob("*.py") if path.name != "severity.py"]
    there = {kind for kind in OUTPOSTS for text in sources if f'"{kind}"' in text}
    assert not there, f"{there} are written now: give them a line in WRITTEN_IN"


def test_a_severity_includes_higher_ones() -> None:
    kinds = [*WRITTEN_IN, *OUTPOSTS, "note"]
    for least in SEVERITIES:
        wanted, unwanted = types_of(least)
        for kind in kinds:
            chosen = (wanted is None or kind in wanted) and kind not in unwanted
            assert chosen == (SEVERITIES.index(severity_of(kind)) >= SEVERITIES.index(least)), (kind, least)
    assert severity_of("login.failed") == "warning"
    assert severity_of("audit.gap") == "critical"
    assert severity_of("something.new") == "info"
