"""Export and erasure of a person, and the deletion of a conversation, on a real host."""

import json
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.host.backup.conftest import believing
from tests.host.http.chat_program import Program, post, save
from tests.host.http.test_channel_uploads import Channel
from tests.replacement import replace

from bollard.host.audit.erasure_list import ERASURES_FILE, read_erasures
from bollard.host.backup.backup import BackupSource, back_up
from bollard.host.backup.log_check import check_log, read_witnesses
from bollard.host.backup.projection_check import check_projections
from bollard.host.backup.restore import restore
from bollard.host.backup.table_source import open_snapshot
from bollard.host.backup.workspace_export import export_workspace
from bollard.host.backup.workspace_import import import_workspace
from bollard.host.clock import SystemClock
from bollard.host.settings import Settings
from bollard.host.store.selection import choose_store
from bollard.trust.keys import load_or_make_signing_key

SECRET = "blue-parakeet-7781"
MACAW = "red-macaw-4412"
KIT = """
    import json

    from bollard.sdk import RunContext, runner

    @runner(
        name="default",
        label="Diary",
        permissions={"artifacts": ["write"], "storage": ["workspace"], "agents": ["call"], "tools": ["call"]},
    )
    async def diary(ctx: RunContext):
        text = ctx.input.text or ""
        if text.startswith("{"):
            result = await ctx.api.tools.call("schedule_create", json.loads(text))
            yield ctx.completed(result.content[0].text)
            return
        yield ctx.delta(f"noted {text} ")
        yield ctx.state("actor", "last", text)
        yield ctx.state("conversation", "topic", text)
        yield ctx.artifact("note", content=f"of {text}".encode(), name=f"{text}.txt", mime_type="text/plain")
        await ctx.api.storage.workspace.set("diary", text.encode())
        child = await ctx.api.agents.call("parrot", text)
        yield ctx.completed(f"done: {child.messages[-1].content}")
"""


@pytest.fixture(scope="module")
def diary_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugins") / "diary.py"
    path.write_text(textwrap.dedent(KIT), encoding="utf-8")
    return path


@pytest.fixture
def settings_here(settings: Settings, diary_plugin: Path) -> Settings:
    return replace(settings, plugins=(*settings.plugins, diary_plugin))


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    yield program
    program.stop()


TOKENS: dict[Path, str] = {}
"""The admin tokens, by data directory."""


class House:
    """A host that can be stopped, looked into, and started again."""

    def __init__(self, settings: Settings, start: Callable[..., Any], client: Callable[..., Any]) -> None:
        self.settings = settings
        self._start = start
        self._client = client

    def start(self) -> Any:
        self._host = self._start(self.settings)
        if self._host.token is not None:  # only the first start of a data directory has it
            TOKENS[self.settings.data] = self._host.token
        api = self._client(self._host.port, TOKENS[self.settings.data])
        api.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
        return api

    def stop(self) -> None:
        self._host.stop()

    @property
    def source(self) -> BackupSource:
        return BackupSource(database=self.settings.database, data=self.settings.data)


def assert_sound(source: BackupSource) -> None:
    """The log balances, and a rebuild would give the projections that are there."""
    key = load_or_make_signing_key(source.data / "keys" / "heads.ed25519").verify_key
    with closing(open_snapshot(source.database, source.data)) as snapshot:
        report = check_log(snapshot, read_witnesses({key.key_id: key}), archive=source.data / "archive").report
        assert report.problems == ()
    with closing(open_snapshot(source.database, source.data)) as snapshot:
        assert check_projections(snapshot, source, now_ms=SystemClock().now_ms()).mismatches == ()


def assert_gone(source: BackupSource, *words: str) -> None:
    """No record, projection or artifact has the words. Freed pages of a database are its own business."""
    store = choose_store(source.database, source.data, SystemClock())
    store.open()
    with closing(store):
        rows = [str(row.data) for row in store.records(0, 100_000)]
        rows.append(str(store.dump_projections()))
    for word in words:
        assert not [row for row in rows if word in row], word


@pytest.fixture
def house(settings_here: Settings, start_host: Any, tmp_path: Path) -> House:
    from tests.host.http.conftest import Client

    data = settings_here.data if settings_here.database else tmp_path / "data"
    return House(replace(settings_here, data=data), start_host, Client)


