"""One file that proves a run to a stranger, and every way to make it say something else."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.audit import proof as proofs
from bollard.host.audit.proof import Proof, UnreadableProof, check_proof, prove, read_proof, write_proof
from bollard.host.errors import InvalidRequest, NotFound
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.store.rows import KeptRow, PutKept
from bollard.host.store.store import Store
from bollard.trust import sha256_of
from bollard.trust.keys import SigningKey

Open = Callable[..., Journal]
Changed = Callable[[dict[str, Any]], None]
GRAPH = b'{"capabilities":["tool:builtin/now"]}'


@pytest.fixture
def keys(signing_key: SigningKey) -> dict[str, str]:
    return {signing_key.verify_key.key_id: signing_key.verify_key.public.hex()}


def granted(scribe: Any, run_id: str) -> tuple[Any, Entry]:
    """Facts and first records of a run whose grant is the one that its facts quote, and quotes a graph itself."""
    entry = scribe.first(scribe.facts(run_id))
    grant = {**msgspec.json.decode(entry.records[2].data), "graph_sha256": sha256_of(GRAPH)}
    text = msgspec.json.encode(grant)
    facts = scribe.facts(run_id, grant_sha256=sha256_of(text))
    entry = scribe.first(facts)
    entry.records[2] = msgspec.structs.replace(entry.records[2], data=text)
    row = KeptRow(kind="graph", workspace="default", id=sha256_of(GRAPH), body=GRAPH, expires_ms=None, updated_ms=1)
    return facts, msgspec.structs.replace(entry, keeps=[PutKept(row)])


async def run_in(journal: Journal, scribe: Any, run_id: str = "run_1") -> Any:
    """A run with records of others between its own."""
    facts, first = granted(scribe, run_id)
    await journal.commit(first)
    await journal.commit(Entry(records=[scribe.note(secret="of somebody else")]))
    await journal.commit(Entry(records=[scribe.record(facts, "message.completed", {"content": "hi"}, 3)]))
    await journal.commit(Entry(records=[scribe.record(facts, "run.ended", {"status": "completed"}, 4)]))
    return facts


async def test_a_public_key_alone_verifies_the_proof_of_a_run(
    store: Store, open_journal: Open, scribe: Any, signing_key: SigningKey, keys: dict[str, str]
) -> None:
    journal = open_journal(store)
    await journal.commit(Entry(records=[scribe.note() for _ in range(5)]))
    await run_in(journal, scribe)
    await journal.close()
    text = write_proof(prove(store, "run_1", keys, 1))
    report = check_proof(read_proof(text), {signing_key.verify_key.key_id: signing_key.verify_key})
    assert report.problems == ()
    assert report.proved
    assert report.ended
    assert (report.records, report.without_data, report.unsigned) == (5, 0, 0)
    assert b"of somebody else" not in text
    assert b"tool:builtin/now" in text


async def test_a_run_of_a_host_that_was_killed_is_proved_after_the_next_start(
    store: Store, open_journal: Open, scribe: Any, signing_key: SigningKey, keys: dict[str, str]
) -> None:
    await run_in(open_journal(store, "killed"), scribe)
    known = {signing_key.verify_key.key_id: signing_key.verify_key}
    assert not check_proof(prove(store, "run_1", keys, 1), known).proved
    await open_journal(store, "next").commit(Entry())
    report = check_proof(prove(store, "run_1", keys, 1), known)
    assert report.problems == ()
    assert report.proved
    assert report.unsigned == 0


async def test_a_run_that_two_hosts_carried_is_proved_by_the_heads_of_both(
    memory_store: Any, open_journal: Open, scribe: Any, signing_key: SigningKey, keys: dict[str, str]
) -> None:
    first = open_journal(memory_store, "first")
    facts, created = granted(scribe, "run_1")
    await first.commit(created)
    await first.close()
    second = open_journal(memory_store, "second")
    second.remember(facts)
    await second.commit(Entry(records=[scribe.record(facts, "run.ended", {"status": "failed"}, 3)]))
    await second.close()
    report = check_proof(prove(memory_store, "run_1", keys, 1), {signing_key.verify_key.key_id: signing_key.verify_key})
    assert report.proved
    assert report.records == 4


async def test_records_without_a_signed_head_are_not_proved(
    memory_store: Any,
    open_journal: Open,
    scribe: Any,
    clock: ManualClock,
    signing_key: SigningKey,
    keys: dict[str, str],
) -> None:
    journal = open_journal(memory_store)
    await run_in(journal, scribe)
    trusted = {signing_key.verify_key.key_id: signing_key.verify_key}
    early = check_proof(prove(memory_store, "run_1", keys, 1), trusted)
    assert early.problems == ()
    assert early.unsigned == 2
    assert not early.proved
    clock.advance(61)
    await journal.commit(Entry(records=[scribe.note()]))
    assert check_proof(prove(memory_store, "run_1", keys, 1), trusted).proved


def _run_of(body: dict[str, Any], kind: str) -> dict[str, Any]:
    records = [record for section in body["sections"] for record in section["records"]]
    return next(record for record in records if record["type"] == kind)


def _forged_grant(body: dict[str, Any]) -> None:
    """A grant that is wider, with the digests that fit it; the chain does not."""
    record = _run_of(body, "grant.issued")
    record["data"] = record["data"].replace("run_1", "run_2")
    record["data_sha256"] = body["grant_sha256"] = sha256_of(record["data"].encode())


def _without_creation(body: dict[str, Any]) -> None:
    """Retention never takes the data of a creation. Without it nothing would say which event the run is for."""
    del _run_of(body, "run.created")["data"]
    del _run_of(body, "event.received")["data"]
    body["event_id"] = "evt_2"


def _graph_without_grant(body: dict[str, Any]) -> None:
    """A grant whose data retention may have taken, and a graph that it never quoted."""
    del _run_of(body, "grant.issued")["data"]
    body["graph"] = {"json": "{}", "sha256": sha256_of(b"{}")}


CHANGES: dict[str, Changed] = {
    "another event, and no creation that says so": _without_creation,
    "another graph, and no grant that says so": _graph_without_grant,
    "another answer": lambda body: _run_of(body, "message.completed").update(data='{"content":"no"}'),
    "another time": lambda body: _run_of(body, "run.ended").update(created_ms=1),
    "another kind": lambda body: _run_of(body, "run.ended").update(type="run.cancelled"),
    "a record less": lambda body: body["sections"][-1]["records"].pop(1),
    "the last one less": lambda body: body["sections"][-1]["records"].pop(),
    "the first ones less": lambda body: [body["sections"][0]["records"].pop(0) for _ in range(2)],
    "two in each other's place": lambda body: body["sections"][-1]["records"].reverse(),
    "another hash before": lambda body: body["sections"][0].update(after_hash="0" * 64),
    "another head": lambda body: body["sections"][-1]["head"].update(created_ms=1),
    "another signature": lambda body: body["sections"][-1]["head"].update(signature="0" * 128),
    "no hex": lambda body: body["sections"][-1]["head"].update(signature="zz"),
    "no head": lambda body: body["sections"][-1].pop("head"),
    "another run": lambda body: body.update(run_id="run_2"),
    "another event": lambda body: body.update(event_id="evt_2"),
    "another grant": lambda body: body.update(grant_sha256="0" * 64),
    "a wider grant": _forged_grant,
    "another graph": lambda body: body["graph"].update(json="{}"),
    "a graph that fits itself": lambda body: body.update(graph={"json": "{}", "sha256": sha256_of(b"{}")}),
    "another workspace": lambda body: body.update(workspace="other"),
    "nothing": lambda body: body.update(sections=[]),
    "an empty section": lambda body: body["sections"][0].update(records=[]),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_a_changed_proof_proves_nothing(
    name: str, memory_store: Any, open_journal: Open, scribe: Any, signing_key: SigningKey, keys: dict[str, str]
) -> None:
    journal = open_journal(memory_store)
    await run_in(journal, scribe)
    await journal.close()
    proof = prove(memory_store, "run_1", keys, 1)
    trusted = {signing_key.verify_key.key_id: signing_key.verify_key}
    assert check_proof(proof, trusted).proved
    body = msgspec.json.decode(msgspec.json.encode(proof))
    CHANGES[name](body)
    assert not check_proof(msgspec.json.decode(msgspec.json.encode(body), type=Proof), trusted).proved


@pytest.mark.parametrize("numbers", [(3, 4, 5), (3, 9, 20)], ids=["every number", "with deltas between"])
async def test_a_missing_section_is_found(
    numbers: tuple[int, ...],
    memory_store: Any,
    open_journal: Open,
    scribe: Any,
    clock: ManualClock,
    signing_key: SigningKey,
    keys: dict[str, str],
) -> None:
    journal = open_journal(memory_store)
    facts, first = granted(scribe, "run_1")
    await journal.commit(first)
    for number, kind in zip(numbers, ("api.denied", "message.completed", "run.ended"), strict=True):
        clock.advance(61)  # a head behind each
        await journal.commit(
            Entry(records=[scribe.note(), scribe.record(facts, kind, {"status": "completed"}, number)])
        )
        clock.advance(61)
        await journal.commit(Entry(records=[scribe.note(), scribe.note()]))
    await journal.close()
    trusted = {signing_key.verify_key.key_id: signing_key.verify_key}
    proof = prove(memory_store, "run_1", keys, 1)
    assert check_proof(proof, trusted).proved
    assert len(proof.sections) > 3
    for left_out in range(1, len(proof.sections) - 1):
        sections = (*proof.sections[:left_out], *proof.sections[left_out + 1 :])
        report = check_proof(msgspec.structs.replace(proof, sections=sections), trusted)
        assert any("left out" in problem.sentence for problem in report.problems)


async def test_the_key_in_the_file_is_ignored_if_the_caller_trusts_another(
    memory_store: Any, open_journal: Open, scribe: Any, keys: dict[str, str]
) -> None:
    journal = open_journal(memory_store)
    await run_in(journal, scribe)
    await journal.close()
    stranger = SigningKey(b"s" * 32).verify_key
    report = check_proof(prove(memory_store, "run_1", keys, 1), {stranger.key_id: stranger})
    assert not report.proved
    assert all("not the one you trust" in problem.sentence for problem in report.problems)


async def test_a_proof_of_a_missing_or_too_large_run_is_refused(
    memory_store: Any, open_journal: Open, scribe: Any, keys: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = open_journal(memory_store)
    await run_in(journal, scribe)
    with pytest.raises(NotFound):
        prove(memory_store, "run_9", keys, 1)
    monkeypatch.setattr(proofs, "PROOF_RECORDS", 3)
    with pytest.raises(InvalidRequest, match="more than 3 records"):
        prove(memory_store, "run_1", keys, 1)


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"kind":"else"}'])
def test_a_file_without_a_proof_is_refused_with_a_reason(text: bytes) -> None:
    with pytest.raises(UnreadableProof, match="it is"):
        read_proof(text)
