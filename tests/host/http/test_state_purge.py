"""`POST /api/v1/state/purge` of a real host: rights, refusals, and answers."""

import textwrap
from pathlib import Path
from typing import Any

import pytest
from tests.tables import for_each

from bollard.host.settings import Settings

PURGE = "/api/v1/state/purge"
KEEPER = """
    from bollard.sdk import RunContext, runner

    @runner(name="default", label="Keeper")
    async def keeper(ctx: RunContext):
        yield ctx.state("conversation", ctx.input.text, "kept")
        yield ctx.completed("kept")
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory, plugin: Path) -> Settings:
    repository: Path = tmp_path_factory.mktemp("plugins") / "keeper.py"
    repository.write_text(textwrap.dedent(KEEPER), encoding="utf-8")
    return Settings(
        data=tmp_path_factory.mktemp("data"), plugins=(plugin, repository), builtin_plugins=False, port=0, grace_s=0.5
    )


def kept(api: Any, key: str) -> str:
    """A run that has kept a value."""
    api.until_health(lambda health: health["plugins"]["keeper"]["status"] == "ready")
    run_id: str = api.tell("keeper", key, conversation=f"room of {key}").json["run_id"]
    assert api.read(run_id)[-1].type == "run.ended"
    return run_id


def test_a_purge_names_its_matches_and_its_repeat_gets_the_first_answer(api: Any) -> None:
    run_id = kept(api, "a")
    kept(api, "b")
    item = {"scope": "conversation", "key": "a", "run_id": run_id}
    looked = api.post(PURGE, {"run_id": run_id, "dry_run": True})
    expected = {"dry_run": True, "matched": 1, "deleted": 0, "kept": 0, "unknown": 0, "items": [item]}
    assert (looked.status, looked.json) == (200, expected)
    first = api.post(PURGE, {"run_id": run_id}, idempotency_key="once")
    assert first.json == {**expected, "dry_run": False, "deleted": 1}
    again = api.post(PURGE, {"run_id": run_id}, idempotency_key="once")
    assert (again.json, again.headers["idempotency-replayed"]) == (first.json, "true")
    assert api.post(PURGE, {"run_id": run_id}).json["matched"] == 0
    (said,) = api.get("/api/v1/audit?type=state.deleted").json["items"]
    assert (said["subject"], said["actor"]) == ("a", "admin-token")
    assert api.post(PURGE, {"agent_id": "keeper", "source": "api"}).json["deleted"] == 1


@for_each(
    ("body", "field"),
    [
        ({}, "body"),
        ({"dry_run": True}, "body"),
        ({"source": None}, "body"),
        ({"source": ""}, "source"),
        ({"actor": {"type": "user"}}, "actor.id"),
        ({"everything": True}, "everything"),
    ],
    ids=str,
)
def test_a_purge_without_a_selection_is_refused(api: Any, body: dict[str, Any], field: str) -> None:
    answer = api.post(PURGE, body)
    assert (answer.status, answer.error["code"]) == (400, "invalid_argument")
    assert answer.error["details"]["field"] == field


def test_a_purge_needs_the_right_of_operators(api: Any) -> None:
    for rights, status in ((["audit.read", "artifacts.write"], 403), (["state.write"], 200)):
        token = api.post("/api/v1/keys", {"name": "k", "rights": rights}).json["token"]
        assert api.post(PURGE, {"source": "web"}, token=token).status == status
