"""Secrets over HTTP: set and never shown, given to a run by name, and found in no other place. The canaries are planted
by a plugin that repeats everything it gets, on every way out that it has (F43)."""

import base64
import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from tests.tables import for_each

from bollard.host.settings import Settings

KEPT = "__kept__"
LEAKY = "plugin:local/leaky/default"
VALUES = [f'cnry{number}"x/y+{number}&é-{"abcdefghij"[number] * 3}wZ{number}q' for number in range(10)]
PLUGIN = """
    import base64, json, sys
    from typing import Annotated
    from urllib.parse import quote

    from pydantic import BaseModel
    from bollard.sdk import Form, RunContext, runner

    Secret = Annotated[str, Form(type="secret")]

    class Keys(BaseModel):
        key0: Secret = ""
        key1: Secret = ""
        key2: Secret = ""
        key3: Secret = ""
        key4: Secret = ""
        key5: Secret = ""
        key6: Secret = ""
        key7: Secret = ""
        key8: Secret = ""
        key9: Secret = ""

    def forms(value):
        content = value.encode()
        return [
            value,
            base64.b64encode(b"in " + content + b" out").decode(),
            content.hex(),
            quote(value, safe=""),
            json.dumps(value)[1:-1],
        ]

    @runner(
        name="default", label="Leaky",
        permissions={"artifacts": ["write"]},
    )
    async def leaky(ctx: RunContext[Keys]):
        everything = [form for value in ctx.config.model_dump().values() for form in forms(value)]
        told = "\\n".join(everything)
        match ctx.input.text:
            case "deltas":
                for at in range(0, len(told), 7):
                    yield ctx.delta(told[at:at + 7], message_id="m1")
            case "message":
                yield ctx.completed({"role": "assistant", "content": told})
            case "nothing":
                yield ctx.completed(str(len(ctx.config.key0)))
            case "tools":
                yield ctx.tool_started("c1", told[:100], {"all": everything})
                yield ctx.tool_completed("c1", "t", {told: everything})
            case "artifact":
                for form in everything:
                    if "\\n" not in form:  # a name is one line
                        yield ctx.artifact("file", content=b"plain", name=form[:250], metadata={"all": everything})
                yield ctx.artifact("file", content=told.encode(), name="inside")
            case "state":
                yield ctx.state("runner", "leak", everything)
                await ctx.api.state.set("runner", "leak2", {"all": everything})
            case "raise":
                raise RuntimeError(told)
            case "fail":
                yield ctx.fail(told)
            case "log":
                print(told)
                print(told, file=sys.stderr)
                ctx.log(told, all=told)
"""


