"""ETags of resources: `If-Match`, `If-None-Match`, and the revision in the body."""

from typing import Any

import pytest

BODY = {"runner_id": "plugin:local/parrot/default"}
THINGS = [
    ("/api/v1/agents/{}", BODY, {"idle_s": 7.0}),
    ("/api/v1/bindings/{}", {"agent_id": "parrot", "scope": {"conversation": "edited"}}, {"priority": 3}),
]
"""A path, a body, and a change of it."""


@pytest.fixture(params=THINGS, ids=["agent", "binding"])
def thing(request: pytest.FixtureRequest, api: Any) -> Any:
    path, body, change = request.param
    path = path.format("edited")
    api.delete(path)
    yield path, dict(body), change
    api.delete(path)


def make(api: Any, thing: Any) -> Any:
    path, body, _ = thing
    answer = api.put(path, body)
    assert answer.status == 201, answer.body
    return answer


def test_the_etag_is_the_revision_everywhere(api: Any, thing: Any) -> None:
    path, body, change = thing
    assert make(api, thing).headers["etag"] == '"1"'
    assert api.get(path).headers["etag"] == '"1"'
    changed = api.put(path, {**body, **change})
    assert (changed.status, changed.headers["etag"], changed.json["revision"]) == (200, '"2"', 2)


def test_a_reader_with_the_current_etag_gets_304(api: Any, thing: Any) -> None:
    path, *_ = thing
    make(api, thing)
    for known in ('"1"', '"7", "1"', ' "1" '):
        answer = api.get(path, if_none_match=known)
        assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", '"1"')
    for other in ('"2"', "1", ""):
        assert api.get(path, if_none_match=other).status == 200


def test_an_edit_of_the_newest_revision_may_be_saved(api: Any, thing: Any) -> None:
    path, body, change = thing
    make(api, thing)
    assert api.put(path, {**body, **change}, if_match='"1"').json["revision"] == 2
    late = api.put(path, body, if_match='"1"')
    assert (late.status, late.error["code"], late.error["details"]["revision"]) == (412, "precondition_failed", 2)
    assert late.error["hint"]
    assert api.get(path).json["revision"] == 2
    assert api.put(path, body, if_match='"1", "2"').json["revision"] == 3
    assert api.put(path, body, if_match="*").json["revision"] == 4


@pytest.mark.parametrize("tag", ['W/"1"', "1", '"0"', '"x"', "", '"1'])
def test_an_outdated_etag_matches_nothing(api: Any, thing: Any, tag: str) -> None:
    path, body, _ = thing
    make(api, thing)
    answer = api.put(path, body, if_match=tag)
    assert (answer.status, answer.error["code"]) == (412, "precondition_failed")
    assert api.delete(path, if_match=tag).status == 412
    assert api.get(path).json["revision"] == 1


def test_if_none_match_with_a_star_creates_only(api: Any, thing: Any) -> None:
    path, body, _ = thing
    assert api.put(path, body, if_match="*").status == 412
    assert api.put(path, body, if_none_match="*").status == 201
    again = api.put(path, body, if_none_match="*")
    assert (again.status, again.error["code"]) == (412, "precondition_failed")
    odd = api.put(path, body, if_none_match='"1"')
    assert (odd.status, odd.error["code"]) == (400, "invalid_argument")


def test_the_header_and_the_body_revision_must_agree(api: Any, thing: Any) -> None:
    path, body, _ = thing
    make(api, thing)
    differs = api.put(path, {**body, "revision": 7}, if_match='"1"')
    assert (differs.status, differs.error["details"]["field"]) == (400, "revision")
    late = api.put(path, {**body, "revision": 7})
    assert (late.status, late.error["code"]) == (409, "conflict")
    assert api.put(path, {**body, "revision": 1}, if_match='"1"').status == 200


def test_a_delete_checks_the_etag_too(api: Any, thing: Any) -> None:
    path, body, change = thing
    make(api, thing)
    api.put(path, {**body, **change})
    assert api.delete(path, if_match='"1"').status == 412
    assert api.delete(f"{path}?revision=1").status == 409
    assert api.delete(path, if_match='"2"').status == 200
    assert api.get(path).status == 404


def test_an_unsaved_agent_has_no_cacheable_etag(api: Any) -> None:
    own = api.get("/api/v1/agents/parrot")
    assert own.headers["etag"] == '"0"'
    assert api.get("/api/v1/agents/parrot", if_none_match='"0"').status == 200
