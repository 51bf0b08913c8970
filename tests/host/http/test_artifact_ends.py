"""Artifacts of a real host: they end, they are deleted, their contents go, and some are not taken."""

import contextlib
import json
import os
import time
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from tests.replacement import replace

from bollard.host.clock import SystemClock
from bollard.host.store.rows import PutArtifact
from bollard.host.store.selection import choose_store

KIT = """
    from bollard.sdk import AgentAPIException, RunContext, runner

    @runner(
        name="default",
        label="Maker",
        permissions={"artifacts": ["write", "read", "metadata"], "tools": ["detail", "call"]},
    )
    async def maker(ctx: RunContext):
        what, _, said = (ctx.input.text or "").partition(" ")
        if what == "inline":
            kind, _, name = said.partition(" ")
            name = "n" * 300_000 if name == "long" else name
            yield ctx.artifact("file", content=said.encode(), mime_type=kind.replace("_", " "), name=name)
        elif what == "upload":
            kind, _, name = said.partition(" ")
            try:
                made = await ctx.api.artifacts.write(name, kind, said.encode())
                yield made.artifact_id
            except AgentAPIException as error:
                yield str(error)
        elif what == "tool":
            try:
                made = await ctx.api.tools.call("artifact_write", {"name": "a", "mime_type": said, "content": "a"})
                yield str(made.content[0].text)
            except AgentAPIException as error:
                yield str(error)
        else:
            try:
                yield (await ctx.api.artifacts.read(said)).content_base64
            except AgentAPIException as error:
                yield error.code
        yield "done"
"""
DAY_S = 24 * 3600
PATIENCE_S = 60.0


class MovedClock(SystemClock):
    """The machine's clock, with an offset of the test."""

    moved_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.moved_ms

    def advance(self, seconds: float) -> None:
        self.moved_ms += round(seconds * 1000)


