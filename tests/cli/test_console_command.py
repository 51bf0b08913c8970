"""`bollard console` and the link of `bollard up`: they sign a browser in, and only a terminal shows them."""

import http.client
import json
import os
import re
import signal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


def _sign_in(link: str) -> dict[str, Any]:
    address, _, ticket = link.partition("/#ticket=")
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    body = json.dumps({"ticket": ticket, "cookie": True})
    connection.request("POST", "/api/v1/session/ticket", body, {"Origin": address})
    with connection.getresponse() as response:
        answer = json.load(response)
        assert response.status == 201, answer
    connection.close()
    return answer


def test_the_host_prints_a_link_on_a_terminal_that_signs_the_installation_in(terminal: Any, tmp_path: Path) -> None:
    shown = terminal("up", "--port", "0", XDG_CONFIG_HOME=str(tmp_path / "config"), BOLLARD_BUILTIN_PLUGINS="no")
    link = re.search(r"http://\S+/#ticket=blt_[\w-]+", shown.expect(r"works once, for 10 minutes\)"))[0]
    begun = _sign_in(link)
    assert (begun["kind"], begun["name"]) == ("installation", "admin-token")
    os.kill(shown.pid, signal.SIGTERM)
    assert shown.end() == 0
    assert "#ticket" not in (tmp_path / "config/bollard/credentials.json").read_text(encoding="utf-8")


def test_the_command_prints_another_link_for_its_caller(host: Any, terminal: Any) -> None:
    shown = terminal("console", "--url", host.url, "--token", host.token, columns=200)
    link = re.search(r"http://\S+/#ticket=blt_[\w-]+", shown.expect(r"works once, for 10 minutes\)"))[0]
    assert shown.end() == 0
    assert link.startswith(f"{host.url}/#")
    assert _sign_in(link)["name"] == "admin-token"


def test_a_pipe_gets_no_link(host: Any, bollard: Any) -> None:
    done = bollard("console", "--url", host.url, "--token", host.token, "--text")
    assert done.code == 2
    assert "ticket=" not in done.out + done.err
    assert "the link is a secret" in done.err
    assert "--open" in done.err


def test_the_link_opens_in_the_browser(host: Any, bollard: Any, tmp_path: Path) -> None:
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {tmp_path}/opened\n', encoding="utf-8")
    browser.chmod(0o755)
    done = bollard("console", "--open", "--url", host.url, "--token", host.token, BROWSER=f"{browser} %s")
    assert done.code == 0, done.err
    assert json.loads(done.out) == {"opened": host.url}
    assert _sign_in((tmp_path / "opened").read_text(encoding="utf-8"))["name"] == "admin-token"


def test_a_machine_without_a_browser_is_a_problem_with_a_hint(host: Any, bollard: Any) -> None:
    done = bollard("console", "--open", "--text", "--url", host.url, "--token", host.token, BROWSER="/bin/false %s")
    assert done.code == 2
    assert "no browser could be opened" in done.err
