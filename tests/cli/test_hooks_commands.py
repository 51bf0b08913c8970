"""`bollard hooks` against a real host."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def ask(bollard, steady_host):
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


def test_a_route_is_created_shown_tested_and_deleted(ask, tmp_path: Path) -> None:
    assert ask("hooks", "--text").out == "There are no webhook routes.\n"
    created = ask("hooks", "new", "repo", "--verifier", "github", "--agent", "echo", "--message", "{body.title}")
    assert (created.json["hook_id"], created.json["url"].endswith("/hooks/repo")) == ("repo", True)
    assert len(created.json["secret"]) > 32
    twice = ask("hooks", "new", "repo", "--verifier", "gitlab")
    assert (twice.code, "is at revision 1" in twice.err) == (4, True)
    told = ask("hooks", "show", "repo", "--text").out
    assert told.startswith("repo: webhook route, verifier github\nagent: echo\nenabled: yes\n")
    assert "text: {body.title}\n" in told
    assert "Webhook 路由，验证方式 github" in ask("hooks", "show", "repo", "--text", BOLLARD_LANG="zh_Hans").out
    shown = ask("hooks", "show", "repo").json
    assert (shown["secret"], ask("hooks", "save", "-", stdin=json.dumps(shown)).json["revision"]) == ("__kept__", 2)

    sample = tmp_path / "issue.json"
    sample.write_text('{"title": "It breaks"}', encoding="utf-8")
    arguments = ("hooks", "test", "repo", "--sample", str(sample), "--header", "X-GitHub-Event=issues")
    dry = ask(*arguments, "--dry-run", "--text").out
    assert dry.startswith("event webhook.received, topic issues\n")
    assert dry.endswith('text: It breaks\ndata: {"title": "It breaks"}\ndry run: nothing was saved\n')
    assert ask("hooks", "deliveries", "repo", "--text").out == "There are no requests yet.\n"
    sent = ask(*arguments).json
    assert sent["answer"]["status"] == 202
    listed = ask("hooks", "deliveries", "repo", "--text").out
    assert "accepted" in listed
    assert json.loads(sent["answer"]["body"])["run_id"] in listed
    assert ask("hooks", "delete", "repo", "--text").out == "deleted webhook route repo\n"
    gone = ask("hooks", "show", "repo")
    assert gone.err == "bollard: the host says: there is no such hook\nhint: `bollard hooks` lists them\n"


def test_a_sender_that_makes_its_secret_needs_a_file_with_it(ask, tmp_path: Path) -> None:
    refused = ask("hooks", "new", "shop", "--verifier", "stripe")
    assert (refused.code, "stripe makes the secret itself" in refused.err) == (4, True)
    chinese = ask("hooks", "new", "shop", "--verifier", "stripe", BOLLARD_LANG="zh_Hans").err
    assert "密钥由 stripe 生成" in chinese
    secret = tmp_path / "secret"
    secret.write_text("whsec_of_the_shop_itself\n", encoding="utf-8")
    saved = ask("hooks", "new", "shop", "--verifier", "stripe", "--secret-file", str(secret))
    assert saved.json["secret"] == "whsec_of_the_shop_itself"
    assert ask("hooks", "delete", "shop").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("hooks", "new", "x", "--verifier", "githb"), "github"),
        (("hooks", "test", "x", "--sample", "/nowhere/at/all"), "/nowhere/at/all"),
        (("hooks", "test", "x", "--sample", "-", "--header", "no pair"), "NAME=VALUE"),
    ],
)
def test_a_wrong_argument_is_named(ask, arguments, words: str) -> None:
    answer = ask(*arguments, stdin="{}")
    assert (answer.code, words in answer.err) == (2, True), answer.err


def test_a_wrong_template_is_explained_in_both_languages(ask) -> None:
    body = {"hook_id": "bad", "verifier": {"kind": "github"}, "event": {"text": "{env.HOME}"}}
    assert "no path below body" in ask("hooks", "save", "-", stdin=json.dumps(body)).err
    assert "占位符 env" in ask("hooks", "save", "-", stdin=json.dumps(body), BOLLARD_LANG="zh_Hans").err
    body["event"] = {"text": "{"}
    assert "{{ 或 }}" in ask("hooks", "save", "-", stdin=json.dumps(body), BOLLARD_LANG="zh_Hans").err
