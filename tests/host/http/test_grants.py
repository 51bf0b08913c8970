"""The rights of a run over HTTP: its grant, the reasons, and revocations while it runs."""

import hashlib
from typing import Any

import pytest

from bollard.trust import canonical_json


@pytest.fixture
def reading(shop: Any) -> Any:
    """A run that reads its history again and again until it may not, and its stream."""
    run_id = shop.tell("workshop.reader", "read", conversation="grants").json["run_id"]
    stream = shop.stream(run_id)
    stream.until("message.delta")
    yield run_id, stream
    shop.post(f"/api/v1/runs/{run_id}/cancel")
    stream.close()
    shop.read(run_id)


@pytest.mark.requirement("P03-07")
def test_a_grant_is_shown_with_its_digest_during_and_after_its_run(shop: Any, reading: Any) -> None:
    run_id, _ = reading
    live = shop.get(f"/api/v1/runs/{run_id}/grant").json
    assert live["grant"]["run_id"] == run_id
    assert live["grant"]["access"]["operations"]["history"] == ["page"]
    assert live["revoked"] == {}
    digest = shop.get(f"/api/v1/runs/{run_id}").json["grant_sha256"]
    assert live["grant_sha256"] == digest == hashlib.sha256(canonical_json(live["grant"])).hexdigest()
    revoked = shop.post(f"/api/v1/runs/{run_id}/revoke", {"operations": ["history.page"]}).json["revoked"]
    shop.read(run_id)
    assert shop.get(f"/api/v1/runs/{run_id}/grant").json == {**live, "revoked": revoked}


def test_an_explanation_names_the_deciding_layer_in_either_language(shop: Any, reading: Any) -> None:
    path = f"/api/v1/runs/{reading[0]}/explain"
    (page,) = shop.get(f"{path}?action=history.page").json["items"]
    assert (page["allowed"], "code" in page, "thing" in page) == (True, False, False)
    assert [reason["layer"] for reason in page["reasons"]] == ["manifest", "policy", "scope", "revocation"]
    (search,) = shop.get(f"{path}?action=history.search").json["items"]
    assert (search["allowed"], search["code"]) == (False, "capability_denied")
    assert search["reasons"] == [
        {"layer": "manifest", "text": "The runner's manifest does not ask for history.search."}
    ]
    (chinese,) = shop.get(f"{path}?action=models.invoke&thing=m1&locale=zh_Hans").json["items"]
    assert (chinese["thing"], chinese["code"]) == ("m1", "unauthorized")
    assert "清单" in chinese["reasons"][0]["text"]
    everything = shop.get(path).json["items"]
    assert {"history.page", "models.invoke", "state.set", "host.info"} <= {item["action"] for item in everything}
    (unknown,) = shop.get(f"{path}?action=no.such").json["items"]
    assert unknown["allowed"] is False


@pytest.mark.parametrize(("query", "field"), [("thing=x", "action"), ("locale=de_DE", "locale")])
def test_an_invalid_explain_request_is_refused(shop: Any, reading: Any, query: str, field: str) -> None:
    answer = shop.get(f"/api/v1/runs/{reading[0]}/explain?{query}")
    assert (answer.status, answer.error["details"]["field"]) == (400, field)
    assert answer.error["hint"]


@pytest.mark.requirement("P03-05", "P07-08")
def test_the_next_call_after_a_revocation_is_refused(shop: Any, reading: Any) -> None:
    run_id, stream = reading
    answer = shop.post(f"/api/v1/runs/{run_id}/revoke", {"operations": ["history.page"]})
    assert (answer.status, answer.json) == (200, {"run_id": run_id, "revoked": {"operations": ["history.page"]}})
    message = stream.until("message.completed")
    assert message.data["data"]["message"]["content"] == "revoked"
    record = next(event for event in stream.seen if event.type == "grant.revoked")
    assert record.data["data"] == {"operations": ["history.page"], "by": "admin-token"}
    (explained,) = shop.get(f"/api/v1/runs/{run_id}/explain?action=history.page").json["items"]
    assert (explained["code"], explained["reasons"][0]["layer"]) == ("revoked", "revocation")


@pytest.mark.requirement("P03-02", "P03-04")
def test_a_changed_policy_applies_to_the_next_run(shop: Any) -> None:
    def reads(conversation: str, **permissions: list[str]) -> str:
        shop.save_agent("edited-reader", "workshop/reader", access={"permissions": permissions})
        return shop.tell("edited-reader", "read", conversation=conversation).json["run_id"]

    def grant(run_id: str) -> Any:
        return shop.get(f"/api/v1/runs/{run_id}/grant").json

    first = reads("before", history=["page"])
    shop.until(f"/api/v1/runs/{first}", lambda run: run["status"] == "running")
    before = grant(first)
    wider = reads("wider", history=["page"], events=["get"])
    narrower = reads("narrower")
    refused = next(event for event in shop.read(narrower) if event.type == "message.completed")

    assert grant(wider)["grant"]["access"]["operations"] == {"history": ["page"], "events": ["get"]}
    assert (grant(narrower)["grant"]["access"]["operations"], refused.data["data"]["message"]["content"]) == (
        {},
        "unauthorized",
    )
    assert grant(first) == before
    for action, allowed in (("history.page", True), ("events.get", False)):
        (explained,) = shop.get(f"/api/v1/runs/{first}/explain?action={action}").json["items"]
        assert explained["allowed"] is allowed
    for run_id in (first, wider):
        shop.until(f"/api/v1/runs/{run_id}", lambda run: run["status"] == "running")  # it still reads
        shop.post(f"/api/v1/runs/{run_id}/cancel")
        assert shop.ended(run_id)["status"] == "cancelled"


def test_revoking_everything_stops_the_run(shop: Any, reading: Any) -> None:
    run_id, _ = reading
    assert shop.post(f"/api/v1/runs/{run_id}/revoke", {"everything": True}).json["revoked"] == {"all": True}
    run = shop.ended(run_id)
    assert (run["status"], run["status_reason"]) == ("cancelled", "revoked")
    late = shop.post(f"/api/v1/runs/{run_id}/revoke", {"everything": True})
    assert (late.status, late.error["code"], late.error["details"]["status"]) == (409, "conflict", "cancelled")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, None),
        ({"operations": []}, None),
        ({"operations": ["models.invoke"]}, "operations"),
        ({"operations": "history.page"}, "operations"),
        ({"resources": {"models": ["m1"]}}, "resources.models"),
        ({"resources": {"nothing": ["x"]}}, "resources.nothing"),
        ({"everything": 1}, "everything"),
        ({"all": True}, "all"),
    ],
)
def test_revoking_an_ungranted_right_is_refused(shop: Any, reading: Any, body: Any, field: str | None) -> None:
    answer = shop.post(f"/api/v1/runs/{reading[0]}/revoke", body)
    assert (answer.status, answer.error["code"]) == (400, "invalid_argument")
    assert answer.error["details"].get("field") == field
    assert shop.get(f"/api/v1/runs/{reading[0]}/grant").json["revoked"] == {}
