"""The console: its page, its files, and the page of a host that has none. No build is needed: the files are small."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.replacement import replace
from tests.tables import for_each

from bollard.host.http.console.build import PROGRESS
from bollard.host.http.console.files import accepted_encodings
from bollard.host.http.console.notice import preferred_locale
from bollard.host.settings import Settings

HTML = "text/html,application/xhtml+xml,*/*;q=0.8"
SCRIPT = b"export const greeting = 'hello';\n" * 100
INDEX = '<!doctype html><meta name="csp-nonce" content="__CSP_NONCE__"><script src="/assets/app-1a2b.js"></script>'


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(data=tmp_path_factory.mktemp("data"), builtin_plugins=False, port=0, grace_s=0.5)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "console"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text(INDEX, encoding="utf-8")
    (folder / "favicon.svg").write_text("<svg/>", encoding="utf-8")
    (folder / "assets/app-1a2b.js").write_bytes(SCRIPT)
    (folder / "assets/app-1a2b.js.gz").write_bytes(gzip.compress(SCRIPT))
    (folder / "assets/.hidden.js").write_bytes(b"hidden")
    (folder / "assets/notes.py").write_bytes(b"no type of the console")
    (folder.parent / "secret.txt").write_text("outside", encoding="utf-8")
    (folder / "assets/link.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "linked").symlink_to(folder.parent)
    return folder


@pytest.fixture(scope="module")
def page(settings: Settings, files: Path, start_module_host: Any, client_of: Any) -> Any:
    host = start_module_host(replace(settings, console_files=str(files)))
    return client_of(host.port, host.token)


@for_each("path", ["/", "/chat", "/runs/run_01", "/agents/ops%20bot"])
def test_every_path_that_the_api_does_not_use_opens_the_page(page: Any, path: str) -> None:
    answer = page.get(path, token=None, accept=HTML)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert answer.headers["cache-control"] == "no-store"
    assert b"/assets/app-1a2b.js" in answer.body


def test_the_page_has_a_strict_policy_and_a_nonce_of_its_own(page: Any) -> None:
    first, second = (page.get("/", token=None, accept=HTML) for _ in range(2))
    policy = dict(part.split(" ", 1) for part in first.headers["content-security-policy"].split("; "))
    nonce = first.body.decode().split('content="')[1].split('"')[0]
    assert policy["style-src"] == f"'self' 'nonce-{nonce}'"
    assert (policy["default-src"], policy["script-src"], policy["connect-src"]) == ("'none'", "'self'", "'self'")
    assert (policy["frame-ancestors"], policy["base-uri"]) == ("'none'", "'none'")
    assert (policy["require-trusted-types-for"], policy["trusted-types"]) == ("'script'", "bollard dompurify default")
    assert "unsafe" not in first.headers["content-security-policy"]
    assert "camera=()" in first.headers["permissions-policy"]
    assert first.headers["x-content-type-options"] == "nosniff"
    assert first.headers["referrer-policy"] == "no-referrer"
    assert first.headers["cross-origin-opener-policy"] == "same-origin"
    assert first.headers["x-frame-options"] == "DENY"
    assert nonce not in second.body.decode()


def test_answers_of_the_api_still_run_no_script(page: Any) -> None:
    for path in ("/api/v1/session", "/healthz", "/api/v1/nothing"):
        assert "script-src" not in page.get(path, accept=HTML).headers["content-security-policy"]


@for_each("path", ["/api", "/api/v1/nothing", "/hooks", "/mcp/x", "/metrics/x", "/healthz/x"])
def test_a_browser_gets_a_typed_error_at_the_paths_of_the_api(page: Any, path: str) -> None:
    answer = page.get(path, accept=HTML)
    assert (answer.status, answer.error["code"]) == (404, "not_found")


@for_each("path", ["/", "/chat", "/runs/run_01"])
def test_a_program_gets_a_typed_error_at_an_unknown_path(page: Any, path: str) -> None:
    for headers in ({}, {"accept": "application/json"}):
        answer = page.get(path, **headers)
        assert (answer.status, answer.error["code"]) == (404, "not_found")
    assert page.post(path, {}, accept=HTML).error["code"] == "not_found"


def test_a_program_that_accepts_anything_gets_the_page_at_the_root_alone(page: Any) -> None:
    assert page.get("/", token=None, accept="*/*").status == 200
    assert page.get("/chat", token=None, accept="*/*").status == 404


def test_a_file_is_compressed_for_clients_that_accept_it(page: Any) -> None:
    plain = page.get("/assets/app-1a2b.js", token=None)
    small = page.get("/assets/app-1a2b.js", token=None, accept_encoding="br;q=1, gzip")
    refused = page.get("/assets/app-1a2b.js", token=None, accept_encoding="gzip;q=0")
    assert (plain.body, "content-encoding" in plain.headers) == (SCRIPT, False)
    assert (gzip.decompress(small.body), small.headers["content-encoding"]) == (SCRIPT, "gzip")
    assert refused.body == SCRIPT
    assert {each.headers["content-type"] for each in (plain, small)} == {"text/javascript; charset=utf-8"}
    assert {each.headers["vary"] for each in (plain, small)} == {"Accept-Encoding"}
    assert small.headers["etag"] != plain.headers["etag"]


def test_files_with_a_hash_in_their_name_are_cached_for_ever_and_others_are_checked(page: Any) -> None:
    asset, icon = page.get("/assets/app-1a2b.js", token=None), page.get("/favicon.svg", token=None)
    assert asset.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert (icon.headers["cache-control"], icon.headers["content-type"]) == ("no-cache", "image/svg+xml")
    again = page.get("/favicon.svg", token=None, if_none_match=icon.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_a_file_cannot_run_script_when_it_is_opened_as_a_page(page: Any) -> None:
    assert "sandbox" in page.get("/favicon.svg", token=None).headers["content-security-policy"]


def test_head_has_the_headers_of_get_without_a_body(page: Any) -> None:
    for path, more in (("/assets/app-1a2b.js", {}), ("/", {"accept": HTML})):
        head, get = (page.send(method, path, token=None, **more) for method in ("HEAD", "GET"))
        assert (head.status, head.body) == (200, b"")
        assert head.headers["content-length"] == str(len(get.body))


@for_each(
    "path",
    [
        "/assets/absent.js",
        "/assets/link.txt",
        "/linked/secret.txt",
        "/assets/../../secret.txt",
        "/../secret.txt",
        "/assets/%2e%2e/%2e%2e/secret.txt",
        "/assets/..%2f..%2fsecret.txt",
        "/assets/%5c..%5csecret.txt",
        "/assets/.hidden.js",
        "/assets/notes.py",
        "/assets/app-1a2b.js.gz",
        "/assets/app-1a2b.js%00.txt",
        "/assets/",
        "/assets",
        "//secret.txt",
        "/index.html",
    ],
)
def test_nothing_else_is_a_file(page: Any, path: str) -> None:
    answer = page.get(path, token=None)
    assert (answer.status, answer.error["code"]) == (404, "not_found"), answer.body


def test_a_missing_file_is_not_the_page(page: Any) -> None:
    assert page.get("/assets/old-9f9f.js", token=None, accept=HTML).status == 404


def test_a_file_that_is_built_later_is_served_at_once(page: Any, files: Path) -> None:
    assert page.get("/assets/late-77.css", token=None).status == 404
    (files / "assets/late-77.css").write_text("a {}", encoding="utf-8")
    assert page.get("/assets/late-77.css", token=None).body == b"a {}"


# --- a host without built files ---


@pytest.fixture(scope="module")
def unbuilt(
    settings: Settings, tmp_path_factory: pytest.TempPathFactory, start_module_host: Any, client_of: Any
) -> Any:
    folder = tmp_path_factory.mktemp("unbuilt") / "console"
    host = start_module_host(replace(settings, data=tmp_path_factory.mktemp("data"), console_files=str(folder)))
    client = client_of(host.port, host.token)
    client.progress = folder.with_name(PROGRESS)
    return client


def _notice(client: Any, language: str = "en") -> str:
    answer = client.get("/", token=None, accept=HTML, accept_language=language)
    assert (answer.status, answer.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert "'self'" not in answer.headers["content-security-policy"]
    return answer.body.decode()


def test_a_host_without_a_console_says_how_to_get_it_in_the_language_of_the_reader(unbuilt: Any) -> None:
    unbuilt.progress.unlink(missing_ok=True)
    assert "is not built" in _notice(unbuilt)
    assert "make console" in _notice(unbuilt)
    assert "控制台尚未构建" in _notice(unbuilt, "zh-CN,zh;q=0.9,en;q=0.8")


def test_the_page_shows_the_progress_of_the_build_and_reloads_itself(unbuilt: Any) -> None:
    progress = {"state": "running", "step": "npm ci", "pid": os.getpid(), "lines": ["added <b>1</b> package"]}
    unbuilt.progress.write_text(json.dumps(progress), encoding="utf-8")
    page = _notice(unbuilt)
    assert "is being built" in page
    assert '<noscript><meta http-equiv="refresh" content="1"></noscript>' in page
    assert "location.reload(), 1000)" in page
    assert "npm ci\nadded &lt;b&gt;1&lt;/b&gt; package" in page
    assert "make console" not in page


def test_a_failed_build_shows_its_last_lines(unbuilt: Any) -> None:
    for progress in (
        {"state": "failed", "step": "npm run build", "lines": ["error TS2304"]},
        {"state": "running", "step": "npm run build", "pid": 2**22 + 1, "lines": ["error TS2304"]},
    ):
        unbuilt.progress.write_text(json.dumps(progress), encoding="utf-8")
        page = _notice(unbuilt)
        assert "failed" in page
        assert "error TS2304" in page
        assert "make console" in page


@for_each("content", ["", "{", '{"state": "odd"}', "[1]", '{"state": "running", "pid": "x"}'])
def test_an_unreadable_progress_file_counts_as_no_build(unbuilt: Any, content: str) -> None:
    unbuilt.progress.write_text(content, encoding="utf-8")
    assert "is not built" in _notice(unbuilt)


# --- pure parts ---


@for_each(
    ("header", "accepted"),
    [
        ("", {""}),
        ("gzip", {"gzip"}),
        ("gzip, deflate, br, zstd", {"gzip", "deflate", "br", "zstd"}),
        ("GZIP;q=0.5", {"gzip"}),
        ("gzip;q=0, br;q=0.0", set()),
        ("gzip; q=0.000 , br; q=1.0", {"br"}),
    ],
)
def test_encodings_with_weight_zero_are_refused(header: str, accepted: set[str]) -> None:
    assert accepted_encodings(header) == accepted


@for_each(
    ("header", "locale"),
    [("", "en_US"), ("zh", "zh_Hans"), ("de, zh-TW;q=0.5", "zh_Hans"), ("en-GB,zh", "en_US"), ("*", "en_US")],
)
def test_the_first_language_that_we_speak_is_chosen(header: str, locale: str) -> None:
    assert preferred_locale(header) == locale