@pytest.fixture(scope="module")
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("plugins") / "maker.py"
    path.write_text("\n".join(line[4:] for line in KIT.splitlines()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def host(settings: Any, maker: Any, clock: MovedClock, start_module_host: Any, client_of: Any) -> Any:
    """Over each kind of store, with artifacts that last for thirty days; it keeps house without a pause."""
    own = replace(settings, plugins=(maker,), artifact_days=30, journal="thread")
    return ready(start_module_host(own, clock=clock, housekeeping_s=0.05), client_of)


@pytest.fixture(scope="module")
def choosy(kit_settings: Any, start_module_host: Any, client_of: Any) -> Any:
    """A host that takes text and nothing else."""
    return ready(start_module_host(replace(kit_settings, artifact_mime_types=("text/*",))), client_of)


def ready(started: Any, client_of: Any) -> Any:
    client = client_of(started.port, started.token)
    client.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    client.settings = started.settings
    return client


def records(host: Any, agent: str, text: str) -> list[Any]:
    asked = {"agent": agent, "input": {"text": text}, "conversation": "room"}
    run_id = host.post("/api/v1/runs", asked).json["run_id"]
    assert host.ended(run_id)["status"] == "completed"
    return host.get(f"/api/v1/runs/{run_id}/records").json["items"]


def made(host: Any, text: str, agent: str = "maker") -> dict[str, Any]:
    """The metadata of the one artifact of a run."""
    (said,) = [each["data"] for each in records(host, agent, text) if each["type"] == "artifact.created"]
    return host.get(f"/api/v1/artifacts/{said['artifact_id']}").json


def answered(host: Any, text: str, agent: str = "maker") -> str:
    (said,) = [each["data"] for each in records(host, agent, text) if each["type"] == "message.completed"]
    return str(said["message"]["content"])


def path_of(artifact: dict[str, Any]) -> str:
    return f"/api/v1/artifacts/{artifact['artifact_id']}"


def content_file(host: Any, artifact: dict[str, Any]) -> Any:
    return host.settings.data / "blobs" / "sha256" / artifact["sha256"][:2] / artifact["sha256"]


def until_swept(host: Any, artifact: dict[str, Any]) -> None:
    """Content younger than an hour, by the clock of its files, may belong to a new artifact."""
    with contextlib.suppress(FileNotFoundError):
        os.utime(content_file(host, artifact), (0, 0))
    give_up_at = time.monotonic() + PATIENCE_S
    while content_file(host, artifact).exists():
        assert time.monotonic() < give_up_at, "the content is still there"
        host.get("/readyz")


def test_an_expired_artifact_is_deleted_with_its_unshared_content(host: Any, clock: Any) -> None:
    first = made(host, "inline text/plain twice.txt")
    alone = made(host, "upload text/plain once.txt")
    assert first["expires_at"] - first["created_at"] == alone["expires_at"] - alone["created_at"] == 30 * DAY_S
    clock.advance(20 * DAY_S)
    twin = made(host, "inline text/plain twice.txt")
    assert twin["sha256"] == first["sha256"]
    assert host.get(path_of(first)).status == 200

    clock.advance(11 * DAY_S)
    never = host.get("/api/v1/artifacts/never")
    for gone in (first, alone):
        assert host.get(path_of(gone)).body == host.get(f"{path_of(gone)}/content").body == never.body
        assert answered(host, f"read {gone['artifact_id']}").startswith("not_found")
    os.utime(content_file(host, twin), (0, 0))
    until_swept(host, alone)
    assert host.get(f"{path_of(twin)}/content").body == b"text/plain twice.txt"

    clock.advance(20 * DAY_S)
    until_swept(host, twin)
    assert host.get(path_of(twin)).status == 404


def test_the_raw_payload_of_an_event_expires_too(host: Any, clock: Any) -> None:
    host.put("/api/v1/bindings/all", {"agent_id": "maker", "filters": [{"field": "source", "values": ["ci"]}]})
    event = {"source": "ci", "id": "big", "type": "build.done", "data": {"log": "x" * 400_000}}
    taken = host.post("/api/v1/events", event)
    assert taken.status == 202, taken.body
    event_id = taken.json["event_id"]
    raw = host.get(f"/api/v1/events/{event_id}").json["content"]["raw"]
    known = host.get(path_of(raw)).json
    assert known["expires_at"] - known["created_at"] == pytest.approx(30 * DAY_S, abs=60)

    clock.advance(31 * DAY_S)
    assert host.get(path_of(raw)).status == 404
    until_swept(host, known)
    assert host.get(f"/api/v1/events/{event_id}").status == 200


def test_an_artifact_is_deleted_on_the_record_and_its_content_follows(host: Any) -> None:
    artifact, other = made(host, "inline text/plain a"), made(host, "inline text/plain b")
    answer = host.send("DELETE", path_of(artifact))
    assert (answer.status, answer.json) == (200, {"artifact_id": artifact["artifact_id"], "deleted": True})
    assert host.get(path_of(artifact)).status == 404
    assert host.send("DELETE", path_of(artifact)).body == host.send("DELETE", "/api/v1/artifacts/never").body
    (said,) = host.get("/api/v1/audit?type=artifact.deleted").json["items"]
    assert (said["subject"], said["actor"]) == (artifact["artifact_id"], "admin-token")

    until_swept(host, artifact)
    assert host.get(f"{path_of(other)}/content").status == 200


def test_a_name_in_any_language_is_returned_in_an_ascii_header(host: Any) -> None:
    name = '报告 «Grüße»; "q".txt' + "世" * 230
    answer = host.get(f"{path_of(made(host, f'inline text/plain {name}'))}/content")
    assert answer.headers["content-disposition"] == f"attachment; filename*=UTF-8''{quote(name, safe='')}"


def test_a_file_of_the_workspace_does_not_expire_and_is_deleted_as_a_file(host: Any, clock: Any) -> None:
    file_id = host.send("POST", "/api/v1/files?name=a.txt", b"kept", content_type="text/plain").json["file_id"]
    clock.advance(1000 * DAY_S)
    assert host.send("DELETE", f"/api/v1/artifacts/{file_id}").status == 404
    assert host.get(f"/api/v1/files/{file_id}/content").body == b"kept"


def test_an_old_overlong_name_is_truncated_in_the_header(host: Any) -> None:
    artifact = made(host, "inline text/plain short")
    store = choose_store(host.settings.database, host.settings.data, SystemClock())
    store.open()
    row = store.artifact("default", artifact["artifact_id"])
    assert row is not None
    with store.write() as transaction:
        transaction.apply([PutArtifact(msgspec.structs.replace(row, name="n" * 300_000))])
    store.close()
    answer = host.get(f"{path_of(artifact)}/content")
    assert answer.headers["content-disposition"] == f"attachment; filename*=UTF-8''{'n' * 255}"


@pytest.mark.parametrize(("kind", "name"), [("text/plain", "long"), ("text/plain", "a\nb"), ("no_mime", "a")])
def test_an_inline_artifact_with_an_invalid_name_is_refused(host: Any, kind: str, name: str) -> None:
    kinds = [each["type"] for each in records(host, "maker", f"inline {kind} {name}")]
    assert "result.rejected" in kinds
    assert "artifact.created" not in kinds


def test_only_artifact_types_of_the_settings_are_accepted(choosy: Any) -> None:
    assert made(choosy, "inline text/csv a", "kit")["mime_type"] == "text/csv"
    assert made(choosy, "upload text/csv a", "kit")["mime_type"] == "text/csv"
    (refused,) = [each["data"] for each in records(choosy, "kit", "inline image/png a") if "rejected" in each["type"]]
    assert (refused["field"], refused["reason"]) == ("mime_type", "invalid")
    assert "allowed are text/*" in refused["problem"]
    assert answered(choosy, "upload image/png a", "kit").startswith("invalid_argument: mime_type: ")


def test_a_tool_makes_artifacts_of_the_allowed_types_only(choosy: Any) -> None:
    access = {"permissions": {"tools": ["call"]}, "resources": {"tools": {"add": ["tool:builtin/artifact_write"]}}}
    choosy.save_agent("tooled", "kit/default", access=access)
    assert "artifact" in answered(choosy, "tool text/plain", "tooled")
    assert "allowed are text/*" in answered(choosy, "tool image/png", "tooled")


def test_an_event_with_an_artifact_of_another_type_is_refused_as_a_whole(choosy: Any) -> None:
    large = {"source": "ci", "id": "big", "type": "build.done", "data": {"log": "x" * 400_000}}
    refused = choosy.post("/api/v1/events", large)
    assert (refused.status, refused.error["code"]) == (415, "unsupported_media_type")
    assert "artifact_mime_types" in refused.error["hint"]
    assert "build.done" not in json.dumps(choosy.get("/api/v1/events").json)
    headers = {"ce_specversion": "1.0", "ce_source": "ci", "ce_type": "x", "ce_id": "t1"}
    sent = choosy.send("POST", "/api/v1/events", b"y" * 400_000, content_type="text/plain", **headers)
    assert sent.status == 202, sent.body
