"""`/readyz` reports whether the host accepts work, and each reason against it; `/healthz` only that it answers."""

import asyncio
import contextlib
import socket
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from tests.chinese import english_in
from tests.doubles.failing_store import FailurePlan, failing
from tests.doubles.manual_clock import ManualClock
from tests.doubles.memory_store import MemoryStore
from tests.replacement import replace
from tests.tables import for_each

from bollard.cli.language import load_text
from bollard.host.errors import StorageFull, StorageUnavailable, caused_by
from bollard.host.http.resources.health import HostStatus, ProbeResult, Readiness, reasons_of
from bollard.host.limits import READY_KEPT_S
from bollard.host.settings import Settings
from bollard.protocol import JsonObject

_GONE: JsonObject = {"problem": "it is gone"}
READY = HostStatus(started=True, broken=False, draining=False, recovered=True)


def _codes(**known: Any) -> list[str]:
    standing = {name: known.pop(name) for name in list(known) if name in HostStatus.__struct_fields__}
    return [reason.code for reason in reasons_of(replace(READY, **standing), ProbeResult(**known))]


def test_a_complete_host_is_ready() -> None:
    assert _codes() == []


@for_each(
    ("known", "codes"),
    [
        ({"started": False}, ["starting"]),
        ({"broken": True}, ["journal_lost"]),
        ({"broken": True, "started": False}, ["journal_lost"]),
        ({"draining": True}, ["draining"]),
        ({"recovered": False}, ["recovering"]),
        ({"journal": _GONE}, ["journal"]),
        ({"disk_full": True}, ["disk_full"]),
        ({"disk_full": True, "journal": _GONE}, ["disk_full"]),
        ({"store": _GONE}, ["store"]),
        ({"store": _GONE, "revision": None}, ["store"]),
        ({"revision": "9999"}, ["schema"]),
        ({"revision": None}, ["schema"]),
        ({"draining": True, "store": _GONE, "journal": _GONE}, ["draining", "journal", "store"]),
    ],
)
def test_each_reason_has_its_code(known: dict[str, Any], codes: list[str]) -> None:
    assert _codes(**known) == codes


def test_every_reason_has_a_message_and_a_hint() -> None:
    worst = reasons_of(
        HostStatus(started=False, broken=False, draining=True, recovered=False),
        ProbeResult(journal=_GONE, store=_GONE, revision=None),
    )
    assert len(worst) == 5
    assert all(reason.message and reason.hint for reason in worst)


@for_each("known", [{"started": False}, {"broken": True}, {"draining": True, "recovered": False}, {}])
def test_every_reason_has_a_chinese_sentence_and_hint(known: dict[str, Any]) -> None:
    chinese = load_text("zh_Hans")
    lost = {**caused_by(StorageUnavailable("the disk is gone", reason="test"))}
    for probed in (ProbeResult(journal=lost, store=lost), ProbeResult(disk_full=True, revision="9999")):
        found = reasons_of(replace(READY, **known), probed)
        assert found
        for reason in found:
            assert english_in(chinese.problem({"problem": reason.message, **reason.problem_details})) == []
            assert english_in(chinese.remedy(reason.problem_details, reason.hint)) == []


