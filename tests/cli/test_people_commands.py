"""`bollard people`, `bollard actors` and `bollard conversations delete` against a real host."""

import json

import pytest


@pytest.fixture
def ask(bollard, steady_host):
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


def test_a_person_is_exported_and_erased(ask, tmp_path) -> None:
    ask("events", "post", "--type", "note.taken", "--agent", "echo", "--message", "of dora", "--actor", "room:dora")
    out = tmp_path / "dora.jsonl"
    assert ask("people", "export", "room:dora", "--out", str(out), "--text").out.startswith("exported ")
    assert {"event.received"} <= {json.loads(line)["type"] for line in out.read_text().splitlines()}
    refused = ask("people", "erase", "room:dora")
    assert (refused.code, refused.err) == (2, "bollard: an erasure needs a confirmation\nhint: add --yes\n")
    erased = ask("people", "erase", "room:dora", "--yes", "--text").out
    assert erased.startswith("erased room:dora: ")
    again = tmp_path / "again.jsonl"
    ask("people", "export", "room:dora", "--out", str(again))
    assert again.read_text() == ""


def test_a_conversation_is_deleted(ask) -> None:
    ask("chat", "--agent", "echo", "--conversation", "short lived", "--message", "hello")
    assert ask("conversations", "delete", "short lived", "--text").out.startswith("deleted conversation short lived: ")
    assert "there is no such conversation" in ask("conversations", "show", "short lived").err


def test_a_code_for_a_user_is_made(ask) -> None:
    ask("users", "add", "cleo", "--role", "member", "--no-password")
    made = ask("actors", "code", "--user", "cleo")
    assert len(made.json["code"]) == 10
    assert "the code is wrong" in ask("actors", "link", "WRONG", "--user", "cleo").err
    ask("users", "delete", "cleo")
