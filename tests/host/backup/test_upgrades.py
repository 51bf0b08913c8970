"""A database that an earlier revision made: upgraded, it reads the same."""

import msgspec
import pytest
from tests.host.backup.conftest import empty_databases, laid_down
from tests.simulation.ledger import chain_problems

from bollard.host.log.rebuild import check_saved, rebuild
from bollard.host.store.migrations import schema
from bollard.host.store.queries import RunQuery, TranscriptQuery
from bollard.host.store.rows import RunRow
from bollard.segments import clauses
from bollard.trust.keys import load_or_make_signing_key

LATER = {"flow": 0, "usage": None}
"""Later columns, and their values in an old row."""

LEASE = ("owner", "lease_until_ms")


def as_read(rows, like=()):
    """As JSON. Rows of a kind that has columns more today are read without them."""
    read = msgspec.json.decode(msgspec.json.encode(rows))
    if not like or len(read[0]) == len(like[0]):
        return read
    if isinstance(read[0], dict):
        later = read[0].keys() - like[0].keys()
        assert all({row.pop(name) for row in read} == {LATER[name]} for name in later)
        return read
    known = len(like[0])
    assert {value for row in read for value in row[known:]} <= set(LATER.values())
    return [row[:known] for row in read]


REVISIONS = ("0001", "0002", "0003", "0004", "0005")
SINCE_0003 = ("tool_calls", "approvals", "secrets", "skills")
"""Tables that came with it; the database of that revision has rows in them."""


@pytest.fixture(
    scope="module", params=[f"{kind}-{revision}" for kind in ("sqlite", "postgres") for revision in REVISIONS]
)
def past(request, postgres_database, tmp_path_factory):
    with empty_databases(postgres_database) as new_database:
        yield laid_down(tmp_path_factory.mktemp("past"), *request.param.split("-"), new_database)


@pytest.fixture(scope="module")
def upgraded(past):
    """One store for all tests of a revision: the tests leave it unchanged."""
    store = past.open()
    yield store
    store.close()


def test_runs_events_agents_and_records_of_the_previous_revision_read_the_same(past, upgraded):
    runs = upgraded.runs(RunQuery(workspace="default", limit=100))
    assert len(runs) >= 4
    assert {run.status for run in runs} >= {"completed", "running"}
    assert as_read(runs, past.read["runs"]) == past.read["runs"]
    assert as_read(upgraded.events("default", None, 100), past.read["events"]) == past.read["events"]
    assert as_read(upgraded.policies("agent", "default")) == past.read["agents"] != []
    assert as_read(upgraded.policies("binding", "default")) == past.read["bindings"] != []
    assert as_read(upgraded.records(0, 10_000)) == past.read["records"]
    assert as_read(upgraded.heads("default")) == past.read["heads"]
    deltas = [row for run in runs for row in upgraded.deltas_of_run(run.run_id, 0)]
    assert as_read(deltas) == past.read["deltas"] != []


def test_the_projections_of_the_previous_revision_are_those_of_a_rebuild(past, upgraded):
    before = _projections(upgraded)
    then = past.read["projections"]
    whole = len(RunRow.__struct_fields__)
    then["runs"] = [[*_without_lease(row)] if len(row) == whole else row for row in then["runs"]]
    assert {name for name in SINCE_0003 if then.get(name)} == (set(SINCE_0003) if past.revision >= "0003" else set())
    assert {name: as_read(before[name], rows) for name, rows in then.items()} == then
    rebuild(upgraded)
    assert _projections(upgraded) == before


def _projections(store):
    """Without leases: earlier versions kept that of an ended run."""
    dump = store.dump_projections()
    return {**dump, "runs": [_without_lease(row) for row in dump["runs"]]}


def _without_lease(row):
    return tuple(value for name, value in zip(RunRow.__struct_fields__, row, strict=True) if name not in LEASE)


def test_saved_resources_from_before_the_upgrade_pass_the_startup_check(past, upgraded):
    assert len(upgraded.newest_saved()) >= 2
    if past.revision >= "0005":
        return  # its rows have HMACs of a key that is not stored with the database
    check_saved(upgraded, load_or_make_signing_key(past.source.data / "keys" / "heads.ed25519"))
    if past.revision >= "0003":
        assert upgraded.all_kept("secret"), "earlier rows have an HMAC now"


def test_every_earlier_revision_has_stored_databases():
    """A new revision needs a database of the one before it, by `fixtures/make_previous.py`."""
    assert (*REVISIONS, schema.REVISION) == tuple(f"{number:04}" for number in range(1, len(REVISIONS) + 2))


def test_an_approval_requested_before_the_upgrade_is_open_after_it(past, upgraded):
    asked = [row.status for row in upgraded.approvals("default", None, None, 10)]
    waiting = [row.status for row in upgraded.open_approvals("", 10)]
    assert (asked, waiting) == ((["requested", "used"], ["requested"]) if past.revision >= "0003" else ([], []))


def test_the_chain_of_the_previous_revision_still_verifies(past, upgraded):
    key = load_or_make_signing_key(past.source.data / "keys" / "heads.ed25519").verify_key
    assert chain_problems(upgraded, key) == []


@pytest.mark.parametrize("wanted", ["hello", "你好"])
def test_messages_from_before_the_upgrade_are_found_after_it(upgraded, wanted):
    room = TranscriptQuery(workspace="default", bot=None, conversation="room", thread=None, limit=10)
    assert [row.content for row in upgraded.search(room, clauses(wanted))] != []