def forms(value: str) -> list[str]:
    content = value.encode()
    inside = base64.b64encode(b"in " + content + b" out").decode()
    start = inside.index(base64.b64encode(content).decode()[:8])  # three bytes before it: it begins a new group
    return [
        value,
        inside[start : start + len(content) * 4 // 3 - 1],
        content.hex(),
        quote(value, safe=""),
        json.dumps(value)[1:-1],
    ]


CANARIES = [form for value in VALUES for form in forms(value)]


def found_in(content: bytes) -> list[str]:
    """The canaries in it, also where JSON has them once more."""
    return [
        canary
        for canary in CANARIES
        if canary.encode() in content
        or json.dumps(canary)[1:-1].encode() in content
        or json.dumps(canary, ensure_ascii=False)[1:-1].encode() in content
    ]


@pytest.fixture(scope="module")
def leaky(settings: Settings, start_module_host: Any, tmp_path_factory: Any, client_of: Any) -> Iterator[Any]:
    """A host whose agent `leaky` was given ten secrets: five by name, five by value."""
    path = tmp_path_factory.mktemp("plugins") / "leaky.py"
    path.write_text(textwrap.dedent(PLUGIN), encoding="utf-8")
    host = start_module_host(
        Settings(data=settings.data, database=settings.database, plugins=(path,), builtin_plugins=False, grace_s=0.5)
    )
    client = client_of(host.port, host.token)
    client.until_health(lambda health: health["plugins"]["leaky"]["status"] == "ready")
    for number in range(5):
        assert client.put(f"/api/v1/secrets/KEY_{number}", {"value": VALUES[number]}).status == 201
    config = {f"key{number}": f"secret:KEY_{number}" if number < 5 else VALUES[number] for number in range(10)}
    body = {
        "runner_id": LEAKY,
        "config": config,
        "policy": {"access": {"permissions": {"artifacts": ["write"]}}, "state": {"scopes": ["runner"]}},
    }
    saved = client.put("/api/v1/agents/leaky", body)
    assert saved.status == 201, saved.body
    client.settings = settings
    return client


def stored(settings: Settings) -> Iterator[tuple[str, bytes]]:
    """Everything that is on disk, and every row of the database."""
    for file in Path(settings.data).rglob("*"):
        if file.is_file():
            yield str(file), file.read_bytes()
    if settings.database:
        with psycopg.connect(settings.database) as connection:
            tables = connection.execute(
                "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
            ).fetchall()
            for (table,) in tables:
                for row in connection.execute(f"SELECT * FROM {table}"):
                    yield (
                        table,
                        b"\0".join(
                            cell if isinstance(cell, bytes) else str(cell).encode() for cell in row if cell is not None
                        ),
                    )


def test_a_secret_is_write_only_and_shows_its_name_and_dates(leaky: Any) -> None:
    made = leaky.put("/api/v1/secrets/API.key-1", {"value": "a long value of mine"})
    assert (made.status, made.json["revision"], made.json["masked"]) == (201, 1, True)
    shown = leaky.get("/api/v1/secrets/API.key-1")
    assert set(shown.json) == {"secret_name", "created_at", "set_at", "set_by", "readable", "revision"}
    again = leaky.put("/api/v1/secrets/API.key-1", {"value": "short"}, if_match='"1"')
    assert (again.status, again.json["revision"], again.json["masked"]) == (200, 2, False)
    assert leaky.put("/api/v1/secrets/API.key-1", {"value": "other"}, if_match='"1"').status == 412
    assert "API.key-1" in [each["secret_name"] for each in leaky.get("/api/v1/secrets").json["items"]]
    assert all(b"a long value" not in answer.body for answer in (made, shown, again, leaky.get("/api/v1/secrets")))
    assert leaky.delete("/api/v1/secrets/API.key-1").json == {"secret_name": "API.key-1", "deleted": True}
    assert leaky.get("/api/v1/secrets/API.key-1").status == 404


@for_each(
    ("name", "value"), [("a b", "value"), ("-x", "value"), ("x" * 65, "value"), ("good", ""), ("good", "x" * 8193)]
)
def test_an_invalid_secret_is_refused_with_a_hint(leaky: Any, name: str, value: str) -> None:
    answer = leaky.put(f"/api/v1/secrets/{quote(name)}", {"value": value})
    assert (answer.status, answer.error["code"]) == (400, "invalid_argument")
    assert answer.error["hint"]


def test_a_configuration_shows_a_chosen_name_and_hides_a_value(leaky: Any) -> None:
    shown = leaky.get("/api/v1/agents/leaky").json["config"]
    assert (shown["key0"], shown["key9"]) == ("secret:KEY_0", KEPT)
    again = leaky.put("/api/v1/agents/leaky", leaky.get("/api/v1/agents/leaky").json)
    assert again.status == 200, again.body
    names = [each["secret_name"] for each in leaky.get("/api/v1/secrets").json["items"]]
    assert [name for name in names if "/" in name] == [f"agent/leaky/key{number}" for number in range(5, 10)]


@pytest.mark.parametrize("given", ["secret:NOBODY", "secret:agent/leaky/key9", "secret:", "secret:a b"])
def test_an_unknown_or_foreign_secret_name_is_refused(leaky: Any, given: str) -> None:
    answer = leaky.put("/api/v1/agents/thief", {"runner_id": LEAKY, "config": {"key0": given}})
    assert (answer.status, answer.error["details"]["field"]) == (400, "config.key0")
    assert answer.error["hint"]


def test_a_secret_of_an_agent_is_deleted_with_it_and_not_before(leaky: Any) -> None:
    body = {"runner_id": LEAKY, "config": {"key0": "its own value"}}
    assert leaky.put("/api/v1/agents/brief", body).status == 201
    own = "agent/brief/key0"
    assert own in [each["secret_name"] for each in leaky.get("/api/v1/secrets").json["items"]]
    assert leaky.delete(f"/api/v1/secrets/{quote(own, safe='')}").status in (404, 409)
    assert leaky.delete("/api/v1/agents/brief").status == 200
    assert own not in [each["secret_name"] for each in leaky.get("/api/v1/secrets").json["items"]]


def test_the_use_of_a_secret_is_recorded_and_a_missing_one_ends_the_run(leaky: Any) -> None:
    assert leaky.put("/api/v1/secrets/GONE", {"value": "soon removed"}).status == 201
    body = {"runner_id": LEAKY, "config": {"key0": "secret:GONE"}}
    assert leaky.put("/api/v1/agents/user", body).status == 201
    run = leaky.ended(leaky.tell("user", "nothing").json["run_id"])
    assert run["status"] == "completed"
    assert leaky.get("/api/v1/secrets/GONE").json["last_used_at"] > 0
    used = [content for _, content in stored(leaky.settings) if b"secret" in content and b'"agent:user"' in content]
    assert used
    assert leaky.delete("/api/v1/secrets/GONE").status == 200
    ended = leaky.read(leaky.tell("user", "nothing").json["run_id"])[-1].data["data"]
    assert (ended["status"], "no secret GONE" in ended["error"]) == ("failed", True)


def test_a_fingerprint_identifies_equal_values_of_one_workspace_only(leaky: Any) -> None:
    first, same, other = (
        leaky.post("/api/v1/fingerprints", {"value": value}).json["fingerprint"] for value in ("one", "one", "two")
    )
    assert (first == same, first == other) == (True, False)
    assert leaky.put("/api/v1/workspaces/apart", {}).status == 201
    apart = leaky.post("/api/v1/fingerprints", {"value": "one"}, bollard_workspace="apart")
    assert apart.json["fingerprint"] != first


def test_no_canary_is_on_disk_in_a_stream_in_a_response_or_in_a_log(leaky: Any) -> None:
    assert len(CANARIES) == 50
    answers: list[bytes] = []
    for text in ("deltas", "message", "tools", "artifact", "state", "raise", "fail", "log"):
        created = leaky.tell("leaky", text, conversation="room")
        run_id = created.json["run_id"]
        events = leaky.read(run_id)
        assert events[-1].type == "run.ended", text
        said = json.dumps([event.data for event in events], ensure_ascii=False)
        assert text in ("log", "state") or "***" in said, f"{text} told nothing: the test would see nothing"
        answers += [said.encode(), leaky.get(f"/api/v1/runs/{run_id}").body]
    answers += [
        leaky.get(path).body for path in ("/api/v1/runs", "/api/v1/conversations/room/messages", "/api/v1/agents")
    ]
    log = leaky.get("/api/v1/plugins/local/leaky/logs")
    answers.append(log.body)
    assert b"***" in log.body
    for answer in answers:
        assert found_in(answer) == []
    for name, content in stored(leaky.settings):
        assert found_in(content) == [], name


def test_deltas_with_a_split_secret_are_complete_except_for_the_secret(leaky: Any) -> None:
    events = leaky.read(leaky.tell("leaky", "deltas").json["run_id"])
    shown = "".join(event.data["data"]["chunk"]["content"] for event in events if event.type == "message.delta")
    (whole,) = [event.data["data"]["message"]["content"] for event in events if event.type == "message.completed"]
    assert shown == whole
    assert len(shown.splitlines()) == 50
    assert all("***" in line for line in shown.splitlines())


def test_an_artifact_with_a_secret_is_refused_with_a_reason(leaky: Any) -> None:
    events = leaky.read(leaky.tell("leaky", "artifact").json["run_id"])
    (refused,) = [event.data["data"] for event in events if event.type == "result.rejected"]
    assert "secret" in refused["problem"]
