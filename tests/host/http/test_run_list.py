"""The list of runs for people: where each run came from, filters, and a bounded search."""

from typing import Any
from urllib.parse import quote

import pytest

from bollard.host.clock import SystemClock
from bollard.host.settings import Settings
from bollard.host.store.queries import InputFilter, RunQuery
from bollard.host.store.selection import choose_store


def ids(api: Any, query: str) -> list[str]:
    answer = api.get(f"/api/v1/runs?{query}")
    assert answer.status == 200, answer.body
    return [run["run_id"] for run in answer.json["items"]]


@pytest.fixture(scope="module")
def runs(api: Any) -> dict[str, str]:
    """Runs of two actors and two sources."""
    made = {
        "ann": api.say("Summarise the report\nfor the board", actor={"id": "ann", "name": "Ann"}),
        "bob": api.say("Percent 100% done", actor={"id": "bob"}),
    }
    posted = api.post("/api/v1/events", {"source": "forge", "id": "1", "type": "build.failed", "text": "the REPORT"})
    if posted.json["run_id"] is not None:
        made["forge"] = posted.json["run_id"]
    for run_id in made.values():
        api.ended(run_id)
    return made


def test_a_run_shows_its_first_line_its_source_and_its_actor(api: Any, runs: dict[str, str]) -> None:
    listed = next(run for run in api.get("/api/v1/runs").json["items"] if run["run_id"] == runs["ann"])
    assert (listed["input"], listed["source"]) == ("Summarise the report", "api")
    assert (listed["actor"]["actor_id"], listed["actor"]["actor_name"]) == ("ann", "Ann")
    shown = api.get(f"/api/v1/runs/{runs['ann']}").json
    assert {name: shown[name] for name in ("input", "source", "actor")} == {
        name: listed[name] for name in ("input", "source", "actor")
    }


def test_runs_are_found_by_actor_source_and_text(api: Any, runs: dict[str, str]) -> None:
    assert ids(api, "actor=bob") == [runs["bob"]]
    assert ids(api, "actor=ann&source=api") == [runs["ann"]]
    assert ids(api, "source=nowhere") == []
    assert ids(api, "text=SUMMARISE") == [runs["ann"]]
    assert ids(api, f"text={quote('100%')}") == [runs["bob"]]
    assert ids(api, f"text={quote('_')}") == []
    assert ids(api, "actor=ann&status=failed") == []


def test_runs_are_found_by_time(api: Any, runs: dict[str, str]) -> None:
    at = int(api.get(f"/api/v1/runs/{runs['ann']}").json["created_at"])
    assert runs["ann"] in ids(api, f"since={at}")
    assert runs["ann"] not in ids(api, f"until={at}")
    assert ids(api, f"since={at + 3600}") == []


def test_a_wrong_time_or_an_empty_text_is_refused(api: Any) -> None:
    for query in ("since=yesterday", "until=-1", "text=", f"text={'x' * 201}"):
        answer = api.get(f"/api/v1/runs?{query}")
        assert (answer.status, answer.error["code"]) == (400, "invalid_argument"), query


def test_a_search_stops_at_its_limit_and_says_where(api: Any, settings: Settings, runs: dict[str, str]) -> None:
    store = choose_store(settings.database, settings.data, SystemClock())
    store.open()
    try:
        found, before, pages = [], None, 0
        while True:
            query = RunQuery(workspace="default", limit=10, before=before)
            page = store.listed_runs(query, InputFilter(actor_id="ann"), 1)
            found += [row.run.run_id for row in page.rows]
            pages += 1
            if page.searched_to is None:
                break
            before = page.searched_to
        assert found == [runs["ann"]]
        assert pages > len(runs)
    finally:
        store.close()
