"""Plugins through the API: installed with consent, updated, switched, gone back, removed; runs keep the code they began
with (F10), and a second plugin of a name is refused (F33)."""

import io
import json
import socket
import time
import zipfile
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import psutil
import pytest
from tests.replacement import replace

pytestmark = pytest.mark.full


PLUGINS = "/api/v1/plugins"
MANIFEST = """
apiVersion: bollard/v1
kind: Plugin
metadata: {{author: {author}, name: {name}, version: {version}, label: {{en_US: Talker}}}}
spec:
  env: {env}
  runners:
    - {{name: default, label: {{en_US: Talker}}, permissions: {permissions}, entry: "runner:talk"}}
"""
RUNNER = """
import asyncio, os
from bollard.sdk import RunContext, runner

@runner(label="Talker")
async def talk(ctx: RunContext):
    text = ctx.input.text or ""
    if text == "wait":
        yield ctx.delta("{says} waits ")
        while not os.path.exists({gate!r}):
            await asyncio.sleep(0.01)
    if text == "die":
        os._exit(1)
    if text == "print":
        print("loud \\x1b[31mred\\x1b[0m", os.environ.get("TALKER_KEY"), flush=True)
    yield ctx.completed("{says} " + text)
"""


@pytest.fixture
def gate(settings: Any, tmp_path: Any) -> Any:
    folder = settings.sandbox_roots[0] / tmp_path.name
    folder.mkdir()
    return folder / "gate"


@pytest.fixture
def talker(gate: Any) -> Callable[..., bytes]:
    """An archive of a plugin that prints its version."""

    def pack(name: str = "talker", version: str = "1.0.0", says: str = "one", **more: Any) -> bytes:
        fields = {"author": "acme", "env": "[]", "permissions": "{}", **more}
        code = fields.pop("code", RUNNER.replace("{says}", says).replace("{gate!r}", repr(str(gate))))
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("manifest.yaml", MANIFEST.format(name=name, version=version, **fields))
            archive.writestr("runner.py", code)
        return out.getvalue()

    return pack


def send(api: Any, method: str, path: str, archive: bytes, **query: str) -> Any:
    asked = "&".join(f"{name}={quote(value)}" for name, value in query.items())
    return api.send(method, f"{path}?{asked}" if asked else path, archive, content_type="application/zip")


def install(api: Any, archive: bytes, method: str = "POST", path: str = PLUGINS, **query: str) -> Any:
    """Consent to everything that it requests."""
    refused = send(api, method, path, archive, **query)
    assert refused.status == 409, refused.body
    assert refused.error["code"] == "consent_needed"
    return send(api, method, path, archive, consent=refused.error["details"]["consent"], **query)


def said(api: Any, run_id: str) -> str:
    ended = api.ended(run_id)
    assert ended["status"] == "completed", ended
    records = api.get(f"/api/v1/runs/{run_id}/records?limit=100").json["items"]
    return next(each["data"]["message"]["content"] for each in records if each["type"] == "message.completed")


def ask(api: Any, text: str, agent: str = "talker") -> str:
    answer = api.tell(agent, text)
    assert answer.status == 202, answer.body
    return said(api, answer.json["run_id"])


@pytest.fixture
def clean(api: Any) -> Any:
    """A host whose installed plugins are removed after the test."""
    yield api
    for item in api.get(f"{PLUGINS}?limit=100").json["items"]:
        if item["origin"] == "dev":
            api.delete(f"{PLUGINS}/{item['plugin_id']}/dev")
        if item["revision"]:
            assert api.delete(f"{PLUGINS}/{item['plugin_id']}").status == 200


@pytest.mark.smoke
def test_a_plugin_is_installed_only_with_consent_and_then_runs(clean: Any, talker: Any) -> None:
    archive = talker(permissions="{history: [page]}", env="[TALKER_KEY]")
    refused = send(clean, "POST", PLUGINS, archive)
    assert (refused.status, refused.error["code"]) == (409, "consent_needed")
    details = refused.error["details"]
    assert details["asks"] == {"runners": {"default": ["history.page"]}, "env": ["TALKER_KEY"], "tools": {}}
    assert clean.get(f"{PLUGINS}/acme/talker").status == 404
    assert send(clean, "POST", PLUGINS, archive, consent="0" * 64).status == 409

    made = send(clean, "POST", PLUGINS, archive, consent=details["consent"], source="talker.zip")
    assert made.status == 201, made.body
    body = made.json
    assert (body["plugin_id"], body["origin"], body["status"], body["source"]) == (
        "acme/talker",
        "installed",
        "ready",
        "talker.zip",
    )
    assert body["digest"] == details["digest"]
    assert body["runners"] == ["plugin:acme/talker/default"]
    assert ask(clean, "hi") == "one hi"
    shown = clean.get(f"{PLUGINS}/acme/talker")
    assert shown.headers["etag"] == '"1"'
    assert clean.get(f"{PLUGINS}/acme/talker", if_none_match='"1"').status == 304
    items = {each["plugin_id"]: each for each in clean.get(PLUGINS).json["items"]}
    assert items["acme/talker"]["version"] == "1.0.0"
    assert items["local/parrot"]["origin"] == "settings"


