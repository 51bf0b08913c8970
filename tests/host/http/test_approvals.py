"""Approvals over HTTP: shown, decided by approvers, once, and otherwise refused as stale. A whole host, a real
worker."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.replacement import replace

from bollard.host.settings import Settings

ASKER = """
    from bollard.sdk import AgentAPIException, RunContext, runner

    @runner(name="default", label="Asker", permissions={"tools": ["call", "detail"]})
    async def asker(ctx: RunContext):
        if ctx.event.event_type == "approval.decided":
            yield ctx.completed(f"then: {ctx.event.data['name']} {ctx.event.data['outcome']}")
            return
        try:
            found = await ctx.api.tools.call("calculate", {"expression": ctx.input.text})
        except AgentAPIException as refused:
            yield ctx.completed(f"refused: {refused.error.code}")
        else:
            yield ctx.completed(f"done: {found.content[0].text}")
"""
ACCESS = {"permissions": {"tools": ["call", "detail"]}, "resources": {"tools": {"add": ["tool:builtin/calculate"]}}}


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory, start_module_host: Any, client_of: Any) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("plugins") / "asker.py"
    path.write_text(textwrap.dedent(ASKER), encoding="utf-8")
    settings = Settings(
        data=tmp_path_factory.mktemp("data"), plugins=(path,), builtin_plugins=False, port=0, grace_s=0.5
    )
    host = start_module_host(settings)
    client = client_of(host.port, host.token)
    client.until_health(lambda health: health["plugins"]["asker"]["status"] == "ready")
    client.save_agent("asker", "asker/default", access=ACCESS, approval={"mode": "always"})
    return client


def parked(client: Any, text: str = "1 + 1", agent: str = "asker", **more: Any) -> tuple[str, Any]:
    """A run that waits, and its question."""
    answer = client.tell(agent, text, **more)
    assert answer.status == 202, answer.body
    run_id = answer.json["run_id"]
    client.until(f"/api/v1/runs/{run_id}", lambda run: run["status"] == "waiting")
    page = client.until("/api/v1/approvals?status=requested", lambda page: _of(page, run_id))
    (item,) = _of(page, run_id)
    return run_id, item


def _of(page: Any, run_id: str) -> list[Any]:
    return [item for item in page["items"] if item["run_id"] == run_id]


def decide(client: Any, item: Any, decision: str = "allow_once", **more: Any) -> Any:
    headers = more.pop("headers", {})
    body = {"decision": decision, "digest": item["digest"], **more}
    return client.post(f"/api/v1/approvals/{item['approval_id']}/decide", body, **headers)


def said(client: Any, run_id: str) -> str:
    events = client.read(run_id)
    return next(event.data["data"]["message"]["content"] for event in events if event.type == "message.completed")


def test_a_call_is_shown_approved_and_executed(asking: Any) -> None:
    run_id, item = parked(asking, "6 * 7")
    shown = asking.get(f"/api/v1/approvals/{item['approval_id']}")
    assert shown.headers["etag"] == '"1"'
    lines = {line["place"]: line["text"] for line in shown.json["display"]["lines"]}
    assert lines["arguments.expression"] == '"6 * 7"'
    assert lines["capability"].startswith("tool:builtin/calculate")

    decided = decide(asking, item, headers={"if_match": '"1"'})
    assert decided.status == 200, decided.body
    assert decided.json["by"] == "admin-token"
    assert said(asking, run_id) == "done: 42"
    types = [event.type for event in asking.read(run_id)]
    wanted = ["run.waiting", "approval.requested", "approval.granted", "approval.used", "action.started"]
    assert [kind for kind in types if kind in wanted] == wanted

    again = decide(asking, item)
    assert (again.status, again.error["code"]) == (409, "conflict")
    assert again.error["details"]["status"] == "used"
    assert asking.get(f"/api/v1/approvals/{item['approval_id']}").headers["etag"] == '"3"'


def test_approvals_and_calls_are_counted(asking: Any) -> None:
    def numbers() -> dict[str, float]:
        lines = asking.get("/metrics").body.decode().splitlines()
        return {
            line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line.startswith("bollard_")
        }

    before = numbers()
    allowed_run, allowed = parked(asking)
    denied_run, denied = parked(asking)
    given_up, _ = parked(asking)
    waiting = numbers()
    assert waiting["bollard_approvals_waiting"] == before["bollard_approvals_waiting"] + 3
    assert waiting["bollard_approvals_asked_total"] == before["bollard_approvals_asked_total"] + 3
    decide(asking, allowed)
    decide(asking, denied, "deny")
    asking.post(f"/api/v1/runs/{given_up}/cancel")
    for run_id in (allowed_run, denied_run, given_up):
        asking.ended(run_id)
    asking.until("/api/v1/approvals?status=expired", lambda page: _of(page, given_up))
    after = numbers()
    assert after["bollard_approvals_waiting"] == before["bollard_approvals_waiting"]
    for decision in ("granted", "denied", "expired"):
        name = f'bollard_approvals_decided_total{{decision="{decision}"}}'
        assert after[name] == before[name] + 1
    for outcome in ("completed", "rejected"):
        name = f'bollard_actions_total{{kind="tool",outcome="{outcome}"}}'
        assert after[name] >= before.get(name, 0) + 1


def test_a_denial_reaches_the_runner(asking: Any) -> None:
    run_id, item = parked(asking)
    assert decide(asking, item, "deny").status == 200
    assert said(asking, run_id) == "refused: approval_denied"


def test_deny_and_stop_stops_the_run(asking: Any) -> None:
    run_id, item = parked(asking)
    assert decide(asking, item, "deny_stop").status == 200
    assert asking.ended(run_id)["status"] == "cancelled"


def test_a_cancelled_run_withdraws_its_approval(asking: Any) -> None:
    run_id, item = parked(asking)
    assert asking.post(f"/api/v1/runs/{run_id}/cancel").status in (200, 202)
    assert asking.ended(run_id)["status"] == "cancelled"
    path = f"/api/v1/approvals/{item['approval_id']}"
    asking.until(path, lambda found: found["status"] == "expired")
    assert decide(asking, item).status == 409


def test_a_decision_with_another_digest_is_refused(asking: Any) -> None:
    _, item = parked(asking)
    refused = decide(asking, {**item, "digest": "f" * 64})
    assert (refused.status, refused.error["details"]["digest"]) == (409, item["digest"])
    stale = decide(asking, item, headers={"if_match": '"2"'})
    assert stale.status == 412
    assert decide(asking, item, "deny").status == 200


def test_attached_content_must_be_opened_before_inspected_is_accepted(asking: Any) -> None:
    text = "1" + "+\n1" * 60
    run_id, item = parked(asking, text)
    path = f"/api/v1/approvals/{item['approval_id']}"
    (content,) = asking.get(path).json["display"]["attached"]
    assert content["characters"] == len(text)
    assert decide(asking, item).error["details"]["field"] == "inspected"
    assert decide(asking, item, inspected=True).status == 400
    page = asking.get(f"{path}/contents/1?limit=100").json
    assert "".join(page["lines"]) == text.replace("\n", "\u27eaU+000A\u27eb")
    assert page["content"] == content
    assert asking.get(f"{path}/contents/2").status == 404
    assert decide(asking, item, inspected=True).json["inspected"] is True
    assert said(asking, run_id).startswith(("done: ", "refused: "))


def key(client: Any, *rights: str) -> str:
    answer = client.post("/api/v1/keys", {"name": "k", "rights": [*rights]})
    assert answer.status == 201, answer.body
    return answer.json["token"]


def test_only_approvers_of_the_agent_may_decide(asking: Any) -> None:
    policy = {"access": ACCESS, "approval": {"mode": "always"}}
    listed = {"approve": {"who": "listed", "actors": ["user:ann"]}, "see": {"who": "everyone"}}
    asking.save_agent("guarded", "asker/default", **policy, audience=listed)
    run_id, item = parked(asking, agent="guarded")
    token = key(asking, "approvals.read", "approvals.decide")
    path = f"/api/v1/approvals/{item['approval_id']}"
    assert asking.get(path, token=token).json["refusal"]["details"]["reason"] == "not_an_approver"
    assert "refusal" not in asking.get(path).json
    body = {"decision": "allow_once", "digest": item["digest"]}
    refused = asking.post(f"{path}/decide", body, token=token)
    assert (refused.status, refused.error["code"]) == (403, "unauthorized")
    reader = key(asking, "approvals.read")
    assert asking.get(path, token=reader).json["refusal"]["details"] == {"reason": "right", "right": "approvals.decide"}
    assert asking.post(f"{path}/decide", body, token=reader).status == 403
    assert asking.post(f"{path}/decide", body, token=None).status == 401
    assert asking.get(path).json["status"] == "requested"
    assert decide(asking, item, "deny").status == 200
    assert said(asking, run_id) == "refused: approval_denied"


def test_another_person_must_decide_if_the_agent_requires_it(asking: Any) -> None:
    policy = {"access": ACCESS, "approval": {"mode": "always", "other_person": True}}
    asking.save_agent("four-eyes", "asker/default", **policy)
    run_id, item = parked(asking, agent="four-eyes")  # it has no known actor, and neither has the admin token
    refused = decide(asking, item)
    assert refused.status == 403
    assert "another person than the requester" in refused.error["message"]
    token = key(asking, "approvals.read", "approvals.decide", "agents.write")
    answer = asking.post(
        f"/api/v1/approvals/{item['approval_id']}/decide",
        {"decision": "allow_once", "digest": item["digest"]},
        token=token,
    )
    assert answer.status == 200, answer.body
    assert said(asking, run_id) == "done: 2"


def test_without_an_approver_the_run_gets_the_denial_at_once(asking: Any) -> None:
    policy = {"access": ACCESS, "approval": {"mode": "always"}, "audience": {"approve": {"who": "listed"}}}
    asking.save_agent("nobody", "asker/default", **policy)
    run_id = asking.tell("nobody", "1 + 1").json["run_id"]
    assert said(asking, run_id) == "refused: approval_denied"


def test_an_approval_of_another_workspace_is_not_found(asking: Any) -> None:
    _, item = parked(asking)
    made = asking.put("/api/v1/workspaces/elsewhere", {"name": "Elsewhere"})
    assert made.status in (200, 201), made.body
    foreign = {"bollard_workspace": "elsewhere"}
    never = asking.get("/api/v1/approvals/apr_never", **foreign)
    other = asking.get(f"/api/v1/approvals/{item['approval_id']}", **foreign)
    assert (other.status, other.body) == (never.status, never.body) == (404, never.body)
    assert decide(asking, item, headers=foreign).status == 404
    assert asking.get("/api/v1/approvals", **foreign).json["items"] == []
    assert decide(asking, item, "deny").status == 200


def bollard(client: Any, *arguments: str) -> tuple[int, str]:
    """The command line as a person uses it, without a terminal."""
    environment = {**os.environ, "BOLLARD_URL": f"http://127.0.0.1:{client.port}", "BOLLARD_TOKEN": client.token}
    code = "from bollard.cli.main import main; main()"
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--text"],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        stdin=subprocess.DEVNULL,
    )
    return ran.returncode, ran.stdout + ran.stderr


def test_the_command_line_shows_and_decides_in_both_languages(asking: Any) -> None:
    run_id, item = parked(asking, "8 *\u202e 8")
    approval_id = item["approval_id"]
    assert approval_id in bollard(asking, "approvals")[1]
    _, shown = bollard(asking, "approvals", "show", approval_id)
    assert '  arguments.expression | "8 *\u27eaU+202E\u27eb 8"' in shown
    assert "  arguments.expression ! contains invisible characters" in shown
    assert "待处理" in bollard(asking, "approvals", "show", approval_id, "--lang", "zh_Hans")[1]
    wrong = bollard(asking, "approvals", "allow", approval_id, "--digest", "0" * 64)
    assert wrong[0] != 0
    assert "its digest differs" in wrong[1]
    denied = bollard(asking, "approvals", "deny", approval_id)
    assert denied[0] == 0
    assert denied[1].endswith("denied: calculate\n")
    assert said(asking, run_id) == "refused: approval_denied"
    stale = bollard(asking, "approvals", "deny", approval_id)
    assert stale[0] != 0
    assert "already denied" in stale[1]


@pytest.mark.parametrize(
    "forged", [{"source": "bollard:approvals", "type": "card.action"}, {"source": "card", "type": "approval.decided"}]
)
def test_a_posted_event_cannot_imitate_a_decision(asking: Any, forged: Any) -> None:
    data = {"approval_id": "apr_1", "call_id": "call_1", "outcome": "completed"}
    answer = asking.post("/api/v1/events", {**forged, "id": "1", "agent": "asker", "data": data})
    assert (answer.status, answer.error["code"]) == (400, "invalid_argument")


def test_the_labels_exist_in_both_languages_and_the_bytes_are_the_same(asking: Any) -> None:
    _, item = parked(asking, "2 + 2")
    path = f"/api/v1/approvals/{item['approval_id']}"
    english, chinese = (asking.get(f"{path}?locale={locale}").json["display"] for locale in ("en_US", "zh_Hans"))
    own = [[line["text"] for line in each["lines"] if line["part"] == "arguments"] for each in (english, chinese)]
    assert own[0] == own[1] == ['"2 + 2"']
    assert {line["label"] for line in english["lines"]}.isdisjoint({line["label"] for line in chinese["lines"]})
    assert decide(asking, item, "deny").status == 200


def test_an_approval_survives_a_restart_and_is_executed_once(tmp_path: Path, start_host: Any, client_of: Any) -> None:
    path = tmp_path / "asker.py"
    path.write_text(textwrap.dedent(ASKER), encoding="utf-8")
    settings = Settings(data=tmp_path / "data", plugins=(path,), builtin_plugins=False, port=0, grace_s=0)
    host = start_host(settings)
    client = client_of(host.port, host.token)
    client.until_health(lambda health: health["plugins"]["asker"]["status"] == "ready")
    client.save_agent("asker", "asker/default", access=ACCESS, approval={"mode": "always"})
    run_id, item = parked(client, "3 * 3", conversation="room")
    host.stop()

    again = start_host(replace(settings))
    client = client_of(again.port, host.token)
    client.until(f"/api/v1/runs/{run_id}", lambda run: run["status"] == "failed")
    assert decide(client, item).status == 200
    client.until(f"/api/v1/approvals/{item['approval_id']}", lambda found: found["status"] == "used")
    runs = client.until("/api/v1/runs?conversation=room", lambda page: len(page["items"]) == 2)["items"]
    assert said(client, runs[0]["run_id"]) == "then: calculate completed"
    assert decide(client, item).status == 409
    assert len(client.get("/api/v1/runs?conversation=room").json["items"]) == 2
