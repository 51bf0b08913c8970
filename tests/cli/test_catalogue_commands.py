"""`bollard catalogue` against a real host: list, show, install with consent, and sign an index without a host."""

import json
from pathlib import Path

import pytest

from bollard.host.catalogue.index import open_index
from bollard.trust.keys import VerifyKey

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]


@pytest.fixture
def ask(bollard, steady_host):
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


def test_items_are_listed_and_shown_in_the_language_of_the_reader(ask) -> None:
    listed = ask("catalogue", "--text").out
    assert "bundled/echo" in listed
    assert "installed" in listed
    assert ask("catalogue", "list", "--search", "nothing-like-it", "--text").out == "No item matches.\n"
    shown = ask("catalogue", "show", "bundled/mcp-github", "--text", BOLLARD_LANG="zh_Hans").out
    assert shown.startswith("GitHub：MCP 服务器 github\n用你的令牌访问仓库")
    assert "需要机密 GITHUB_TOKEN：bollard secrets set GITHUB_TOKEN\n" in shown
    assert {item["kind"] for item in ask("catalogue", "list", "--kind", "skill").json["items"]} == {"skill"}
    assert ask("catalogue", "show", "echo").err.startswith("bollard: 'echo' is not an item\nhint: write it as")


def test_each_kind_is_installed_after_consent(ask) -> None:
    for ref in ("bundled/writing-aid", "bundled/greeting", "bundled/mcp-github"):
        asked = ask("catalogue", "install", ref)
        assert (asked.code, asked.out) == (2, "")
        assert "consent" in asked.err
    assert ask("catalogue", "install", "bundled/writing-aid", "--yes").json["plugin_id"] == "local/tool_agent"
    again = ask("catalogue", "install", "bundled/writing-aid", "--yes", "--text").out
    assert again.startswith("local/tool_agent is now 0 (")
    assert ask("catalogue", "install", "bundled/greeting", "--yes").json["version"]
    twice = ask("catalogue", "install", "bundled/greeting", "--yes")
    assert (twice.code, twice.out) == (4, "")
    saved = ask("catalogue", "install", "bundled/mcp-github", "--name", "code", "--yes", "--text").out
    assert saved.splitlines()[1] == "needs the secret GITHUB_TOKEN: bollard secrets set GITHUB_TOKEN"
    wrong = ask("catalogue", "install", "bundled/greeting", "--name", "hi", "--yes")
    assert wrong.err.startswith("bollard: bundled/greeting has its own name\n")
    for group, name in (("plugin", "local/tool_agent"), ("skills", "greeting"), ("mcp", "code")):
        assert ask(group, "remove", name).code == 0


def test_an_index_is_signed_with_the_digests_of_its_files(bollard, tmp_path: Path) -> None:
    (tmp_path / "greeting.json").write_text('{"files": []}', encoding="utf-8")
    draft = json.loads((ROOT / "catalogue/index.json").read_text(encoding="utf-8"))
    draft["items"] = [item for item in draft["items"] if item["item_id"] == "greeting"]
    draft["items"][0]["content"] = {"path": "greeting.json"}
    (tmp_path / "draft.json").write_text(json.dumps(draft), encoding="utf-8")
    command = ("catalogue", "sign", "draft.json", "--key", "own.key", "--out", "index.json")
    signed = bollard(*command)
    assert signed.code == 0, signed.err
    index = open_index((tmp_path / "index.json").read_bytes(), VerifyKey(bytes.fromhex(signed.json["public_key"])))
    assert [len(file.sha256 or "") for item in index.items for file in item.files] == [64]
    assert bollard(*command).json["public_key"] == signed.json["public_key"]
    (tmp_path / "greeting.json").unlink()
    missing = bollard(*command)
    assert (missing.code, "greeting.json cannot be signed" in missing.err) == (2, True)