def live(api: Any, program: Program) -> dict[str, str]:
    """Ann speaks through a channel and as a user, and uploads a file; Bob speaks in the same conversation."""
    secret = save(api, "room", url=program.url)["secret"]
    api.save_agent(
        "diary",
        "diary/default",
        access={
            "permissions": {"artifacts": ["write"], "storage": ["workspace"], "agents": ["call"]},
            "resources": {"agents": {"add": ["parrot"]}},
        },
        state={"enabled": True},
    )
    api.put("/api/v1/bindings/room", {"agent_id": "diary", "scope": {"channel": "room"}})
    api.put("/api/v1/users/ann", {"role": "operator", "name": f"Ann {SECRET}", "password": "correct horse battery"})
    api.post("/api/v1/actors", {"actor": "room:a", "user_id": "ann"})
    runs: dict[str, str] = {}
    for name, actor in (("ann", "a"), ("bob", "b")):
        body = {"text": f"{name} {SECRET if name == 'ann' else 'sings'}", "conversation": "c", "actor": {"id": actor}}
        runs[name] = post(api, "room", secret, body, number=f"m-{name}").json["run_id"]
        assert api.ended(runs[name])["status"] == "completed", [each.data for each in api.read(runs[name])][-1]
    program.until(2)
    api.until("/api/v1/deliveries", lambda found: {item["status"] for item in found["items"]} == {"sent"})
    session = api.post("/api/v1/session", {"user": "ann", "password": "correct horse battery"}, token=None)
    assert session.status == 201, session.body
    uploaded = api.post(f"/api/v1/files?name={SECRET}.txt", SECRET.encode(), token=session.json["token"])
    assert uploaded.status == 201, uploaded.body
    return runs


def test_a_person_is_exported_and_erased_and_others_stay(house: House, program: Program, tmp_path: Path) -> None:
    api = house.start()
    runs = live(api, program)
    exported = api.get("/api/v1/people/export?person=ann")
    lines = [json.loads(line) for line in exported.body.splitlines()]
    assert {"event.received", "message.completed", "state.updated", "login.succeeded"} <= {
        each["type"] for each in lines
    }
    assert SECRET in exported.body.decode()
    assert "bob sings" not in exported.body.decode()
    backup = tmp_path / "before.zip"
    back_up(house.source, backup, with_keys=True, version="0.1.0", clock=SystemClock())
    erased = api.post("/api/v1/people/erase", {"person": "ann"})
    assert erased.status == 200, erased.body
    assert erased.json["runs"] == 2  # the one of the message, and the one that it called
    assert (erased.json["artifacts"], erased.json["files"]) == (1, 1)
    assert api.get(f"/api/v1/runs/{runs['ann']}").status == 404
    assert api.get("/api/v1/users/ann").status == 404
    assert api.get(f"/api/v1/runs/{runs['bob']}").json["status"] == "completed"
    said = [item["content"] for item in api.get("/api/v1/conversations/c/messages").json["items"]]
    assert any("bob sings" in (each or "") for each in said)
    assert not any(SECRET in (each or "") for each in said)
    assert api.get("/api/v1/conversations/search?q=parakeet").json["items"] == []
    again = api.post("/api/v1/people/erase", {"person": "room:a"})
    assert (again.status, again.json["records"]) == (200, {})
    house.stop()
    assert_sound(house.source)
    assert_gone(house.source, SECRET, '"room","actor_id":"a"')
    api = house.start()
    assert api.get(f"/api/v1/runs/{runs['bob']}").status == 200
    house.stop()
    if not house.settings.database:
        _assert_restored_without(house, backup, tmp_path / "restored")


def _assert_restored_without(house: House, backup: Path, data: Path) -> None:
    """The backup still has the data, and its restore erases the person again."""
    erasures = read_erasures([house.settings.data / ERASURES_FILE])
    report = restore(backup, data=data, database="", trust=believing(backup), clock=SystemClock(), erasures=erasures)
    assert report.settled.erased > 5
    copy = BackupSource(database="", data=data)
    assert_sound(copy)
    assert_gone(copy, SECRET)
    assert read_erasures([data / ERASURES_FILE]) == erasures