def test_a_second_plugin_with_a_similar_name_is_refused(clean: Any, talker: Any) -> None:
    archive = talker()
    assert install(clean, archive).status == 201
    again = send(clean, "POST", PLUGINS, talker(says="two"))
    assert (again.status, again.error["code"]) == (409, "conflict")
    assert "installed already" in again.error["message"]
    for more in ({"author": "evil"}, {"name": "ta1ker"}, {"name": "talker", "author": "acme_"}):
        refused = send(clean, "POST", PLUGINS, talker(**more))
        assert refused.status == 409
        assert "looks like acme/talker" in refused.error["message"]
    settings = send(clean, "POST", PLUGINS, talker(name="parrot", author="local"))
    assert "comes with the host or its settings" in settings.error["message"]
    other = send(clean, "POST", PLUGINS, talker(name="parrot"))
    assert "looks like local/parrot" in other.error["message"]


def test_an_update_needs_consent_only_for_more_permissions(clean: Any, talker: Any) -> None:
    path = f"{PLUGINS}/acme/talker"
    assert install(clean, talker(permissions="{history: [page]}")).status == 201
    wider = talker(version="2.0.0", says="two", permissions="{history: [page, search]}")
    refused = send(clean, "PUT", path, wider)
    assert refused.error["details"]["change"] == {"added": ["runner default: history.search"], "removed": []}
    assert ask(clean, "still") == "one still"
    assert send(clean, "PUT", path, wider, consent=refused.error["details"]["consent"]).json["revision"] == 2
    assert ask(clean, "now") == "two now"
    narrower = send(clean, "PUT", path, talker(version="3.0.0", says="three"))
    assert (narrower.status, narrower.json["version"], narrower.json["revision"]) == (200, "3.0.0", 3)
    assert ask(clean, "less") == "three less"
    assert send(clean, "PUT", path, talker(version="3.0.0", says="three")).json["revision"] == 3
    stale = clean.send("PUT", path, talker(version="4.0.0"), content_type="application/zip", if_match='"1"')
    assert (stale.status, stale.error["code"]) == (412, "precondition_failed")
    other = send(clean, "PUT", path, talker(name="talkers"))
    assert "contains the plugin acme/talkers" in other.error["message"]


def test_a_run_keeps_its_code_and_new_runs_get_the_new_code(clean: Any, talker: Any, gate: Any) -> None:
    path = f"{PLUGINS}/acme/talker"
    sees = f"[]\n  sandbox: {{read: [{gate.parent}]}}"
    assert install(clean, talker(says="one", env=sees)).status == 201
    old_pid = clean.get(path).json["processes"][0]["pid"]
    waiting = clean.tell("talker", "wait").json["run_id"]
    stream = clean.stream(waiting)
    stream.until("message.delta")
    stream.close()
    assert send(clean, "PUT", path, talker(version="2.0.0", says="two", env=sees)).status == 200
    assert clean.get(path).json["leaving_runs"] == 1
    assert ask(clean, "new") == "two new"
    assert psutil.pid_exists(old_pid)
    gate.touch()
    assert said(clean, waiting) == "one wait"
    clean.until(path, lambda body: body["leaving_runs"] == 0)
    psutil.wait_procs([psutil.Process(old_pid)] if psutil.pid_exists(old_pid) else [], timeout=120)
    assert not psutil.pid_exists(old_pid)


