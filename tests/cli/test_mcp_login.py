"""`bollard mcp login` and `logout` against a real host, a real authorization server, and a browser that follows
redirects."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
from tests.host.mcp.conftest import Guarded, start_guarded

pytestmark = pytest.mark.full


PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    process, found = start_guarded()
    yield found
    process.terminate()
    process.wait(30)


@pytest.fixture
def ask(bollard: Any, steady_host: Any) -> Any:
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


def eventually(look: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    """The first value that satisfies the condition."""
    until = time.monotonic() + PATIENCE_S
    while not holds(seen := look()):
        assert time.monotonic() < until, seen
        time.sleep(0.05)
    return seen


@pytest.mark.smoke
def test_a_user_logs_in_to_a_server_and_logs_out(ask: Any, started: Any, steady_host: Any, guarded: Guarded) -> None:
    added = ask("mcp", "add", "guarded", "--server-url", guarded.url, "--oauth", "--scope", "read", "--text")
    assert added.out == "saved guarded; log in with `bollard mcp login guarded`\n", added.err
    eventually(lambda: ask("mcp", "show", "guarded").json, lambda shown: shown["status"] == "needs_login")
    assert "需要登录" in ask("mcp", "list", "--text", BOLLARD_LANG="zh_Hans").out

    login = started("mcp", "login", "guarded", "--text", **steady_host.variables)
    told = [login.stdout.readline().decode() for _ in range(2)]
    assert told[0].startswith("To log in to guarded")
    page = httpx2.get(told[1].strip(), follow_redirects=True)
    assert page.status_code == 200
    assert "You can close this window" in page.text
    assert "logged in to guarded" in login.stdout.read().decode()
    assert login.wait(PATIENCE_S) == 0

    shown = ask("mcp", "refresh", "guarded").json
    assert (shown["status"], shown["waiting"], shown["auth"], shown["scopes"]) == ("connected", 1, "oauth", ["read"])
    secrets = ask("secrets").out
    records = ask("audit", "show").out
    assert "mcp_server/guarded/login" in records
    assert [token for token in guarded.seen["issued"] if token in json.dumps(shown) + secrets + records] == []
    assert ask("mcp", "logout", "guarded", "--text").out == "logged out of guarded\n"
    assert "no one has logged in" in ask("mcp", "logout", "guarded").err
    assert ask("mcp", "remove", "guarded").code == 0


def test_a_redirect_without_the_state_is_ignored_and_a_refusal_ends_the_login(
    ask: Any, started: Any, steady_host: Any, guarded: Guarded
) -> None:
    assert ask("mcp", "add", "wary", "--server-url", guarded.url, "--oauth").code == 0
    login = started("mcp", "login", "wary", "--text", **steady_host.variables)
    login.stdout.readline()
    asked = httpx2.URL(login.stdout.readline().decode().strip())
    back = asked.params["redirect_uri"]
    stranger = httpx2.get(back, params={"code": "made-up", "state": "made-up"})
    assert (stranger.status_code, "The login failed." in stranger.text) == (404, True)
    refused = httpx2.get(back, params={"error": "access_denied", "state": asked.params["state"]})
    assert refused.status_code == 200
    assert login.wait(PATIENCE_S) == 2
    assert ask("mcp", "remove", "wary").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("login", "absent"), "no such MCP server"),
        (("logout", "absent"), "no such MCP server"),
        (("add", "x", "--server-url", "https://example.org", "--scope", "a"), "and --scope need --oauth"),
        (("add", "x", "--oauth", "--", "cat"), "a command has no login"),
    ],
)
def test_login_errors_have_a_hint(ask: Any, arguments: tuple[str, ...], said: str) -> None:
    refused = ask("mcp", *arguments)
    assert refused.code != 0
    assert said in refused.err
    assert "hint: " in refused.err


def test_a_login_is_imported_from_the_file_of_another_program(ask: Any) -> None:
    entry = {"url": "https://mcp.example.org/mcp", "disabled": True}
    nested = {"oauth": {"clientId": "by-hand", "clientSecret": "a-long-secret", "scopes": "read write"}}
    servers = {"flat": {**entry, "auth": "oauth", "scopes": ["read"]}, "nested": {**entry, **nested}}
    done = ask("mcp", "import", "-", stdin=json.dumps({"mcpServers": servers}))
    assert done.code == 0, done.err
    assert "a-long-secret" not in done.out
    flat, other = done.json["items"]
    assert (flat["auth"], flat["scopes"]) == ("oauth", ["read"])
    assert other["client_secret"] == "secret:mcp-nested-client_secret"
    assert (other["client_id"], other["scopes"]) == ("by-hand", ["read", "write"])
    for name in ("flat", "nested"):
        assert ask("mcp", "remove", name).code == 0