def test_a_person_with_an_active_run_is_not_erased(house: House) -> None:
    api = house.start()
    run = api.tell("parrot", "wait", conversation="w", actor={"type": "user", "id": "eve"}).json["run_id"]
    refused = api.post("/api/v1/people/erase", {"person": "user:eve"})
    assert (refused.status, refused.error["details"]["reason"]) == (409, "erasure_unfinished")
    assert api.get(f"/api/v1/runs/{run}").status == 200
    assert api.post("/api/v1/people/erase", {"person": "nobody"}).error["details"]["reason"] == "no_person"
    house.stop()


def _propose(api: Any, name: str, actor: str, conversation: str) -> None:
    """A schedule with a reminder in it, which a person approves, and one fire."""
    start = (datetime.now(UTC) + timedelta(days=1)).replace(microsecond=0)
    timing = {"every_s": 3600, "start": start.isoformat()}
    instants = api.post("/api/v1/schedules/preview", timing).json["next"]
    text = json.dumps({"schedule_id": name, "text": f"remind {name} {SECRET}", "next": instants, **timing})
    run = api.tell("diary", text, conversation=conversation, actor={"type": "user", "id": actor}).json["run_id"]
    page = api.until("/api/v1/approvals", lambda found: any(each["run_id"] == run for each in found["items"]))
    approval_id = next(each["approval_id"] for each in page["items"] if each["run_id"] == run)
    approval = api.get(f"/api/v1/approvals/{approval_id}").json
    decision = {"decision": "allow_once", "digest": approval["digest"]}
    assert api.post(f"/api/v1/approvals/{approval_id}/decide", decision).status == 200
    assert api.ended(run)["status"] == "completed"
    api.ended(api.post(f"/api/v1/schedules/{name}/fire").json["run_id"])


def test_the_schedules_that_agents_created_go_with_their_person_or_their_conversation(
    house: House, tmp_path: Path
) -> None:
    api = house.start()
    tools = {"tools": {"add": ["tool:builtin/schedule_create"]}}
    api.save_agent("diary", "diary/default", access={"permissions": {"tools": ["call"]}, "resources": tools})
    for name, actor in (("pills", "ida"), ("party", "dan"), ("flight", "fay")):
        _propose(api, name, actor, f"of-{actor}")
    backup = tmp_path / "before.zip"
    back_up(house.source, backup, with_keys=True, version="0.1.0", clock=SystemClock())
    erased = api.post("/api/v1/people/erase", {"person": "user:ida"})
    assert (erased.status, erased.json["schedules"], erased.json["runs"]) == (200, 1, 2), erased.body
    assert api.delete("/api/v1/conversations/of-dan").status == 200
    assert [each["schedule_id"] for each in api.get("/api/v1/schedules").json["items"]] == ["flight"]
    house.stop()
    assert_sound(house.source)
    assert_gone(house.source, f"pills {SECRET}", f"party {SECRET}")
    if not house.settings.database:
        erasures = read_erasures([house.settings.data / ERASURES_FILE])
        copy = tmp_path / "restored"
        restore(backup, data=copy, database="", trust=believing(backup), clock=SystemClock(), erasures=erasures)
        assert_sound(BackupSource(database="", data=copy))
        assert_gone(BackupSource(database="", data=copy), f"pills {SECRET}")
    api = house.start()
    assert api.get("/api/v1/schedules/flight").json["text"] == f"remind flight {SECRET}"
    house.stop()


def test_a_conversation_is_deleted_with_its_runs(house: House) -> None:
    api = house.start()
    for name in ("gone", "kept"):
        api.ended(api.tell("parrot", f"{name} {SECRET}", conversation=name).json["run_id"])
    deleted = api.delete("/api/v1/conversations/gone")
    assert (deleted.status, deleted.json["deleted"]) == (200, True)
    assert deleted.json["records"] > 3
    assert api.get("/api/v1/conversations/gone/messages").status == 404
    assert api.delete("/api/v1/conversations/gone").error["details"]["reason"] == "no_conversation"
    assert api.get("/api/v1/conversations/kept/messages").json["items"]
    house.stop()
    assert_sound(house.source)
    assert_gone(house.source, f"gone {SECRET}")


def _documents(api: Any) -> list[str]:
    return [item["document_id"] for item in api.get("/api/v1/knowledge/notes/documents").json["items"]]