def test_a_plugin_rolls_back_to_an_earlier_version(clean: Any, talker: Any) -> None:
    path = f"{PLUGINS}/acme/talker"
    first = install(clean, talker(says="one", permissions="{history: [page]}")).json["digest"]
    send(clean, "PUT", path, talker(version="2.0.0", says="two"))
    send(clean, "PUT", path, talker(version="3.0.0", says="three"))
    earlier = [each["version"] for each in clean.get(path).json["earlier"]]
    assert earlier == ["2.0.0", "1.0.0"]
    back = clean.post(f"{path}/rollback", {"digest": first[:12]})
    assert (back.status, back.json["version"]) == (200, "1.0.0")
    assert ask(clean, "again") == "one again"
    assert clean.post(f"{path}/rollback", {}).json["version"] == "3.0.0"
    assert clean.post(f"{path}/rollback", {"digest": "abcdef"}).status == 404


def test_a_plugin_is_disabled_and_enabled_and_has_the_requested_workers(clean: Any, talker: Any) -> None:
    path = f"{PLUGINS}/acme/talker"
    assert install(clean, talker()).status == 201
    off = clean.send("PATCH", path, {"enabled": False})
    assert (off.status, off.json["status"], off.json["revision"]) == (200, "disabled", 2)
    assert clean.tell("talker", "hi").status == 404
    assert clean.post(f"{path}/restart").status == 404
    stale = clean.send("PATCH", path, {"enabled": True, "revision": 1})
    assert stale.error["code"] == "conflict"
    on = clean.send("PATCH", path, {"enabled": True, "workers": 2})
    assert (on.json["status"], on.json["workers"]) == ("ready", 2)
    clean.until(path, lambda body: len([each for each in body["processes"] if each["status"] == "ready"]) == 2)
    assert ask(clean, "back") == "one back"
    for body in ({"workers": 0}, {"workers": 65}, {"enabled": "yes"}, {"color": "red"}):
        assert clean.send("PATCH", path, body).status == 400


def test_a_plugin_in_use_is_not_removed(clean: Any, talker: Any) -> None:
    path = f"{PLUGINS}/acme/talker"
    assert install(clean, talker()).status == 201
    body = {"runner_id": "plugin:acme/talker/default"}
    assert clean.put("/api/v1/agents/chatty", body).status == 201
    refused = clean.delete(path)
    assert (refused.status, refused.error["details"]["agents"]) == (409, "chatty")
    assert clean.delete("/api/v1/agents/chatty").status == 200
    assert clean.put("/api/v1/bindings/talks", {"agent_id": "talker"}).status == 201
    bound = clean.delete(path)
    assert (bound.status, bound.error["details"]["bindings"]) == (409, "talks")
    assert clean.delete("/api/v1/bindings/talks").status == 200
    assert clean.delete(path).status == 200
    assert clean.get(path).status == 404
    assert clean.delete(path).status == 404


def test_a_plugin_of_the_settings_cannot_be_changed_over_http(clean: Any, talker: Any) -> None:
    path = f"{PLUGINS}/local/parrot"
    assert clean.get(path).json["origin"] == "settings"
    for answer in (
        clean.delete(path),
        clean.send("PATCH", path, {"enabled": False}),
        send(clean, "PUT", path, talker(name="parrot", author="local")),
        clean.post(f"{path}/rollback", {}),
    ):
        assert (answer.status, answer.error["code"]) == (409, "conflict")


def test_a_plugin_that_fails_to_load_changes_nothing(clean: Any, talker: Any) -> None:
    path = f"{PLUGINS}/acme/talker"
    broken = talker(code="raise RuntimeError('no such luck')")
    refused = install(clean, broken)
    assert (refused.status, refused.error["code"]) == (422, "plugin_unusable")
    assert "no such luck" in refused.error["message"]
    assert clean.get(path).status == 404
    assert install(clean, talker(says="one")).status == 201
    assert send(clean, "PUT", path, broken).status == 422
    assert ask(clean, "still") == "one still"
    assert clean.get(path).json["revision"] == 1


def test_invalid_archives_are_refused_and_leave_no_file(clean: Any, settings: Any, talker: Any) -> None:
    for body, why in ((b"", "not a zip"), (b"\x1f\x8bxx", "not a zip"), (talker()[:-30], "not a zip")):
        refused = send(clean, "POST", PLUGINS, body)
        assert (refused.status, refused.error["code"]) == (400, "invalid_argument")
        assert why in refused.error["message"]
    media = clean.send("POST", PLUGINS, b"x", content_type="application/x-tar")
    assert "neither a zip nor JSON" in media.error["message"]
    assert send(clean, "POST", PLUGINS, talker(), workers="65").status == 400
    large = clean.send("POST", PLUGINS, b"", content_type="application/zip", content_length=str(200 * 1024 * 1024))
    assert large.status == 413
    assert list((settings.data / "plugins" / ".incoming").iterdir()) == []