async def test_a_silent_journal_is_named_in_chinese(
    memory_store: MemoryStore, journal: Any, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bollard.host.http.resources.health.READY_PROBE_S", 0.01)
    journal.fate = asyncio.Event().wait
    (reason,) = await Readiness(lambda: READY, journal, memory_store, clock).reasons()
    said = load_text("zh_Hans").problem({"problem": reason.message, **reason.problem_details})
    assert said == "日志无法写入：2 秒内没有应答"


class _Journal:
    """A journal in memory with a chosen outcome of a commit."""

    def __init__(self) -> None:
        self.full = False
        self.asked = 0
        self.fate: Callable[[], Awaitable[None]] = self._fine

    async def _fine(self) -> None:
        return None

    async def commit(self, entry: Any) -> None:
        self.asked += 1
        await self.fate()


async def _fails(error: Exception) -> None:
    raise error


@pytest.fixture
def journal() -> _Journal:
    return _Journal()


async def _reasons(readiness: Readiness) -> list[str]:
    return [reason.code for reason in await readiness.reasons()]


async def test_readiness_probes_the_journal_and_the_store(
    journal: Any, memory_store: MemoryStore, clock: ManualClock
) -> None:
    plan = FailurePlan()
    readiness = Readiness(lambda: READY, journal, failing(memory_store, plan), clock)
    assert await _reasons(readiness) == []
    assert (journal.asked, plan.calls) == (1, ["read.revision"])

    clock.advance(READY_KEPT_S)
    plan.fail_at = len(plan.calls) + 1
    assert await _reasons(readiness) == ["store"]

    clock.advance(READY_KEPT_S)
    journal.fate = lambda: _fails(StorageUnavailable("the disk is gone", reason="test"))
    assert await _reasons(readiness) == ["journal"]

    clock.advance(READY_KEPT_S)
    journal.fate = lambda: _fails(StorageFull("no space", reason="test"))
    assert await _reasons(readiness) == ["disk_full"]

    clock.advance(READY_KEPT_S)
    journal.fate, journal.full = journal._fine, True  # it wrote on its reserve
    assert await _reasons(readiness) == ["disk_full"]

    clock.advance(READY_KEPT_S)
    journal.full = False
    assert await _reasons(readiness) == []


async def test_many_concurrent_readers_share_one_probe(
    journal: Any, memory_store: MemoryStore, clock: ManualClock
) -> None:
    readiness = Readiness(lambda: READY, journal, memory_store, clock)
    await asyncio.gather(*(readiness.reasons() for _ in range(100)))
    assert journal.asked == 1
    clock.advance(READY_KEPT_S)
    await readiness.reasons()
    assert journal.asked == 2


async def test_a_cancelled_reader_does_not_cancel_the_probe_of_others(
    journal: Any, memory_store: MemoryStore, clock: ManualClock
) -> None:
    go_on = asyncio.Event()

    async def slow() -> None:
        await go_on.wait()

    journal.fate = slow
    readiness = Readiness(lambda: READY, journal, memory_store, clock)
    impatient, patient = (asyncio.ensure_future(readiness.reasons()) for _ in range(2))
    await asyncio.sleep(0)
    impatient.cancel()
    go_on.set()
    assert await patient == []


async def test_readiness_does_not_wait_for_a_silent_journal_or_store(
    memory_store: MemoryStore, journal: Any, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bollard.host.http.resources.health.READY_PROBE_S", 0.01)
    stuck = threading.Event()
    plan = FailurePlan(on_call=lambda call: stuck.wait(20) and None)

    async def never() -> None:
        await asyncio.Event().wait()

    journal.fate = never
    readiness = Readiness(lambda: READY, journal, failing(memory_store, plan), clock)
    assert await _reasons(readiness) == ["journal", "store"]
    stuck.set()


async def test_a_host_that_is_not_started_probes_nothing(
    journal: Any, memory_store: MemoryStore, clock: ManualClock
) -> None:
    readiness = Readiness(lambda: replace(READY, started=False), journal, memory_store, clock)
    assert await _reasons(readiness) == ["starting"]
    assert journal.asked == 0


# --- the whole host ---


def test_a_ready_host_reports_its_details(api: Any) -> None:
    answer = api.get("/readyz", token=None)
    assert answer.status == 200
    assert (answer.json["ready"], answer.json["reasons"]) == (True, [])
    assert answer.json["plugins"]["parrot"]["status"] == "ready"
    assert api.get("/healthz", token=None).body == b"ok"


def test_a_public_host_shows_no_details_without_a_token(
    settings: Settings, start_host: Any, client_of: Any, tmp_path: Any
) -> None:
    host = start_host(replace(settings, data=tmp_path, database="", origins=("https://bollard.example.org",)))
    client = client_of(host.port, host.token)
    client.until("/readyz", lambda health: health["ready"])
    assert client.get("/readyz", token=None).json == {"ready": True, "reasons": []}
    assert client.get("/readyz", token="wrong").json == {"ready": True, "reasons": []}
    assert "plugins" in client.get("/readyz").json


def test_a_schema_changed_by_another_version_makes_the_host_unready(
    settings: Settings, start_host: Any, client_of: Any, tmp_path: Any
) -> None:
    host = start_host(replace(settings, data=tmp_path, database=""))
    client = client_of(host.port, host.token)
    client.until("/readyz", lambda health: health["ready"])
    with sqlite3.connect(tmp_path / "bollard.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    told = client.until("/readyz", lambda health: not health["ready"])
    assert [reason["code"] for reason in told["reasons"]] == ["schema"]
    assert "9999" in told["reasons"][0]["message"]
    assert client.get("/healthz").status == 200


class _Line:
    """A way to a server that can be cut, and mended."""

    def __init__(self, port: int) -> None:
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._whole = True
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if not self._whole:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._server))
                self._open += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        self._whole = False
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._whole = True

    def close(self) -> None:
        self.cut()
        self._listener.close()
        for end in self._open:
            end.close()


def test_an_unreachable_database_makes_the_host_unready_until_it_returns(
    plugin: Any, empty_postgres_url: str, start_host: Any, client_of: Any, tmp_path: Any
) -> None:
    server = urlsplit(empty_postgres_url)
    line = _Line(server.port or 5432)
    database = urlunsplit(server._replace(netloc=f"{server.username}@127.0.0.1:{line.port}"))
    host = start_host(
        Settings(data=tmp_path, database=database, plugins=(plugin,), builtin_plugins=False, port=0, grace_s=0.5)
    )
    client = client_of(host.port, host.token)
    client.until_health(lambda health: health["plugins"]["parrot"]["status"] == "ready")
    run_id = client.say("hello")
    assert client.ended(run_id)["status"] == "completed"
    line.cut()
    told = client.until("/readyz", lambda health: not health["ready"])
    assert {reason["code"] for reason in told["reasons"]} <= {"journal", "store"}
    client.until("/readyz", lambda health: {reason["code"] for reason in health["reasons"]} == {"journal", "store"})
    assert client.get("/healthz").status == 200
    assert client.get(f"/api/v1/runs/{run_id}").error["code"] == "storage_unavailable"
    line.mend()
    client.until("/readyz", lambda health: health["ready"])
    assert client.ended(client.say("again"))["status"] == "completed"
    host.stop()
    line.close()
