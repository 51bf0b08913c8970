"""Open approvals and questions of an archive expire on its return: no old request acts."""

import json
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.host.backup.conftest import believing
from tests.simulation.ledger import all_records, run_problems

from bollard.host.backup.backup import BackupSource, back_up
from bollard.host.backup.restore import restore
from bollard.host.backup.workspace_export import export_workspace
from bollard.host.backup.workspace_import import import_workspace
from bollard.host.clock import SystemClock
from bollard.host.errors import Conflict, StorageUnavailable
from bollard.host.feed.followers import POSITION
from bollard.host.files.uploads import UPLOAD
from bollard.host.log.entries import Entry
from bollard.host.log.rebuild import UNSETTLED, check_settled
from bollard.host.log.records import NewRecord, data_of, encode_data
from bollard.host.log.writer import Writer
from bollard.host.store.blobs import BlobStore
from bollard.host.store.rows import KeptRow, PutKept
from bollard.host.store.selection import choose_store
from bollard.host.subscriptions.delivery_rows import OPEN, WebhookDelivery
from bollard.trust.keys import load_or_make_signing_key

PAST = Path(__file__).parent / "fixtures" / "revision_0004"
HELD = json.loads((PAST / "held.json").read_text(encoding="utf-8"))


@pytest.fixture
def source(tmp_path):
    """A store with a run that waits for a yes, and one that waits for an answer."""
    with tarfile.open(PAST / "data.tar.xz") as archive:
        archive.extractall(tmp_path, filter="tar")
    return BackupSource(database="", data=tmp_path / "data")


def opened(source):
    store = choose_store(source.database, source.data, SystemClock())
    store.open()
    return closing(store)


def write(source, kind, data, workspace="default"):
    with opened(source) as store:
        key = load_or_make_signing_key(source.data / "keys/heads.ed25519")
        writer = Writer(store, BlobStore(source.data / "blobs"), SystemClock(), incarnation="later", key=key)
        record = NewRecord(workspace=workspace, type=kind, data=encode_data(data), created_ms=1)
        writer.turn([Entry(records=[record])])
        writer.finish()


def restored(source, target, folder):
    back_up(source, folder / "all.zip", with_keys=True, version="0.1.0", clock=SystemClock())
    trust = believing(folder / "all.zip")
    return restore(folder / "all.zip", data=target.data, database="", trust=trust, clock=SystemClock()).settled


def imported(source, target, folder):
    export_workspace(source, "default", folder / "w.zip", version="0.1.0", clock=SystemClock())
    return import_workspace(folder / "w.zip", target, trust=believing(folder / "w.zip"), clock=SystemClock()).settled


WAYS = ((restored, "store.restored"), (imported, "workspace.imported"))


def records_of(store, *kinds):
    return [(record, data_of(record)) for record in all_records(store) if record.type in kinds]


def test_an_open_approval_and_an_open_question_expire_each_with_a_record(source, tmp_path):
    for way, reason in WAYS:
        target = BackupSource(database="", data=tmp_path / way.__name__)
        settled = way(source, target, tmp_path)
        (approval,), (question,) = settled.approvals, settled.questions
        assert (approval.approval_id, approval.run_id) == (HELD["approval_id"], HELD["approval_run"])
        assert (approval.name, approval.status) == ("book", "requested")
        assert (question.run_id, question.question) == (HELD["question_run"], "Which one?")
        with opened(target) as store:
            assert store.open_approvals("", 10) == []
            assert store.approval("default", HELD["approval_id"]).status == "expired"
            ((_, expired),) = records_of(store, "approval.expired")
            assert (expired["approval_id"], expired["run_id"]) == (HELD["approval_id"], HELD["approval_run"])
            assert expired["reason"] == reason
            ((record, ended),) = records_of(store, "question.expired")
            assert (record.run_id, ended["reason"]) == (HELD["question_run"], reason)
            ((_, said),) = records_of(store, reason)
            assert (said["approvals"], said["questions"], said["deliveries"]) == (1, 1, 0)
            assert run_problems(store) == []


def test_an_unused_approval_expires_and_a_used_one_stays(source, tmp_path):
    write(source, "approval.granted", {"approval_id": HELD["approval_id"], "by": "ann", "decision": "allow_once"})
    for way, _ in WAYS:
        target = BackupSource(database="", data=tmp_path / way.__name__)
        assert [each.status for each in way(source, target, tmp_path).approvals] == ["granted"]
        with opened(target) as store:
            assert store.approval("default", HELD["approval_id"]).status == "expired"
    write(source, "approval.used", {"approval_id": HELD["approval_id"]})
    for way, _ in WAYS:
        (tmp_path / f"{way.__name__}-used").mkdir()
        target = BackupSource(database="", data=tmp_path / f"{way.__name__}-used" / "data")
        assert way(source, target, target.data.parent).approvals == ()
        with opened(target) as store:
            assert store.approval("default", HELD["approval_id"]).status == "used"


def test_an_answered_question_does_not_expire(source, tmp_path):
    """The answer is a record of the run, as the desk writes it."""
    with opened(source) as store:
        (asked,) = [record for record in all_records(store) if record.type == "question.asked"]
        question, seq = data_of(asked), store.last_seq(HELD["question_run"]) + 1
        data = encode_data({**question, "answer": "left", "by": "ann"})
        run = store.run(HELD["question_run"])
        key = load_or_make_signing_key(source.data / "keys/heads.ed25519")
        writer = Writer(store, BlobStore(source.data / "blobs"), SystemClock(), incarnation=run.owner, key=key)
        place = {"run_id": HELD["question_run"], "seq": seq, "epoch": run.epoch}
        record = NewRecord(workspace="default", type="question.answered", data=data, created_ms=1, **place)
        writer.turn([Entry(records=[record])])
        writer.finish()
    for way, _ in WAYS:
        target = BackupSource(database="", data=tmp_path / way.__name__)
        assert way(source, target, tmp_path).questions == ()


