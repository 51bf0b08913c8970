"""State is purged by who wrote it last: through the journal, compared, and so that a rebuild agrees; on every store."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.doubles.manual_clock import ManualClock

from bollard.host.log import removal as state_removal
from bollard.host.log.entries import Committed, Entry, StateExpectation
from bollard.host.log.journal import Journal
from bollard.host.log.rebuild import rebuild
from bollard.host.log.records import RunFacts, scope_key
from bollard.host.log.removal import StatePurger, WriterQuery
from bollard.host.log.retention import STANDING
from bollard.host.scope import Actor
from bollard.host.store.rows import StateRow
from bollard.host.store.store import Store


class Desk:
    """Runs that write state, and the one who purges it."""

    def __init__(self, store: Store, journal: Journal, clock: ManualClock, scribe: Any) -> None:
        self.store = store
        self._journal = journal
        self._clock = clock
        self._scribe = scribe
        self._seqs: dict[str, int] = {}
        self.purger = StatePurger(store, journal, clock)

    async def begin(self, run_id: str, *, source: str = "web", **more: Any) -> RunFacts:
        facts: RunFacts = self._scribe.facts(run_id, **more)
        await self._journal.commit(self._scribe.first(facts, source=source))
        self._seqs[run_id] = 2
        return facts

    async def set(self, facts: RunFacts, key: str, scope: Any = "actor", *, counted: bool = False) -> int:
        """The version; `counted` as hosts wrote it before versions were ids."""
        self._seqs[facts.run_id] += 1
        data = {"scope": scope, "key": key, "value": f"of {facts.run_id}"}
        record = self._scribe.record(facts, "state.updated", data, self._seqs[facts.run_id])
        wanted = StateExpectation(
            record=0,
            otherwise=("state.refused", b"{}"),
            scope_key=scope_key(facts, scope),
            key=key,
            size=1,
            quota=10**6,
        )
        outcome = await self._journal.commit(Entry(records=[record], expects=[] if counted else [wanted]))
        assert isinstance(outcome, Committed)
        return outcome.judged[0].version if outcome.judged else 0

    async def end(self, facts: RunFacts) -> None:
        record = self._scribe.record(facts, "run.ended", {"status": "completed"}, self._seqs[facts.run_id] + 1)
        await self._journal.commit(Entry(records=[record]))

    async def purge(self, workspace: str = "default", *, dry_run: bool = False, **query: Any) -> Any:
        return await self.purger.purge(workspace, WriterQuery(**query), by="op", dry_run=dry_run)

    def kept(self, facts: RunFacts, scope: Any = "actor") -> dict[str, str]:
        rows: list[StateRow] = self.store.states(scope_key(facts, scope), "", 1000, 0)
        return {row.key: msgspec.json.decode(row.value) for row in rows}

    def records(self, kind: str) -> list[dict[str, Any]]:
        rows = self.store.records(0, 1000)
        return [msgspec.json.decode(row.data or b"") for row in rows if row.type == kind]

    def check_rebuild(self) -> None:
        before = self.store.dump_projections()
        rebuild(self.store)
        assert self.store.dump_projections() == before


@pytest.fixture
async def desk(store: Store, open_journal: Callable[..., Journal], clock: ManualClock, scribe: Any) -> Desk:
    return Desk(store, open_journal(store), clock, scribe)


ANN = {"actor_type": "user", "actor_id": "ann"}
EVE = {"actor_type": "user", "actor_id": "eve"}


@pytest.mark.parametrize(
    "query",
    [
        {"source": "guestbook"},
        {"run_id": "run_eve"},
        {"actor": Actor("user", "eve")},
        {"agent_id": "poet"},
        {"source": "guestbook", "actor": Actor("user", "eve"), "agent_id": "poet", "run_id": "run_eve"},
    ],
    ids="+".join,
)
async def test_a_purge_deletes_only_the_values_written_last_by_the_selected_run(
    desk: Desk, query: dict[str, Any]
) -> None:
    eve = await desk.begin("run_eve", source="guestbook", agent_id="poet", **EVE)
    ann = await desk.begin("run_ann", **ANN)
    for key in ("a", "b"):
        await desk.set(eve, key)
        await desk.set(ann, key)
    await desk.set(eve, "shared", "runner")
    await desk.end(eve)

    looked = await desk.purge(**query, dry_run=True)
    assert (looked.matched, looked.deleted, looked.unknown) == (3, 0, 0)
    assert {(each.value.scope, each.value.key, each.run_id) for each in looked.listed} == {
        ("actor", "a", "run_eve"),
        ("actor", "b", "run_eve"),
        ("runner", "shared", "run_eve"),
    }
    assert desk.records("state.deleted") == []

    told = await desk.purge(**query)
    assert (told.matched, told.deleted, told.kept, told.unknown) == (3, 3, 0, 0)
    assert desk.kept(eve) == desk.kept(eve, "runner") == {}
    assert desk.kept(ann) == {"a": "of run_ann", "b": "of run_ann"}
    assert {(each["by"], each["written_by"]) for each in desk.records("state.deleted")} == {("op", "run_eve")}
    desk.check_rebuild()
    assert (await desk.purge(**query)).matched == 0, "asked again, nothing is left"


async def test_a_purge_needs_every_selector_to_match(desk: Desk) -> None:
    eve = await desk.begin("run_eve", source="guestbook", **EVE)
    await desk.set(eve, "k")
    assert (await desk.purge(source="guestbook", actor=Actor("user", "ann"))).matched == 0
    assert (await desk.purge(actor=Actor("bot", "eve"))).matched == 0
    assert desk.kept(eve) == {"k": "of run_eve"}


async def test_overwritten_values_and_other_workspaces_survive_a_purge(desk: Desk) -> None:
    eve = await desk.begin("run_eve", source="guestbook", **EVE)
    ann = await desk.begin("run_ann", **ANN)
    foreign = await desk.begin("run_foreign", source="guestbook", workspace="other", **EVE)
    for facts in (eve, ann, foreign):
        await desk.set(facts, "shared", "conversation")
    assert (await desk.purge(source="guestbook")).matched == 0
    assert desk.kept(ann, "conversation") == {"shared": "of run_ann"}
    assert desk.kept(foreign, "conversation") == {"shared": "of run_foreign"}
    assert (await desk.purge("other", source="guestbook")).deleted == 1
    desk.check_rebuild()


async def test_a_value_overwritten_during_the_purge_stays(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    eve = await desk.begin("run_eve", source="guestbook", **EVE)
    ann = await desk.begin("run_ann", **ANN)
    await desk.set(eve, "a", "conversation")
    await desk.set(eve, "b", "conversation")
    delete = desk.purger._delete

    async def late(*given: Any) -> int:
        await desk.set(ann, "a", "conversation")
        return await delete(*given)

    monkeypatch.setattr(desk.purger, "_delete", late)
    told = await desk.purge(source="guestbook")
    assert (told.matched, told.deleted, told.kept) == (2, 1, 1)
    assert desk.kept(ann, "conversation") == {"a": "of run_ann"}
    assert [each["key"] for each in desk.records("state.refused")] == ["a"]
    desk.check_rebuild()


async def test_a_purge_of_a_run_covers_its_called_runs(desk: Desk) -> None:
    above = await desk.begin("run_above", source="guestbook", **EVE)
    below = await desk.begin("run_below", source="run:run_above", agent_id="poet", parent_run_id="run_above", **EVE)
    await desk.set(below, "k")
    await desk.end(below)
    await desk.end(above)
    for query in ({"source": "guestbook"}, {"run_id": "run_above"}, {"agent_id": "parrot"}):
        assert (await desk.purge(**query, dry_run=True)).matched == 1, query
    assert (await desk.purge(source="guestbook")).deleted == 1
    assert desk.kept(below) == {}


@pytest.mark.parametrize(("whose", "key"), [(ANN, "k"), (EVE, "other")], ids=["another's", "another key"])
async def test_a_counted_version_does_not_identify_its_writer(desk: Desk, whose: dict[str, str], key: str) -> None:
    eve = await desk.begin("run_eve", source="guestbook", **EVE)
    old = await desk.begin("run_old", **whose)
    version = await desk.set(eve, "k")
    for _ in range(version):  # counted up to the id of the record that wrote eve's value
        await desk.set(old, key, counted=True)
    told = await desk.purge(source="guestbook")
    assert (told.matched, told.deleted, told.unknown) == (1, 1, 1)
    assert desk.kept(old) == {key: "of run_old"}
    assert desk.records("state.deleted")[0]["key"] == "k"
    desk.check_rebuild()


async def test_many_values_are_purged_page_by_page(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_removal, "_PAGE", 7)
    eve = await desk.begin("run_eve", source="guestbook", **EVE)
    ann = await desk.begin("run_ann", **ANN)
    for number in range(40):
        await desk.set(eve if number % 4 else ann, f"k{number}")
    told = await desk.purge(source="guestbook")
    assert (told.matched, told.deleted) == (30, 30)
    assert (desk.kept(eve), len(desk.kept(ann))) == ({}, 10)


async def test_a_purge_lists_a_limited_number_of_values(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_removal, "PURGED_STATE_LISTED", 3)
    monkeypatch.setattr(state_removal, "_PAGE", 2)
    eve = await desk.begin("run_eve", **EVE)
    for number in range(5):
        await desk.set(eve, f"k{number}")
    looked = await desk.purge(run_id="run_eve", dry_run=True)
    assert (looked.matched, [each.value.key for each in looked.listed]) == (5, ["k0", "k1", "k2"])


def test_the_data_of_a_deletion_is_never_dropped_by_age() -> None:
    assert "state.deleted" in STANDING, "without it a rebuild would bring the value back"
