"""Bots over HTTP: saved, shown with their channels, and their default agents; agents that are disabled."""

from typing import Any

import pytest

EVENT = {"source": "forge", "type": "message.received", "text": "hello", "bot": "polly"}


@pytest.fixture
def shop_of_bots(shop: Any) -> Any:
    """A host without bots and channels, afterwards too."""
    yield shop
    for kind, key in (("bots", "bot_id"), ("channels", "channel_id")):
        for item in shop.get(f"/api/v1/{kind}").json["items"]:
            shop.delete(f"/api/v1/{kind}/{item[key]}")


def test_a_bot_is_shown_with_the_channels_that_speak_as_it(shop_of_bots: Any) -> None:
    api = shop_of_bots
    created = api.put("/api/v1/bots/polly", {"label": {"en_US": "Polly"}})
    assert (created.status, created.json["channels"]) == (201, [])
    api.put("/api/v1/channels/desk", {"bot": "polly"})
    assert api.get("/api/v1/bots/polly").json["channels"] == ["desk"]
    assert api.get("/api/v1/bots").json["items"][0]["bot_id"] == "polly"
    assert api.delete("/api/v1/bots/polly").json == {"bot_id": "polly", "deleted": True}
    assert api.get("/api/v1/bots/polly").error["details"]["reason"] == "no_bot"


def test_a_bot_with_an_unknown_agent_is_refused(shop_of_bots: Any) -> None:
    refused = shop_of_bots.put("/api/v1/bots/polly", {"agent_id": "nobody"})
    assert (refused.status, refused.error["details"]["reason"]) == (400, "bot_unknown_agent")
    assert shop_of_bots.get("/api/v1/bots").json["items"] == []


def test_an_event_that_no_binding_matches_goes_to_the_default_agent_of_its_bot(shop_of_bots: Any) -> None:
    api = shop_of_bots
    assert api.post("/api/v1/events", {**EVENT, "id": "bot-1"}).json["reason"]["code"] == "no_binding"
    api.put("/api/v1/bots/polly", {"agent_id": "parrot"})
    resolved = api.post("/api/v1/bindings/resolve", EVENT).json
    assert (resolved["agent"], resolved["binding"]) == ("parrot", "bot:polly")
    assert resolved["steps"][-1]["key"] == "bot_default"
    posted = api.post("/api/v1/events", {**EVENT, "id": "bot-2"}).json
    assert api.get(f"/api/v1/runs/{posted['run_id']}").json["agent_id"] == "parrot"
    api.put("/api/v1/bindings/other", {"agent_id": "parrot", "scope": {"bot": "polly"}})
    assert api.post("/api/v1/bindings/resolve", EVENT).json["binding"] == "other"
    api.delete("/api/v1/bindings/other")


def test_a_disabled_agent_refuses_events_and_keeps_them_with_the_reason(shop: Any) -> None:
    parrot = shop.get("/api/v1/agents/parrot").json
    assert parrot["enabled"] is True
    saved = shop.put("/api/v1/agents/parrot", {**parrot, "enabled": False})
    assert saved.json["enabled"] is False
    refused = shop.tell("parrot", "hello")
    assert (refused.status, refused.error["details"]["reason"]) == (403, "agent_disabled")
    posted = shop.post("/api/v1/events", {**EVENT, "id": "off-1", "agent": "parrot"}).json
    assert (posted["run_id"], posted["reason"]["code"]) == (None, "unauthorized")
    assert [item["enabled"] for item in shop.get("/api/v1/agents").json["items"] if item["agent_id"] == "parrot"] == [
        False
    ]
    shop.put("/api/v1/agents/parrot", {**saved.json, "enabled": True})
    assert shop.tell("parrot", "hello").status == 202
    shop.delete("/api/v1/agents/parrot")
