"""Export and erasure of a person, and the deletion of a conversation, on a real host."""

import json
import textwrap
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.host.backup.conftest import believing
from tests.host.http.chat_program import Program, post, save
from tests.replacement import replace

from bollard.host.audit.erasure_list import ERASURES_FILE, read_erasures
from bollard.host.backup.backup import BackupSource, back_up
from bollard.host.backup.log_check import check_log, read_witnesses
from bollard.host.backup.projection_check import check_projections
from bollard.host.backup.restore import restore
from bollard.host.backup.table_source import open_snapshot
from bollard.host.clock import SystemClock
from bollard.host.settings import Settings
from bollard.host.store.selection import choose_store
from bollard.trust.keys import load_or_make_signing_key

SECRET = "blue-parakeet-7781"
KIT = """
    from bollard.sdk import RunContext, runner

    @runner(
        name="default",
        label="Diary",
        permissions={"artifacts": ["write"], "storage": ["workspace"], "agents": ["call"]},
    )
    async def diary(ctx: RunContext):
        text = ctx.input.text or ""
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