def _write_documents(api: Any) -> None:
    """Ann and Bob save a document each. Ann's last change of Bob's document is overwritten by Bob."""
    tokens: dict[str, str] = {}
    for name in ("ann", "bob"):
        password = "correct horse battery"
        api.put(f"/api/v1/users/{name}", {"role": "admin", "name": name, "password": password})
        tokens[name] = api.post("/api/v1/session", {"user": name, "password": password}, token=None).json["token"]
    for base in ("notes", "gone"):
        assert api.put(f"/api/v1/knowledge/{base}", {}).status == 201
    for name, base, document in (
        ("ann", "notes", "of-ann"),
        ("ann", "notes", "of-bob"),
        ("bob", "notes", "of-bob"),
        ("ann", "gone", "of-ann"),
    ):
        body = {"name": document, "text": f"{name} {SECRET if name == 'ann' else 'sings'}", "mime_type": "text/plain"}
        path = f"/api/v1/knowledge/{base}/documents/{document}"
        assert api.send("PUT", path, body, token=tokens[name]).status == 202
        api.until(path, lambda found: found["status"] == "ready")
    assert api.delete("/api/v1/knowledge/gone").status == 200


@pytest.mark.full
def test_the_documents_of_a_person_are_erased_and_stay_erased_in_copies(house: House, tmp_path: Path) -> None:
    if house.settings.database:
        pytest.skip("the copies are those of SQLite")
    api = house.start()
    _write_documents(api)
    backup, exported = tmp_path / "before.zip", tmp_path / "workspace.zip"
    back_up(house.source, backup, with_keys=True, version="0.1.0", clock=SystemClock())
    export_workspace(house.source, "default", exported, version="0.1.0", clock=SystemClock())
    erased = api.post("/api/v1/people/erase", {"person": "ann"})
    assert (erased.status, erased.json["documents"]) == (200, 1), erased.body
    assert _documents(api) == ["of-bob"]
    found = api.post("/api/v1/knowledge/notes/retrieve", {"query": f"sings {SECRET}"}).json["chunks"]
    assert [chunk["text"] for chunk in found] == ["bob sings"]
    house.stop()
    assert_sound(house.source)
    erasures = read_erasures([house.settings.data / ERASURES_FILE])

    def assert_copy(data: Path) -> None:
        source = BackupSource(database="", data=data)
        for word in (SECRET, "of-ann"):
            assert not [path for path in (data / "knowledge").iterdir() if word.encode() in path.read_bytes()]
        assert_gone(source, SECRET, '"of-ann","action":"saved"')

    restored = tmp_path / "restored"
    restore(backup, data=restored, database="", trust=believing(backup), clock=SystemClock(), erasures=erasures)
    assert_sound(BackupSource(database="", data=restored))
    assert_copy(restored)
    imported = BackupSource(database="", data=tmp_path / "imported")
    report = import_workspace(exported, imported, trust=believing(exported), clock=SystemClock(), erasures=erasures)
    assert report.settled.erased > 0
    assert_copy(imported.data)
    kept = tmp_path / "kept"
    restore(backup, data=kept, database="", trust=believing(backup), clock=SystemClock())
    assert any(SECRET.encode() in path.read_bytes() for path in (kept / "knowledge").iterdir()), "without the list"


def test_the_files_that_a_channel_uploaded_for_a_person_are_erased(house: House) -> None:
    """Also the record of the upload, which names no person."""
    api = house.start()
    channel = Channel(api, "sender")
    api.put("/api/v1/bindings/sender", {"agent_id": "parrot", "scope": {"channel": "sender"}})
    for actor in ("ann", "bob"):
        content = f"of {actor} {MACAW if actor == 'ann' else 'sings'}".encode()
        made = channel.upload(content, name=f"{actor}-{MACAW if actor == 'ann' else 'sings'}.txt").json["artifact_id"]
        sent = channel.attach(actor, made, actor={"id": actor})
        assert sent.status == 202, sent.body
        api.ended(sent.json["run_id"])
    erased = api.post("/api/v1/people/erase", {"person": "sender:ann"})
    assert (erased.json["artifacts"], erased.json["records"]["artifact.created"]) == (1, 2), erased.body
    house.stop()
    assert_sound(house.source)
    assert_gone(house.source, MACAW)
