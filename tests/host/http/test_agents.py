"""Agents over HTTP: listed, saved, shown without their secrets, deleted, and there again after a restart."""

from pathlib import Path
from typing import Any

from tests.replacement import replace
from tests.tables import for_each

from bollard.host.agents.config_form import KEPT
from bollard.host.settings import Settings

LOCKED = "plugin:local/workshop/locked"
PLACED = "plugin:local/workshop/placed"
WORKSHOP_RUNNERS = (
    "steady",
    "hasty",
    "reader",
    "storer",
    "carrier",
    "courier",
    "bard",
    "caller",
    "locked",
    "twofold",
    "placed",
)


def test_every_runner_is_listed_with_its_requests(shop: Any) -> None:
    runners = {item["runner_id"]: item for item in shop.get("/api/v1/runners").json["items"]}
    assert set(runners) == {
        "plugin:local/parrot/default",
        *(f"plugin:local/workshop/{name}" for name in WORKSHOP_RUNNERS),
    }
    steady = runners["plugin:local/workshop/steady"]
    assert steady["capabilities"]["steering"] is True
    assert steady["permissions"] == {"history": ["page"]}
    assert steady["plugin"] == "local/workshop"
    assert [item["name"] for item in runners[LOCKED]["config_schema"]] == ["greeting", "key"]


def test_a_display_row_shows_values_of_the_host(shop: Any) -> None:
    runners = {item["runner_id"]: item for item in shop.get("/api/v1/runners").json["items"]}
    region, callback = runners[PLACED]["config_schema"]
    assert (region["default"], region["locked"]) == ("eu", {"en_US": "Agreed."})
    assert callback["type"] == "display"
    assert callback["default"] == f"http://127.0.0.1:{shop.port}/hooks/default/{{unknown}}"


def test_a_locked_field_refuses_another_value_and_runs_with_its_own(shop: Any) -> None:
    refused = shop.put("/api/v1/agents/roamer", {"runner_id": PLACED, "config": {"region": "us", "callback": "x"}})
    assert (refused.status, refused.error["code"], refused.error["details"]["reason"]) == (
        400,
        "invalid_argument",
        "invalid_config",
    )
    problems = {each["field"]: each for each in refused.error["details"]["problems"]}
    assert problems["config.region"]["problem_type"] == "locked"
    assert problems["config.region"]["locked"] == {"en_US": "Agreed."}
    assert problems["config.callback"]["problem_type"] == "display_only"
    saved = shop.put("/api/v1/agents/roamer", {"runner_id": PLACED})
    assert (saved.status, saved.json["config"]) == (201, {"region": "eu"})
    run_id = shop.tell("roamer", "where?").json["run_id"]
    [said] = [each.data["data"] for each in shop.read(run_id) if each.type == "message.completed"]
    assert "eu" in str(said)


def test_an_agent_is_saved_run_changed_and_deleted(shop: Any) -> None:
    created = shop.put("/api/v1/agents/polly", {"runner_id": "plugin:local/parrot/default", "deadline_s": 60})
    assert (created.status, created.json["revision"]) == (201, 1)
    assert created.json["policy"]["concurrency"]["mode"] == "queue"
    run_id = shop.tell("polly", "hello").json["run_id"]
    assert shop.read(run_id)[-1].data["data"]["status"] == "completed"
    shown = shop.get("/api/v1/agents/polly").json
    assert shown == created.json
    changed = shop.put("/api/v1/agents/polly", {**shown, "deadline_s": 30})
    assert (changed.status, changed.json["revision"], changed.json["deadline_s"]) == (200, 2, 30)
    listed = {item["agent_id"]: item for item in shop.get("/api/v1/agents").json["items"]}
    assert (listed["polly"]["deadline_s"], listed["polly"]["available"], listed["parrot"]["revision"]) == (30, True, 0)
    assert shop.delete("/api/v1/agents/polly?revision=1").status == 409
    assert shop.delete("/api/v1/agents/polly?revision=2").json == {"agent_id": "polly", "deleted": True}
    assert shop.get("/api/v1/agents/polly").status == 404
    assert shop.tell("polly", "hello").status == 404


def test_a_change_of_an_old_revision_is_refused_and_names_the_newest(shop: Any) -> None:
    first = shop.save_agent("edited")
    shop.save_agent("edited")
    answer = shop.put("/api/v1/agents/edited", first)
    assert (answer.status, answer.error["details"]["revision"]) == (409, 2)
    assert answer.error["hint"]


def test_a_secret_is_in_no_response_and_a_saved_mask_keeps_it(shop: Any) -> None:
    saved = shop.put("/api/v1/agents/vault", {"runner_id": LOCKED, "config": {"key": "s3cret-word"}})
    assert saved.json["config"] == {"greeting": "hello", "key": KEPT}
    again = shop.put("/api/v1/agents/vault", {**saved.json, "config": {"greeting": "good day", "key": KEPT}})
    assert (again.status, again.json["revision"]) == (200, 2)
    answers = [saved, again, shop.get("/api/v1/agents/vault"), shop.get("/api/v1/agents")]
    wrong = shop.put("/api/v1/agents/vault", {"runner_id": LOCKED, "config": {"key": "s3cret-word", "other": 1}})
    assert wrong.status == 400
    assert all(b"s3cret-word" not in answer.body for answer in [*answers, wrong])
    run_id = shop.tell("vault", "open").json["run_id"]
    message = next(event for event in shop.read(run_id) if event.type == "message.completed")
    assert message.data["data"]["message"]["content"] == f"good day {len('s3cret-word')}"


