"""Skills over HTTP, on both stores: saved, read, changed, removed; and their effect on an agent."""

import base64
import time
from typing import Any

from tests.replacement import replace
from tests.tables import for_each

TEXT = "---\nname: {name}\ndescription: Writes reports.\nallowed-tools: http_fetch\n---\nBegin with {what}.\n"
SKILL = "/api/v1/skills/report-writer"


def body(name: str = "report-writer", what: str = "what changed", **files: bytes) -> dict[str, Any]:
    sent: list[dict[str, Any]] = [{"path": "SKILL.md", "text": TEXT.format(name=name, what=what)}]
    for path, content in files.items():
        sent.append({"path": path, "content_base64": base64.b64encode(content).decode()})
    return {"files": sent}


def test_a_skill_is_saved_read_changed_and_removed(api: Any) -> None:
    made = api.put(SKILL, body(**{"notes.md": b"\xff\x00"}))
    assert made.status == 201, made.body
    assert (made.json["text"], made.json["requested_tools"]) == ("Begin with what changed.\n", ["http_fetch"])
    assert [(each["path"], each["size"]) for each in made.json["files"]][1] == ("notes.md", 2)
    again = api.put(SKILL, body(what="what is new"), if_match=made.headers["etag"])
    assert again.status == 200, again.body
    assert [each["version"] for each in again.json["versions"]] == [again.json["version"], made.json["version"]]
    assert api.put(SKILL, body(), if_match=made.headers["etag"]).status == 412
    assert api.get(SKILL, if_none_match=again.headers["etag"]).status == 304
    (listed,) = api.get("/api/v1/skills").json["items"]
    assert (listed["skill_id"], listed["source"], listed["usable"]) == ("report-writer", "workspace", True)
    assert api.delete(SKILL).json == {"skill_id": "report-writer", "deleted": True}
    assert api.get(SKILL).status == 404
    assert api.get("/api/v1/skills").json["items"] == []


@for_each(
    ("sent", "problem"),
    [
        (body("other"), "but its folder is"),
        ({"files": [{"path": "SKILL.md", "text": "nothing"}]}, "does not begin"),
        ({"files": [{"path": "../SKILL.md", "text": ""}]}, "is not allowed"),
        ({"files": [*body()["files"], {"path": "a/../../b", "text": ""}]}, "is not allowed"),
        ({"files": [*body()["files"], {"path": "a"}]}, "needs text or content_base64"),
        ({"files": [*body()["files"], {"path": "a", "content_base64": "?"}]}, "is not base64"),
        ({"files": [*body()["files"], *body()["files"]]}, "appears twice"),
        ({"files": []}, "files"),
    ],
)
def test_an_invalid_skill_is_refused_with_a_hint(api: Any, sent: dict[str, Any], problem: str) -> None:
    refused = api.put(SKILL, sent)
    assert refused.status == 400, refused.body
    assert problem in refused.error["message"]
    assert refused.error["hint"]
    assert api.get(SKILL).status == 404


def test_an_agent_with_a_skill_sees_only_its_name_and_description(api: Any) -> None:
    assert api.put(SKILL, body()).status == 201
    api.save_agent("writer", access={"resources": {"skills": {"add": ["report-writer", "no-such"]}}})
    api.save_agent("reader")
    runs = {name: _told(api, name) for name in ("writer", "reader")}
    held = {name: api.get(f"/api/v1/runs/{run}/grant").json["grant"] for name, run in runs.items()}
    (name,) = held["writer"]["access"]["resources"]["skills"]
    assert name == "report-writer"
    assert "skills" not in held["reader"]["access"]["resources"]
    assert "Begin with" not in str(held["writer"])
    assert api.delete(SKILL).status == 200


def _told(api: Any, agent: str) -> str:
    created = api.tell(agent, "hello")
    assert created.status == 202, created.body
    api.read(created.json["run_id"])
    return created.json["run_id"]


def test_skills_survive_a_restart_and_each_workspace_has_its_own(
    settings: Any, start_host: Any, client_of: Any, tmp_path: Any
) -> None:
    there = replace(settings, data=tmp_path, database="", plugins=())
    host = start_host(there)
    client = client_of(host.port, host.token)
    assert client.put("/api/v1/workspaces/second", {}).status == 201
    assert client.put(SKILL, body()).status == 201
    assert client.get("/api/v1/skills", bollard_workspace="second").json["items"] == []
    assert client.get(SKILL, bollard_workspace="second").status == 404
    token = host.token
    host.stop()
    again = client_of(start_host(there).port, token)
    deadline = time.monotonic() + 30
    while (found := again.get(SKILL)).status != 200:
        assert time.monotonic() < deadline, found.body
    assert found.json["text"] == "Begin with what changed.\n"
