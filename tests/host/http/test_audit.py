"""The audit of a running host: pages, a recorded export, heads, a witness that disconnects and returns, and a proof
that a third party can check."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from bollard.host.audit.heads import read_heads_of
from bollard.host.audit.proof import check_proof, prove, read_proof, write_proof
from bollard.host.audit.witness_sinks import WitnessFile
from bollard.host.backup.archived_files import public_keys
from bollard.host.backup.log_check import check_log, read_witnesses
from bollard.host.backup.table_source import open_snapshot
from bollard.host.clock import SystemClock
from bollard.host.settings import Settings
from bollard.host.store.selection import choose_store
from bollard.trust.keys import VerifyKey


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, plugin: Path) -> Settings:
    """SQLite only: PostgreSQL is tested where records are read."""
    data = tmp_path_factory.mktemp("data")
    witness = data / "elsewhere"
    witness.mkdir()  # no file: a witness that cannot be written
    return Settings(data=data, plugins=(plugin,), builtin_plugins=False, port=0, grace_s=0.5, witness=str(witness))


def items(api: Any, query: str = "") -> list[dict[str, Any]]:
    answer = api.get(f"/api/v1/audit{query}")
    assert answer.status == 200, answer.body
    return answer.json["items"]


def test_a_host_without_its_witness_continues_warns_and_records_the_gap_later(api: Any, settings: Settings) -> None:
    api.ended(api.say("hello"))
    health = api.until_health(lambda health: "warnings" in health)
    assert health["ready"]
    assert [each["code"] for each in health["warnings"]] == ["witness_down"]
    assert b"\nbollard_witness_down 1" in api.get("/metrics").body
    Path(settings.witness).rmdir()
    page = api.until("/api/v1/audit?type=audit.gap", lambda page: page["items"])
    assert page["items"][0]["severity"] == "critical"
    api.until_health(lambda health: "warnings" not in health)
    with Path(settings.witness).open("rb") as file:
        assert next(iter(read_heads_of(file))).workspace == "default"


def test_audit_records_are_found_by_type_run_severity_actor_and_time(api: Any) -> None:
    run_id = api.say("hello", actor={"type": "user", "id": "u1"})
    api.ended(run_id)
    assert api.put("/api/v1/users/ann", {"role": "viewer"}).status == 201
    api.post("/api/v1/session", {"user": "ann", "password": "wrong password"}, token=None)
    of_run = items(api, f"?run_id={run_id}")
    assert [each["type"] for each in reversed(of_run)][:3] == ["run.created", "grant.issued", "run.started"]
    assert {each["runner"] for each in of_run} == {"plugin:local/parrot/default"}
    assert len({each["trace_id"] for each in of_run}) == 1
    page = api.until("/api/v1/audit?type=login.failed,token.issued", lambda page: page["items"])
    (failed,) = page["items"]
    assert (failed["severity"], failed["actor"], failed["observed"]) == ("warning", "ann", True)
    assert failed in items(api, "?severity=warning&actor=ann")
    assert items(api, "?actor=somebody-else") == []
    assert {each["severity"] for each in items(api, "?severity=warning")} <= {"warning", "error", "critical"}
    assert items(api, "?since=4000000000") == []
    assert items(api, "?until=1") == []
    first = api.get("/api/v1/audit?limit=3").json
    rest = api.get(f"/api/v1/audit?limit=3&cursor={first['next_cursor']}").json
    numbers = [each["id"] for each in (*first["items"], *rest["items"])]
    assert numbers == sorted(set(numbers), reverse=True)
    assert len(numbers) == 6
    assert api.get("/api/v1/audit?severity=loud").status == 400


def test_an_export_is_complete_and_recorded_before_its_first_line(api: Any) -> None:
    api.ended(api.say("hello"))
    answer = api.get("/api/v1/audit/export")
    assert answer.status == 200
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert [each["id"] for each in lines] == sorted(each["id"] for each in lines)
    assert {"event.received", "run.created", "run.ended"} <= {each["type"] for each in lines}
    exported = items(api, "?type=audit.exported")[0]
    assert exported["actor"] == "admin-token"
    assert exported["id"] > lines[-1]["id"]
    only = api.get("/api/v1/audit/export?type=run.ended").body.splitlines()
    assert {json.loads(line)["type"] for line in only} == {"run.ended"}


def test_the_log_of_a_running_host_verifies_and_one_changed_byte_is_found(
    api: Any, settings: Settings, tmp_path: Path
) -> None:
    run_id = api.say("hello")
    api.ended(run_id)
    told = api.get("/api/v1/audit/heads").json
    key = VerifyKey(bytes.fromhex(told["public_key"]))
    assert key.key_id == told["key_id"]
    assert told["items"][0]["position"] >= 1

    def check(data: Path) -> Any:
        snapshot = open_snapshot("", data)
        try:
            return check_log(snapshot, read_witnesses({key.key_id: key}, [WitnessFile(Path(settings.witness))])).report
        finally:
            snapshot.close()

    report = check(settings.data)
    assert report.problems == ()
    assert report.records > 5
    store = choose_store("", settings.data, SystemClock())
    store.open()
    try:
        proof = read_proof(write_proof(prove(store, run_id, public_keys(settings.data), 1)))
    finally:
        store.close()
    shown = check_proof(proof, {key.key_id: key})
    assert shown.problems == ()
    assert (shown.run_id, shown.ended) == (run_id, True)
    with sqlite3.connect(settings.data / "bollard.db") as source, sqlite3.connect(tmp_path / "bollard.db") as copy:
        source.backup(copy)
        copy.execute("UPDATE records SET data = replace(data, 'hello', 'hallo') WHERE type = 'event.received'")
        copy.execute("UPDATE records SET data = CAST(data AS BLOB)")
    source.close()
    copy.close()
    (problem,) = check(tmp_path).problems
    assert (problem.kind, problem.workspace) == ("data_edited", "default")


def test_an_unknown_user_name_is_in_the_log_as_a_fingerprint_only(api: Any) -> None:
    for name in ("my secret password", "my secret password", "another one"):
        wrong = api.post("/api/v1/session", {"user": name, "password": "wrong password"}, token=None)
        assert wrong.status == 401, wrong.body

    def strangers() -> list[Any]:
        return [each for each in items(api, "?type=login.failed") if "name_fingerprint" in each.get("digests", {})]

    api.until("/api/v1/audit?type=login.failed", lambda page: len(strangers()) >= 3)
    prints = sorted(each["digests"]["name_fingerprint"] for each in strangers())
    assert all(each.startswith("hmac-sha256:") for each in prints)
    assert len(set(prints)) == 2
    assert "secret" not in str(strangers())
