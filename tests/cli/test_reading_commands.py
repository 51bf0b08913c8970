"""`bollard conversations` and `bollard artifacts` against a real host."""

import hashlib
import http.server
import json
import threading
import urllib.parse
import urllib.request

import pytest

from bollard.cli.limits import SEARCH_PAGES

CONTENT = b"\x00\x01not json at all\xff" * 1000


@pytest.fixture
def talked(host, bollard) -> str:
    """A conversation with messages."""
    bollard("chat", "--agent", "echo", "--conversation", "a/b ü", "--message", "hello there", **host.variables)
    return "a/b ü"


@pytest.fixture
def artifact(host) -> str:
    return brought(host, "upload-1")


def brought(host, name: str) -> str:
    """An artifact: a payload of an event other than JSON."""
    headers = {
        "authorization": f"Bearer {host.token}",
        "content-type": "application/octet-stream",
        "ce-specversion": "1.0",
        "ce-id": name,
        "ce-source": "/tests",
        "ce-type": "upload.done",
    }
    address = f"http://127.0.0.1:{host.port}"
    request = urllib.request.Request(f"{address}/api/v1/events", CONTENT, headers)
    with urllib.request.urlopen(request) as answer:
        event_id = json.load(answer)["event_id"]
    request = urllib.request.Request(f"{address}/api/v1/events/{event_id}", headers=headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["content"]["raw"]["artifact_id"]


def test_conversations_are_listed_and_shown(host, bollard, talked) -> None:
    items = bollard("conversations", **host.variables).json["items"]
    assert items[0]["conversation_id"] == talked
    assert talked in bollard("conversations", "list", "--text", **host.variables).out
    page = bollard("conversations", "show", talked, "--limit", "2", **host.variables).json
    assert [(item["role"], item["content"]) for item in reversed(page["items"])] == [
        ("user", "hello there"),
        ("assistant", "you said: hello there"),
    ]
    shown = bollard("conversations", "show", talked, "--text", **host.variables).out.splitlines()
    assert shown[-2].endswith("user: hello there")
    assert shown[-1].endswith("assistant: you said: hello there")


def test_a_search_finds_chinese_words_in_all_conversations(host, bollard) -> None:
    for room, text in (("lake-1", "我想去杭州西湖划船"), ("lake-2", "只想去杭州")):
        bollard("chat", "--agent", "echo", "--conversation", room, "--message", text, **host.variables)
    found = bollard("conversations", "search", "杭州划船", **host.variables).json["items"]
    assert [(item["conversation_id"], item["role"]) for item in found] == [("lake-1", "assistant"), ("lake-1", "user")]
    assert found[1]["snippet"] == "我想去杭州西湖划船"
    shown = bollard("conversations", "search", "杭州", "划船", "--limit", "1", "--text", **host.variables).out
    assert "lake-1" in shown
    assert "… more messages exist" in shown
    none = bollard("conversations", "search", "吐鲁番", "--text", "--lang", "zh_Hans", **host.variables)
    assert none.out.strip() == "没有消息包含这些词"
    refused = bollard("conversations", "search", "!?", "--lang", "zh_Hans", **host.variables)
    assert refused.code == 4
    assert "搜索内容里没有词" in refused.err


class _HiddenMatches(http.server.BaseHTTPRequestHandler):
    """A search whose first pages hold no message that the person may see."""

    hidden = 0

    def do_GET(self) -> None:
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        number = int(asked.get("cursor", ["0"])[0])
        page = {"items": [], "has_more": True, "next_cursor": str(number + 1)}
        if number >= self.hidden:
            message = {"conversation_id": "c1", "role": "user", "snippet": "found it", "created_at": 1.0}
            page = {"items": [message], "has_more": False}
        body = json.dumps(page).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 -- the name of the base class
        del format, args


@pytest.mark.parametrize(("hidden", "found"), [(3, "found it"), (SEARCH_PAGES, "")])
def test_a_search_reads_on_behind_hidden_matches_up_to_a_bound(bollard, hidden: int, found: str) -> None:
    handler = type("Handler", (_HiddenMatches,), {"hidden": hidden})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = {"BOLLARD_URL": f"http://127.0.0.1:{server.server_port}", "BOLLARD_TOKEN": "t"}
        page = bollard("conversations", "search", "it", **address).json
        server.shutdown()
    assert "".join(item["snippet"] for item in page["items"]) == found
    assert page["has_more"] is (found == "")


def test_an_absent_conversation_is_a_host_problem(host, bollard) -> None:
    refused = bollard("conversations", "show", "nowhere", **host.variables)
    assert refused.code == 4
    assert "there is no such conversation" in refused.err
    wrong = bollard("conversations", "list", "--limit", "0", **host.variables)
    assert (wrong.code, "--limit 0 is out of range" in wrong.err) == (2, True)


def test_an_artifact_is_shown_and_fetched(host, bollard, artifact, tmp_path) -> None:
    shown = bollard("artifacts", "show", artifact, **host.variables).json
    assert (shown["size_bytes"], shown["sha256"]) == (len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    target = tmp_path / "content"
    told = bollard("artifacts", "get", artifact, str(target), **host.variables).json
    assert (told["bytes"], target.read_bytes() == CONTENT) == (len(CONTENT), True)
    assert [path.name for path in tmp_path.iterdir()] == ["content"]


def test_a_failed_download_leaves_no_file(host, bollard, tmp_path) -> None:
    refused = bollard("artifacts", "get", "art_nowhere", str(tmp_path / "content"), **host.variables)
    assert (refused.code, list(tmp_path.iterdir())) == (4, [])
    elsewhere = bollard("artifacts", "get", "art_nowhere", str(tmp_path / "no" / "content"), **host.variables)
    assert elsewhere.code == 2


def test_an_artifact_is_removed_before_its_expiry(host, bollard) -> None:
    artifact = brought(host, "upload-2")
    told = bollard("artifacts", "remove", artifact, "--text", **host.variables)
    assert (told.code, told.out.strip()) == (0, f"removed artifact {artifact}")
    for command in ("show", "remove"):
        assert bollard("artifacts", command, artifact, **host.variables).code == 4
