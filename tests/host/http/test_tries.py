"""Things are tried before they are saved: an MCP server and a plugin. Nothing of them is kept."""

import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import psutil

SERVER = Path(__file__).parents[1] / "mcp" / "programs" / "friendly.py"
MANIFEST = """
apiVersion: bollard/v1
kind: Plugin
metadata: {author: acme, name: talker, version: 1.0.0, label: {en_US: Talker}}
spec:
  runners:
    - {name: default, label: {en_US: Talker}, permissions: {history: [page]}, entry: "runner:talk"}
"""


def archive(readme: str = "# Talker") -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as packed:
        packed.writestr("manifest.yaml", MANIFEST)
        packed.writestr("runner.py", "raise SystemExit('never executed')")
        packed.writestr("README.md", readme)
    return body.getvalue()


def test_an_unsaved_mcp_server_lists_its_tools_and_leaves_no_process(api: Any) -> None:
    answer = api.post("/api/v1/mcp-servers/try", {"command": sys.executable, "args": [str(SERVER)]})
    assert answer.status == 200, answer.body
    assert (answer.json["status"], answer.json["problem"]) == ("connected", "")
    assert {"state", "definition_sha256"} <= answer.json["tools"][0].keys()
    assert api.get("/api/v1/mcp-servers").json["items"] == []
    left = [each for each in psutil.Process().children(recursive=True) if str(SERVER) in " ".join(_words(each))]
    psutil.wait_procs(left, timeout=10)
    assert not any(each.is_running() for each in left)


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_an_unsaved_mcp_server_that_cannot_start_says_why(api: Any) -> None:
    tried = api.post("/api/v1/mcp-servers/try", {"command": "/nowhere/at/all"}).json
    assert (tried["status"], tried["tools"], bool(tried["problem"])) == ("waiting", [], True)
    for body in ({}, {"command": "x", "url": "https://mcp.example.org"}, {"comand": "x"}):
        refused = api.post("/api/v1/mcp-servers/try", body)
        assert (refused.status, refused.error["code"]) == (400, "invalid_argument"), body


def test_an_uploaded_plugin_is_read_and_not_installed(api: Any) -> None:
    answer = api.post("/api/v1/plugins/inspect", archive(), content_type="application/zip")
    assert answer.status == 200, answer.body
    read = answer.json
    assert (read["plugin_id"], read["version"], read["readme"]) == ("acme/talker", "1.0.0", "# Talker")
    assert (read["needs_consent"], read["installed"]) == (True, None)
    assert read["change"]["added"] == ["runner default", "runner default: history.page"]
    assert api.get("/api/v1/plugins/acme/talker").status == 404
    refused = api.post("/api/v1/plugins", archive(), content_type="application/zip")
    assert (refused.status, refused.error["details"]["consent"]) == (409, read["consent"])


def test_an_archive_that_is_no_plugin_is_refused(api: Any) -> None:
    answer = api.post("/api/v1/plugins/inspect", b"not a zip", content_type="application/zip")
    assert (answer.status, answer.error["code"]) == (400, "invalid_argument")


def test_a_plugin_shows_what_it_says_about_itself(api: Any) -> None:
    details = api.get("/api/v1/plugins/local/parrot/details")
    assert details.status == 200, details.body
    assert (details.json["plugin_id"], details.json["readme"]) == ("local/parrot", None)
    assert api.get("/api/v1/plugins/no/body/details").status == 404