def test_an_absent_package_is_refused(clean: Any) -> None:
    missing = clean.post(PLUGINS, {"package": "no-such-package"}, content_type="application/json")
    assert (missing.status, missing.error["code"]) == (404, "not_found")
    nothing = clean.post(PLUGINS, {"package": "pytest"}, content_type="application/json")
    assert "0 entry points in the group bollard.plugins" in nothing.error["message"]


def test_the_log_of_a_plugin_is_read_and_followed(clean: Any, talker: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("TALKER_KEY", "very-secret-value")
    path = f"{PLUGINS}/acme/talker"
    assert install(clean, talker(env="[TALKER_KEY]")).status == 201
    connection, response = clean._open("GET", f"{path}/logs/stream", None, {}, clean.token)
    ask(clean, "print")
    seen: list[Any] = []
    for line in response:
        if line.startswith(b"data: "):
            seen.append(json.loads(line[6:]))
            if "loud" in seen[-1]["text"]:
                break
    response.close()
    connection.close()
    assert seen[-1]["text"] == "loud red ***"
    assert seen[0]["kind"] == "host"
    lines = clean.get(f"{path}/logs?limit=2000").json["items"]
    assert [each["number"] for each in lines] == list(range(1, len(lines) + 1))
    after = clean.get(f"{path}/logs?after={lines[0]['number']}").json["items"]
    assert after[0] == lines[1]
    assert clean.get(f"{PLUGINS}/acme/nobody/logs").status == 404
    assert clean.get(f"{path}/logs?limit=0").status == 400


def test_a_quarantined_plugin_has_a_reason_and_a_restart_clears_it(clean: Any, talker: Any) -> None:
    path = f"{PLUGINS}/acme/talker"
    assert install(clean, talker()).status == 201
    for _ in range(5):
        run = clean.tell("talker", "die").json["run_id"]
        assert clean.ended(run)["status"] == "failed"
        clean.until(path, lambda body: body["status"] in ("ready", "quarantined"))
    body = clean.get(path).json
    assert (body["status"], body["crashes"], body["recent_crashes"]) == ("quarantined", 5, 5)
    assert "5 crashes" in body["problem"]
    assert clean.post(f"{path}/restart").status == 202
    clean.until(path, lambda body: body["status"] == "ready")
    assert ask(clean, "again") == "one again"


def test_a_development_version_covers_the_installed_one_until_it_is_removed(clean: Any, talker: Any) -> None:
    path = f"{PLUGINS}/acme/talker"
    assert install(clean, talker(says="one")).status == 201
    dev = send(clean, "PUT", f"{path}/dev", talker(says="dev", version="9.0.0"))
    assert dev.status == 200, dev.body
    assert clean.get(path).json["origin"] == "dev"
    assert ask(clean, "hi") == "dev hi"
    again = send(clean, "PUT", f"{path}/dev", talker(says="newer", version="9.0.0"))
    assert again.json["digest"] != dev.json["digest"]
    assert ask(clean, "hi") == "newer hi"
    broken = send(clean, "PUT", f"{path}/dev", talker(code="def f(:", version="9.0.0"))
    assert (broken.status, broken.error["code"]) == (422, "plugin_unusable")
    assert "runner" in broken.error["message"]
    assert ask(clean, "hi") == "newer hi"
    wider = send(clean, "PUT", f"{path}/dev", talker(says="wide", permissions="{history: [page]}"))
    assert wider.error["code"] == "consent_needed"
    assert clean.post(f"{path}/dev").status == 200
    updated = send(clean, "PUT", path, talker(says="two", version="2.0.0"))
    assert (updated.status, updated.json["origin"]) == (200, "dev")
    assert ask(clean, "hi") == "newer hi"
    assert clean.delete(f"{path}/dev").status == 200
    assert ask(clean, "hi") == "two hi"
    assert clean.delete(f"{path}/dev").status == 404
    assert clean.post(f"{path}/dev").status == 404


def test_a_development_version_needs_no_installation(clean: Any, talker: Any) -> None:
    path = f"{PLUGINS}/acme/fresh"
    archive = talker(name="fresh", says="dev")
    assert install(clean, archive, "PUT", f"{path}/dev").status == 200
    assert ask(clean, "hi", "fresh") == "dev hi"
    assert clean.delete(f"{path}/dev").status == 200
    assert clean.tell("fresh", "hi").status == 404
    assert clean.get(path).status == 404


def test_installed_plugins_survive_a_restart_and_changed_code_is_not_run(
    settings: Any, talker: Any, start_host: Any, client_of: Any, tmp_path: Any
) -> None:
    path = f"{PLUGINS}/acme/talker"
    own = replace(settings, data=tmp_path / "data", database="", plugins=())
    host = start_host(own)
    api = client_of(host.port, host.token)
    digest = install(api, talker(says="one")).json["digest"]
    send(api, "PUT", path, talker(says="two", version="2.0.0"))
    host.stop()
    (own.data / "plugins" / ".incoming" / "left.zip").write_bytes(b"half an upload")
    (own.data / "plugins" / ("f" * 64)).mkdir()

    host = start_host(own)
    api = client_of(host.port, api.token)
    api.until(path, lambda body: body["status"] == "ready")
    assert ask(api, "back") == "two back"
    assert sorted(each.name for each in (own.data / "plugins").iterdir() if each.name != ".incoming") == sorted(
        {digest, api.get(path).json["digest"]}
    )
    host.stop()

    current = next(each for each in (own.data / "plugins").iterdir() if each.name not in (".incoming", digest))
    (current / "runner.py").chmod(0o600)
    (current / "runner.py").write_text("import os")
    host = start_host(own)
    api = client_of(host.port, api.token)
    body = api.get(path).json
    assert body["status"] == "unusable"
    assert "was changed after it was installed" in body["problem"]
    assert api.tell("talker", "hi").status == 404
    again = send(api, "PUT", path, talker(says="two", version="2.0.0"))
    assert (again.status, again.json["status"], again.json["digest"]) == (200, "ready", body["digest"])
    assert ask(api, "hi") == "two hi"
    assert api.post(f"{path}/rollback", {}).json["status"] == "ready"
    assert ask(api, "hi") == "one hi"
    host.stop()


def test_an_interrupted_upload_leaves_no_file(clean: Any, settings: Any, talker: Any) -> None:
    archive = talker()
    with socket.create_connection(("127.0.0.1", clean.port)) as half:
        head = f"POST {PLUGINS} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {clean.token}\r\n"
        head += f"Content-Type: application/zip\r\nContent-Length: {len(archive)}\r\n\r\n"
        half.sendall(head.encode() + archive[: len(archive) // 2])
    incoming = settings.data / "plugins" / ".incoming"
    clean.until(PLUGINS, lambda _: list(incoming.iterdir()) == [])
    assert clean.get(f"{PLUGINS}/acme/talker").status == 404


def test_a_repeated_install_request_installs_once(clean: Any, talker: Any) -> None:
    archive = talker()
    consent = send(clean, "POST", PLUGINS, archive).error["details"]["consent"]
    path = f"{PLUGINS}?consent={consent}"
    first, again = (
        clean.send("POST", path, archive, content_type="application/zip", idempotency_key="install-1") for _ in range(2)
    )
    assert (first.status, again.status) == (201, 201)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json["digest"] == first.json["digest"]


def test_a_workspace_has_its_own_plugins_and_its_own_workers(clean: Any, talker: Any) -> None:
    assert clean.put("/api/v1/workspaces/second", {}).status in (200, 201)
    there = {"bollard_workspace": "second"}
    assert install(clean, talker()).status == 201
    assert clean.get(f"{PLUGINS}/acme/talker", **there).status == 404
    shared = clean.get(f"{PLUGINS}/local/parrot", **there).json
    assert (shared["status"], shared["processes"]) == ("idle", [])
    run = clean.post("/api/v1/runs", {"agent": "parrot", "input": {"text": "hi"}}, **there)
    assert run.status == 202, run.body
    give_up_at = time.monotonic() + 20
    while clean.get(f"/api/v1/runs/{run.json['run_id']}", **there).json["status"] != "completed":
        assert time.monotonic() < give_up_at
    pids = [clean.get(f"{PLUGINS}/local/parrot", **headers).json["processes"][0]["pid"] for headers in ({}, there)]
    assert pids[0] != pids[1]
    assert clean.tell("talker", "hi").status == 202
    assert clean.post("/api/v1/runs", {"agent": "talker", "input": {"text": "hi"}}, **there).status == 404
    assert clean.get(f"{PLUGINS}/local/parrot/logs", **there).json["items"][0]["pid"] == pids[1]
