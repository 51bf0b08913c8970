"""SQLite against PostgreSQL: after any sequence of operations, both give the same answers."""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.doubles.memory_store import MemoryStore

from bollard.host.errors import HostError
from bollard.host.store.delta_spans import extent_of, pack, pieces
from bollard.host.store.queries import Lease, RunQuery, TranscriptQuery
from bollard.host.store.rows import (
    DeltaRow,
    DropPolicy,
    DropState,
    DropStorage,
    EventRow,
    PatchEvent,
    PatchRun,
    PolicyRow,
    PutEvent,
    PutPolicy,
    PutRun,
    PutState,
    PutStorage,
    PutTranscript,
    RecordRow,
    RunRow,
    StateRow,
    StorageRow,
    TranscriptRow,
)
from bollard.protocol import RUN_STATUSES
from bollard.segments import clauses, segment

RUNS = st.sampled_from(["r1", "r2", "r3"])
KEYS = st.sampled_from(["a", "b"])
TEXTS = st.text(alphabet="ab 中文会议", max_size=6)
ROOMS = st.sampled_from(["x", "y"])
TIMES = st.integers(0, 20)
DISPATCHES = st.sampled_from(["run", "pending", "steering", "dropped"])


class StoreModel(RuleBasedStateMachine):
    def __init__(self, postgres, empty_tables) -> None:
        super().__init__()
        self.sqlite = MemoryStore()
        self.postgres = postgres
        self.empty_tables = empty_tables
        self.position = 0

    def both(self, work):
        """Do the same to both; they answer the same, and refuse the same."""
        answers = []
        for store in (self.sqlite, self.postgres):
            try:
                with store.write() as transaction:
                    answer = work(transaction)
            except HostError as error:  # PostgreSQL may refuse as late as in the commit
                answer = type(error)
            answers.append(answer)
        assert answers[0] == answers[1]

    @rule(run=RUNS, status=st.sampled_from(RUN_STATUSES), at=TIMES, parent=st.none() | RUNS)
    def put_run(self, run, status, at, parent):
        row = RunRow(
            run_id=run,
            workspace="w",
            event_id="e",
            agent_id="a",
            binding_id="b",
            runner_id="r",
            bot=None,
            conversation=None,
            thread=None,
            parent_run_id=parent,
            depth=0 if parent is None else 1,
            status=status,
            reason=None,
            epoch=0,
            owner=None,
            lease_until_ms=None,
            grant_sha256="",
            created_ms=at,
            started_ms=None,
            finished_ms=None,
            updated_ms=at,
            cancel_requested_ms=None,
            last_seq=0,
            facts=b"{}",
        )
        self.both(lambda transaction: transaction.apply([PutRun(row)]))

    @rule(run=RUNS, status=st.sampled_from(RUN_STATUSES), seq=st.integers(0, 9))
    def patch_run(self, run, status, seq):
        self.both(lambda transaction: transaction.apply([PatchRun(run, {"status": status, "last_seq": seq})]))

    @rule(run=RUNS, owner=KEYS, epoch=st.integers(1, 4))
    def take_lease(self, run, owner, epoch):
        self.both(lambda transaction: transaction.take_lease(run, Lease(owner=owner, epoch=epoch, until_ms=9)))

    @rule(owner=KEYS, until=TIMES)
    def renew(self, owner, until):
        self.both(lambda transaction: transaction.renew_leases(owner, ["r1", "r2", "r3"], until))

    @rule()
    def lock(self):
        self.both(lambda transaction: transaction.lock_epochs(["r1", "r2", "r3"]))

    @rule(run=RUNS, seq=st.integers(1, 12), at=TIMES, fail=st.booleans())
    def add_record(self, run, seq, at, fail):
        self.position += 1
        row = RecordRow(
            id=self.position,
            workspace="w",
            chain="c",
            position=self.position,
            run_id=run,
            seq=seq,
            epoch=1,
            source_seq=None,
            type="t",
            observed=True,
            created_ms=at,
            data=b"{}",
            data_sha256="",
            hash="",
        )

        def work(transaction):
            transaction.add_records([row])
            if fail:
                transaction.add_records([row])

        self.both(work)

    @rule(before=TIMES, limit=st.integers(1, 3))
    def drop_data(self, before, limit):
        self.both(lambda transaction: transaction.drop_data(["t"], before, limit))

    @rule(run=RUNS, seq=st.integers(1, 9), epoch=st.integers(1, 2), at=TIMES)
    def add_delta(self, run, seq, epoch, at):
        row = DeltaRow(
            run_id=run, epoch=epoch, first_seq=seq, last_seq=seq, created_ms=at, spans=pack([(seq, 1)]), body=b"x"
        )
        self.both(lambda transaction: transaction.add_deltas([row]))

    @rule(run=RUNS)
    def merge(self, run):
        rows = self.sqlite.deltas_of_run(run, 0)
        for first, last in pieces(map(extent_of, rows)):
            self.both(lambda transaction, first=first, last=last: transaction.merge_deltas(run, first, last))

    @rule(before=TIMES, limit=st.integers(1, 3))
    def drop_deltas(self, before, limit):
        self.both(lambda transaction: transaction.drop_deltas(before, limit))

    @rule(key=KEYS, value=TEXTS, expires=st.none() | TIMES, at=TIMES, drop=st.booleans())
    def change_state(self, key, value, expires, at, drop):
        row = StateRow(
            scope_key="s",
            key=key,
            workspace="w",
            scope="actor",
            value=value.encode(),
            version=0,
            expires_ms=expires,
            updated_ms=at,
        )
        changes = [PutState(row), *([DropState("s", "a")] if drop else []), PutState(row)]
        self.both(lambda transaction: transaction.apply(changes))

    @rule(at=TIMES)
    def read_state(self, at):
        one, other = self.sqlite, self.postgres
        assert one.states("s", "", 9, at) == other.states("s", "", 9, at)
        assert one.state("s", "a", at) == other.state("s", "a", at)
        self.both(lambda transaction: transaction.state_size("s", at))

    @rule(number=st.integers(1, 4), source=KEYS, dispatch=DISPATCHES)
    def put_event(self, number, source, dispatch):
        row = EventRow(
            event_id=f"e{number}",
            workspace="w",
            source=source,
            source_id="1",
            type="t",
            run_id=None,
            bot=None,
            conversation=None,
            thread=None,
            actor_type=None,
            actor_id=None,
            actor_name=None,
            subject_type=None,
            subject_id=None,
            summary=None,
            event_ms=None,
            created_ms=1,
            dispatch=dispatch,
            steering=None,
            steering_ms=None,
            record_id=number,
        )
        self.both(lambda transaction: transaction.apply([PutEvent(row)]))

    @rule(number=st.integers(1, 4), run=st.none() | RUNS, dispatch=DISPATCHES)
    def patch_event(self, number, run, dispatch):
        fields = {"dispatch": dispatch, "run_id": run, "steering": "queued"}
        self.both(lambda transaction: transaction.apply([PatchEvent("w", f"e{number}", fields)]))
        self.both(lambda transaction: transaction.event_dispatch("w", f"e{number}"))

    @rule(key=KEYS, digest=KEYS, drop=st.booleans())
    def change_storage(self, key, digest, drop):
        row = StorageRow(area_key="a", key=key, sha256=digest, size_bytes=1, updated_ms=1)
        changes = [PutStorage(row), *([DropStorage("a", "b")] if drop else [])]
        self.both(lambda transaction: transaction.apply(changes))

    @rule(kind=st.sampled_from(["agent", "binding"]), name=KEYS, revision=TIMES, drop=st.booleans())
    def change_policy(self, kind, name, revision, drop):
        row = PolicyRow(workspace="w", id=name, revision=revision, body=b"{}", updated_ms=1)
        changes = [PutPolicy(kind, row), *([DropPolicy(kind, "w", "a")] if drop else [])]
        self.both(lambda transaction: transaction.apply(changes))

    @rule(now=TIMES)
    def drop_expired(self, now):
        self.both(lambda transaction: transaction.drop_expired(now, 100))

    @rule(seq=st.integers(1, 6), text=TEXTS)
    def say(self, seq, text):
        room = "xy"[seq % 2]  # a record never changes, so a message stays where it is
        row = TranscriptRow(
            transcript_id=f"t{seq}",
            workspace="w",
            bot=None,
            conversation=room,
            thread=None,
            event_id="e",
            run_id=None,
            seq=seq,
            role="user",
            content=text,
            content_json=None,
            search=segment(text),
            created_ms=1,
        )
        self.both(lambda transaction: transaction.apply([PutTranscript(row)]))

    @rule()
    def clear(self):
        self.both(lambda transaction: transaction.clear_projections())

    @rule(query=TEXTS, room=ROOMS)
    def search(self, query, room):
        place = TranscriptQuery(workspace="w", bot=None, conversation=room, thread=None, limit=100)
        found = [{row.seq for row in store.search(place, clauses(query))} for store in (self.sqlite, self.postgres)]
        assert found[0] == found[1]

    @invariant()
    def both_hold_the_same(self):
        one, other = self.sqlite, self.postgres
        assert one.dump_projections() == other.dump_projections()
        assert one.records(0, 100) == other.records(0, 100)
        for run in ("r1", "r2", "r3"):
            assert one.run(run) == other.run(run)
            assert one.deltas_of_run(run, 3) == other.deltas_of_run(run, 3)
            assert one.records_of_run(run, 2, 5) == other.records_of_run(run, 2, 5)
        page = RunQuery(workspace="w", limit=2, statuses=frozenset({"queued", "running"}))
        assert one.runs(page) == other.runs(page)
        assert one.unfinished_runs("r1", 5) == other.unfinished_runs("r1", 5)
        assert one.count_runs("w", "a", 10) == other.count_runs("w", "a", 10)
        assert one.children("r1") == other.children("r1")
        assert one.pending_events(1, 2) == other.pending_events(1, 2)
        assert one.artifact_digests("", 9) == other.artifact_digests("", 9)
        assert one.policies("agent", "w") == other.policies("agent", "w")
        assert one.storages("a", "", 9) == other.storages("a", "", 9)

    def teardown(self):
        self.empty_tables()


@pytest.mark.parametrize("examples", [10, pytest.param(50, marks=pytest.mark.full)])
def test_both_databases_give_the_same_answers(postgres_store, empty_postgres_tables, examples) -> None:
    run_state_machine_as_test(
        lambda: StoreModel(postgres_store, empty_postgres_tables),
        settings=settings(
            max_examples=examples,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
        ),
    )
