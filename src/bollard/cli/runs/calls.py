"""The calls of a run for `bollard runs show`: tools from the list of calls, models, retrievals and approvals from the
records. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from bollard.cli.language import Text
from bollard.cli.terminal.columns import Column, styled
from bollard.cli.terminal.times import clock_of

if TYPE_CHECKING:
    from rich.text import Text as Styled

RECORD_PAGES: Final = 10
"""Pages of records that are read for the calls of one run."""
_STYLES: Final = {"completed": "green", "failed": "red", "rejected": "red", "refused": "red", "waiting": "yellow"}
_APPROVALS: Final = {f"approval.{status}": status for status in ("requested", "granted", "denied", "expired", "used")}
_RETRIEVE: Final = "knowledge.retrieve"


def calls_of(calls: Iterable[dict[str, Any]], records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The calls of a run by the time when they began: kind, name, status, start and duration, and the approval with its
    status if one was requested. A call that still waits for its approval is `waiting`."""
    found = {call["call_id"]: _tool_call(call) for call in calls}
    others: list[dict[str, Any]] = []
    for record in records:
        data, at = record["data"], record["created_at"]
        if not data:  # dropped by retention
            continue
        if record["type"] == "model.called":
            others.append(_call("model", data["model_id"], data["status"], at, data["latency_ms"], data.get("reason")))
        elif record["type"] in ("api.called", "api.denied") and data["action"] == _RETRIEVE:
            outcome = data["outcome"]
            status, code = ("completed", None) if outcome == "ok" else ("failed", outcome)
            others.append(_call("retrieval", data.get("resource") or "", status, at, data.get("ms") or 0.0, code))
        elif (status := _APPROVALS.get(record["type"])) is not None:
            call_id = data.get("call_id")
            if status == "requested" and call_id not in found:
                kind = data["capability"].partition(":")[0]
                found[call_id] = {"kind": kind, "name": data["name"], "status": "waiting", "started_at": at}
            if call_id in found:
                found[call_id] |= {"approval_id": data["approval_id"], "approval": status}
    for call in found.values():
        if call["status"] == "waiting" and call.get("approval") in ("denied", "expired"):
            call["status"] = "rejected"
    return sorted([*found.values(), *others], key=lambda call: call["started_at"])


def _tool_call(call: dict[str, Any]) -> dict[str, Any]:
    shown = {
        "kind": call["capability"].partition(":")[0],
        **{key: call[key] for key in ("name", "status", "started_at")},
    }
    return shown | {key: call[key] for key in ("duration_ms", "code", "approval_id") if key in call}


def _call(kind: str, name: str, status: str, ended_at: float, ms: float, code: str | None) -> dict[str, Any]:
    call = {"kind": kind, "name": name, "status": status, "started_at": ended_at - ms / 1000, "duration_ms": ms}
    return call if code is None else {**call, "code": code}


def _state(call: dict[str, Any], text: Text) -> Styled:
    state = text.known(f"call.status.{call['status']}", call["status"])
    shown = f"{state} ({call['code']})" if call.get("code") else state
    return styled(shown, _STYLES.get(call["status"], ""))


def _approval(call: dict[str, Any], text: Text) -> str:
    """The state of the approval, and its id until it is decided."""
    status = call.get("approval")
    if status is None:
        return str(call.get("approval_id") or "")
    state = text.known(f"approvals.state.{status}", status)
    return f"{state}: {call['approval_id']}" if status == "requested" else state


def _seconds(call: dict[str, Any], text: Text) -> str:
    del text
    return f"{call['duration_ms'] / 1000:.2f}" if "duration_ms" in call else ""


COLUMNS: Final = (
    Column("began", lambda call, _: clock_of(call["started_at"]), no_wrap=True),
    Column("kind", lambda call, text: text.known(f"call.kind.{call['kind']}", call["kind"])),
    Column("name", "name"),
    Column("state", _state),
    Column("seconds", _seconds, right=True),
    Column("approval", _approval),
)