def test_a_secret_does_not_move_with_an_agent_to_another_runner(shop: Any) -> None:
    shop.put("/api/v1/agents/moved", {"runner_id": LOCKED, "config": {"key": "first"}})
    away = shop.put("/api/v1/agents/moved", {"runner_id": "plugin:local/parrot/default"})
    assert away.status == 200
    back = shop.put("/api/v1/agents/moved", {"runner_id": LOCKED, "config": {"key": KEPT}})
    assert (back.status, back.error["code"]) == (400, "invalid_argument")


@for_each(
    ("body", "field"),
    [
        ({}, "agent.runner_id"),
        ({"runner_id": 3}, "agent.runner_id"),
        ({"runner_id": "plugin:local/nobody/default"}, "agent.runner_id"),
        ({"runner_id": LOCKED, "agent_id": "other"}, "agent_id"),
        ({"runner_id": LOCKED, "agent_id": 7}, "agent_id"),
        ({"runner_id": LOCKED, "colour": "red"}, "agent.colour"),
        ({"runner_id": LOCKED, "deadline_s": 0}, "agent.deadline_s"),
        ({"runner_id": LOCKED, "revision": -1}, "agent.revision"),
        ({"runner_id": LOCKED, "config": {"nothing": 1}}, "config.nothing"),
        ({"runner_id": LOCKED, "config": {"key": KEPT}}, "config.key"),
        ({"runner_id": LOCKED, "policy": {"concurrency": {"mode": "sometimes"}}}, "policy.concurrency.mode"),
        ({"runner_id": LOCKED, "policy": {"gate": {"talk": "listed", "actors": ["ada"]}}}, "policy.gate.actors.0"),
    ],
)
def test_an_invalid_agent_is_refused_by_its_field(shop: Any, body: Any, field: str) -> None:
    answer = shop.put("/api/v1/agents/wrong", body)
    assert (answer.status, answer.error["code"]) == (400, "invalid_argument"), answer.body
    assert answer.error["details"]["field"] == field
    assert answer.error["hint"]
    assert shop.get("/api/v1/agents/wrong").status == 404


@for_each("agent_id", ["Upper", "a b", "direct:parrot", "x" * 65, "%C3%A9", "-a"])
def test_an_invalid_agent_id_is_refused(shop: Any, agent_id: str) -> None:
    answer = shop.put(f"/api/v1/agents/{agent_id.replace(' ', '%20')}", {"runner_id": LOCKED})
    assert (answer.status, answer.error["details"]["field"]) == (400, "agent.agent_id")


def test_the_own_agent_of_a_runner_can_be_overridden_but_not_deleted(shop: Any) -> None:
    own = shop.delete("/api/v1/agents/parrot")
    assert (own.status, own.error["code"]) == (409, "conflict")
    shop.save_agent("workshop.reader", "workshop/reader", gate={"talk": "listed"})
    assert shop.tell("workshop.reader", "hello").status == 403
    assert shop.delete("/api/v1/agents/workshop.reader").status == 200
    run_id = shop.tell("workshop.reader", "hello").json["run_id"]
    assert shop.read(run_id)[-1].type == "run.ended"
    absent = shop.delete("/api/v1/agents/nobody")
    assert (absent.status, absent.error["code"]) == (404, "not_found")
    wrong = shop.delete("/api/v1/agents/parrot?revision=x")
    assert (wrong.status, wrong.error["details"]["field"]) == (400, "revision")


def test_saved_agents_and_bindings_survive_a_restart_also_without_their_runner(
    tmp_path: Path, plugin: Path, workshop: Path, start_host: Any, client_of: Any
) -> None:
    settings = Settings(data=tmp_path, plugins=(plugin, workshop), builtin_plugins=False, port=0, grace_s=0.5)
    first = start_host(settings)
    api = client_of(first.port, first.token)
    api.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    saved = api.save_agent("vault", "workshop/locked", {"greeting": "hi", "key": "s3cret"}, budget={"runs_per_day": 2})
    bound = api.put("/api/v1/bindings/all", {"agent_id": "vault"}).json
    gone = api.save_agent("gone")
    api.delete(f"/api/v1/agents/gone?revision={gone['revision']}")
    told = [api.tell("vault", "open") for _ in range(3)]
    assert [answer.status for answer in told] == [202, 202, 429]
    first.stop()

    second = start_host(settings)
    again = client_of(second.port, api.token)
    again.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    assert again.get("/api/v1/agents/vault").json == saved
    assert again.get("/api/v1/bindings/all").json == bound
    assert again.get("/api/v1/agents/gone").status == 404
    assert again.tell("vault", "open").error["code"] == "budget_exceeded"  # the day's runs are counted again
    changed = again.put("/api/v1/agents/vault", {**saved, "policy": {}})
    assert (changed.status, changed.json["revision"], changed.json["config"]["key"]) == (200, 2, KEPT)
    second.stop()

    third = start_host(replace(settings, plugins=(plugin,)))
    alone = client_of(third.port, api.token)
    alone.until_health(lambda health: health["plugins"]["parrot"]["status"] == "ready")
    listed = {item["agent_id"]: item["available"] for item in alone.get("/api/v1/agents").json["items"]}
    assert listed == {"parrot": True, "vault": False}
    assert alone.get("/api/v1/agents/vault").json["config"] == {"greeting": KEPT, "key": KEPT}
    assert alone.tell("vault", "open").status == 404
    third.stop()