class CutOff(BaseException):
    """The end of a process, as far as a function can see."""


class CutClock(SystemClock):
    """Ends its caller once the rows of a copy are committed and not settled."""

    def __init__(self, target):
        self._file = target.data / "bollard.db"

    def now_ms(self):
        if self._file.exists():
            with closing(sqlite3.connect(self._file)) as connection:
                if connection.execute("SELECT value FROM meta WHERE key = ? AND value != ''", (UNSETTLED,)).fetchone():
                    raise CutOff
        return super().now_ms()


def test_no_host_starts_on_an_interrupted_import_until_the_same_import_completes(source, tmp_path):
    target = BackupSource(database="", data=tmp_path / "elsewhere")
    file = tmp_path / "w.zip"
    export_workspace(source, "default", file, version="0.1.0", clock=SystemClock())
    with pytest.raises(CutOff):
        import_workspace(file, target, trust=believing(file), clock=CutClock(target))
    with opened(target) as store, pytest.raises(StorageUnavailable, match="the import of workspace default"):
        check_settled(store)
    settled = import_workspace(file, target, trust=believing(file), clock=SystemClock()).settled
    assert settled.approvals
    with opened(target) as store:
        check_settled(store)
        assert store.open_approvals("", 10) == []
        assert [record.type for record in all_records(store)].count("workspace.imported") == 1
    with pytest.raises(Conflict, match="is not empty here"):
        import_workspace(file, target, trust=believing(file), clock=SystemClock())


def test_another_import_does_not_hide_an_interrupted_one(source, tmp_path):
    target = BackupSource(database="", data=tmp_path / "elsewhere")
    write(source, "note", {}, workspace="other")
    for workspace in ("default", "other"):
        file = tmp_path / f"{workspace}.zip"
        export_workspace(source, workspace, file, version="0.1.0", clock=SystemClock())
    with pytest.raises(CutOff):
        import_workspace(tmp_path / "default.zip", target, trust=believing(file), clock=CutClock(target))
    with pytest.raises(StorageUnavailable, match="the import of workspace default"):
        import_workspace(file, target, trust=believing(file), clock=SystemClock())
    with opened(target) as store:
        assert "other" not in {record.workspace for record in all_records(store)}
        with pytest.raises(StorageUnavailable, match="the import of workspace default"):
            check_settled(store)


def test_a_repeated_import_rewrites_a_truncated_file(source, tmp_path):
    target = BackupSource(database="", data=tmp_path / "elsewhere")
    file = tmp_path / "w.zip"
    export_workspace(source, "default", file, version="0.1.0", clock=SystemClock())
    with pytest.raises(CutOff):
        import_workspace(file, target, trust=believing(file), clock=CutClock(target))
    (skill,) = (path for path in (target.data / "skills").rglob("*") if path.is_file())
    whole = skill.read_bytes()
    skill.write_bytes(whole[:10])
    import_workspace(file, target, trust=believing(file), clock=SystemClock())
    assert skill.read_bytes() == whole


def test_a_host_starts_on_a_restored_store(source, tmp_path):
    target = BackupSource(database="", data=tmp_path / "elsewhere")
    restored(source, target, tmp_path)
    with opened(target) as store:
        check_settled(store)
        assert store.meta(UNSETTLED) == ""


def test_an_open_interaction_expires_and_nothing_of_it_is_sent(source, tmp_path):
    """The message about the outcome is recorded and not sent: the channel belongs to the host that still runs."""
    route = {"id": "apr_1.mDk2", "channel": "room", "target": "table", "event_id": "evt_1"}
    asked = {"approval_id": "apr_1", "run_id": HELD["approval_run"], "call_id": "call_9", "agent_id": "helper"}
    write(source, "approval.requested", {**asked, "digest": "d", "expires_ms": 9 * 10**12, "interaction": route})
    for way, reason in WAYS:
        target = BackupSource(database="", data=tmp_path / way.__name__)
        settled = way(source, target, tmp_path)
        assert {"apr_1.mDk2.opened", "apr_1.mDk2.closed"} <= {*settled.deliveries}
        with opened(target) as store:
            assert store.approval("default", "apr_1").status == "expired"
            shown = [store.delivery("default", f"apr_1.mDk2.{name}") for name in ("opened", "closed")]
            assert [(each.status, each.reason) for each in shown] == [("unknown", reason)] * 2
            assert store.outbox_open(0, 10) == []


def test_an_undelivered_webhook_fails_an_upload_ends_and_followers_of_events_begin_anew(source, tmp_path):
    waiting = WebhookDelivery(
        subscription_id="alerts", position=1, event_id="run_1-failed", type="run.failed", created_ms=1, updated_ms=1
    )
    position = KeptRow(kind=POSITION, workspace="default", id="bindings", body=b"1", expires_ms=None, updated_ms=1)
    with opened(source) as store, store.write() as transaction:
        transaction.keep([waiting.put("default"), PutKept(position), PutKept(replace(position, kind=UPLOAD))])
    target = BackupSource(database="", data=tmp_path / "restored")
    restored(source, target, tmp_path)
    with opened(target) as store:
        assert [store.all_kept(kind) for kind in (OPEN, POSITION, UPLOAD)] == [[], [], []]
        (found,) = records_of(store, "webhook.failed")
        assert (found[1]["webhook_id"], found[1]["reason"]) == ("run_1-failed", "store.restored")
