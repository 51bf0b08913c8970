"""The catalogue through the API: search, README, and installation with the operations of plugins, skills, servers."""

import functools
import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.replacement import replace
from tests.tables import for_each

from bollard.host.catalogue.index import check_index, sign_index
from bollard.trust.keys import SigningKey

pytestmark = pytest.mark.full

CATALOGUE, PLUGINS = "/api/v1/catalogue", "/api/v1/plugins"
KEY = SigningKey(b"k" * 32)
RUNNER = """
from bollard.sdk import RunContext, runner

@runner(label="Aid", permissions={"history": ["page"]})
async def aid(ctx: RunContext):
    yield ctx.completed("helped")
"""
README = "# Aid\n\n<script>alert(1)</script>[x](javascript:alert(2))![y](https://evil.example/pixel.png)"


class Quiet(SimpleHTTPRequestHandler):
    def log_request(self, *_: Any) -> None:
        """Nothing."""


def archive_of(text: str, name: str = "aid.py") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, text)
    return out.getvalue()


def publish(folder: Path, issued_at: int = 1795000000, **files: bytes) -> None:
    """An index of a plugin, one with a wrong version, and a skill, beside these files."""
    skill = {"files": [{"path": "SKILL.md", "text": "---\nname: tidy\ndescription: Tidies up.\n---\nTidy.\n"}]}
    named = {"aid.md": README.encode(), "aid.zip": archive_of(RUNNER), "tidy.json": json.dumps(skill).encode(), **files}
    for name, data in named.items():
        (folder / name).write_bytes(data)

    def file(name: str) -> dict[str, str]:
        return {"path": name, "sha256": hashlib.sha256(named[name]).hexdigest()}

    words = {"label": {"en_US": "Aid", "zh_Hans": "帮手"}, "description": {"en_US": "Helps writers."}}
    plugin = {"kind": "plugin", "name": "local/aid", "version": "0", "content": file("aid.zip"), **words}
    items = [
        {"item_id": "aid", "readme": {"en_US": file("aid.md")}, **plugin},
        {"item_id": "other", **plugin, "version": "7"},
        {"item_id": "tidy", **plugin, "kind": "skill", "name": "tidy", "version": "", "content": file("tidy.json")},
    ]
    index = check_index({"format": 1, "name": "Ours", "issued_at": issued_at, "items": items})
    (folder / "index.json").write_text(json.dumps(sign_index(index, KEY).to_wire()), encoding="utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("site")
    publish(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    server.folder = folder  # type: ignore[attr-defined]
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def shop(settings: Any, site: Any, start_module_host: Any, client_of: Any) -> Any:
    url = f"http://127.0.0.1:{site.server_port}/index.json"
    host = start_module_host(replace(settings, catalogue_url=url, catalogue_key=KEY.verify_key.public.hex()))
    return client_of(host.port, host.token)


def install(shop: Any, body: Any, method: str = "POST", path: str = PLUGINS, **more: Any) -> Any:
    return shop.send(method, path, body, content_type="application/json", **more)


def refs(answer: Any) -> list[str]:
    assert answer.status == 200, answer.body
    return [item["ref"] for item in answer.json["items"]]


@for_each(
    ("query", "found"),
    [
        ("search=aid&kind=plugin", ["bundled/writing-aid", "remote/aid", "remote/other"]),
        ("search=%E5%B8%AE%E6%89%8B", ["remote/aid", "remote/other", "remote/tidy"]),
        ("search=MCP%20github", ["bundled/mcp-github"]),
        ("search=nothing-like-it", []),
        ("kind=skill", ["bundled/greeting", "remote/tidy"]),
    ],
)
def test_items_of_every_catalogue_are_found_by_words_and_kind(shop: Any, query: str, found: list[str]) -> None:
    assert refs(shop.get(f"{CATALOGUE}?{query}")) == found


def test_the_list_has_pages(shop: Any) -> None:
    whole = refs(shop.get(f"{CATALOGUE}?limit=100"))
    first = shop.get(f"{CATALOGUE}?limit=5")
    rest = shop.get(f"{CATALOGUE}?limit=100&cursor={first.json['next_cursor']}")
    assert refs(first) + refs(rest) == whole


def test_a_plugin_is_installed_with_the_consent_of_every_plugin(shop: Any) -> None:
    item = shop.get(f"{CATALOGUE}/remote/aid").json
    assert (item["readme"]["en_US"], item["installed"]) == (README, None)
    read = install(shop, {"catalogue": "remote/aid"}, path=f"{PLUGINS}/inspect").json
    assert (read["plugin_id"], read["asks"]["runners"]) == ("local/aid", {"default": ["history.page"]})
    refused = install(shop, {"catalogue": "remote/aid"})
    assert (refused.status, refused.error["code"]) == (409, "consent_needed")
    assert refused.error["details"]["consent"] == read["consent"]
    made = install(shop, {"catalogue": "remote/aid", "consent": read["consent"]})
    assert (made.status, made.json["source"], made.json["status"]) == (201, "remote/aid", "ready")
    assert shop.get(f"{CATALOGUE}/remote/aid").json["installed"] == {"version": "0", "origin": "installed"}
    same = install(shop, {"catalogue": "remote/aid"}, "PUT", f"{PLUGINS}/local/aid")
    assert (same.status, same.json["digest"]) == (200, read["digest"])
    assert shop.delete(f"{PLUGINS}/local/aid").status == 200


def test_a_skill_and_a_server_are_saved_with_their_own_operations_and_replace_nothing(shop: Any) -> None:
    body = {**shop.get(f"{CATALOGUE}/remote/tidy").json["skill"], "revision": 0}
    assert shop.put("/api/v1/skills/tidy", body).status == 201
    assert shop.put("/api/v1/skills/tidy", body).error["code"] == "conflict"
    assert shop.get(f"{CATALOGUE}?search=tidy").json["items"][0]["installed"] == {"version": "", "origin": "saved"}
    item = shop.get(f"{CATALOGUE}/bundled/mcp-github").json
    assert item["secrets"] == ["GITHUB_TOKEN"]
    saved = shop.put("/api/v1/mcp-servers/github", {**item["server"], "revision": 0, "enabled": False})
    assert saved.status == 201, saved.body
    for path in ("/api/v1/skills/tidy", "/api/v1/mcp-servers/github"):
        assert shop.delete(path).status == 200


@for_each(
    ("body", "status", "reason"),
    [
        ({"catalogue": "remote/other"}, 502, "other_plugin"),
        ({"catalogue": "remote/tidy"}, 400, "catalogue_not_plugin"),
        ({"catalogue": "remote/none"}, 404, "catalogue_item"),
        ({"catalogue": "nowhere/aid"}, 404, "catalogue_item"),
        ({"catalogue": "../aid"}, 400, "field"),
        ({"catalogue": "remote/aid", "package": "acme"}, 400, "plugin_origin"),
        ({}, 400, "plugin_origin"),
    ],
)
def test_what_is_no_plugin_of_a_catalogue_is_not_installed(shop: Any, body: Any, status: int, reason: str) -> None:
    for path in (PLUGINS, f"{PLUGINS}/inspect"):
        refused = install(shop, body, path=path)
        assert (refused.status, refused.error["details"]["reason"]) == (status, reason), refused.body


def test_a_file_that_was_changed_is_not_installed(shop: Any, site: Any) -> None:
    (site.folder / "aid.zip").write_bytes(archive_of(RUNNER + "\n# changed\n"))
    try:
        refused = install(shop, {"catalogue": "remote/aid", "consent": "0" * 64})
        assert (refused.status, refused.error["code"], refused.error["details"]["reason"]) == (
            502,
            "catalogue_unavailable",
            "digest",
        )
        assert shop.get(f"{PLUGINS}/local/aid").status == 404
    finally:
        publish(site.folder)


def test_a_reader_sees_the_catalogue_but_not_what_others_have_and_installs_nothing(shop: Any) -> None:
    assert shop.put("/api/v1/mcp-servers/github", {"command": "x", "enabled": False}).status == 201
    token = shop.post("/api/v1/keys", {"name": "reader", "rights": ["plugins.read"]}).json["token"]
    (item,) = shop.get(f"{CATALOGUE}?search=github", token=token).json["items"]
    assert item["installed"] is None
    assert install(shop, {"catalogue": "bundled/echo"}, token=token).status == 403
    none = shop.post("/api/v1/keys", {"name": "none", "rights": ["runs.read"]}).json["token"]
    assert shop.get(CATALOGUE, token=none).status == 403
    assert shop.delete("/api/v1/mcp-servers/github").status == 200


def test_a_catalogue_that_cannot_be_used_says_why_and_the_bundled_one_stays(
    settings: Any, site: Any, tmp_path: Path, start_host: Any, client_of: Any
) -> None:
    url = f"http://127.0.0.1:{site.server_port}/index.json"
    host = start_host(
        replace(settings, data=tmp_path / "data", database="", catalogue_url=url, catalogue_key="0" * 63 + "1")
    )
    client = client_of(host.port, host.token)
    bundled, remote = client.get("/api/v1/catalogue-sources").json["items"]
    assert (bundled["problem"], remote["items"]) == (None, 0)
    assert remote["problem_details"]["reason"] == "signature"
    assert all(ref.startswith("bundled/") for ref in refs(client.get(CATALOGUE)))
    assert client.get(f"{CATALOGUE}/remote/aid").error["details"]["reason"] == "signature"
