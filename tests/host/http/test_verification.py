"""The log of a running host is verified in the background, and the result stays visible."""

from typing import Any

VERIFICATION = "/api/v1/audit/verification"


def test_a_log_is_verified_in_the_background(api: Any) -> None:
    assert api.get(VERIFICATION).json["state"] == "never"
    api.ended(api.say("hello"))
    begun = api.post(VERIFICATION)
    assert (begun.status, begun.json["state"]) == (202, "running")
    found = api.until(VERIFICATION, lambda shown: shown["state"] != "running")
    assert (found["state"], found["failure"], found["problems"]) == ("verified", "", [])
    assert found["done"] == found["total"] > 0
    assert found["started_at"] <= found["ended_at"]


def test_only_operators_of_the_host_start_a_verification(api: Any, client_of: Any) -> None:
    token = api.post("/api/v1/keys", {"name": "auditor", "rights": ["audit.read"]}).json["token"]
    auditor = client_of(api.port, token)
    assert auditor.get(VERIFICATION).status == 200
    assert auditor.post(VERIFICATION).status == 403
