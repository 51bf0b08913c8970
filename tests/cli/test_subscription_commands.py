"""`bollard subscriptions` and `bollard events --follow` against a real host."""

import contextlib
import json
import queue
import threading

import pytest


@pytest.fixture
def ask(bollard, steady_host):
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


def test_a_subscription_is_saved_listed_shown_tested_and_deleted(ask) -> None:
    assert ask("subscriptions", "--text").out == "There are no subscriptions.\n"
    body = json.dumps({"subscription_id": "alerts", "url": "http://127.0.0.1:9/", "types": ["run.failed"]})
    saved = ask("subscriptions", "save", "-", "--text", stdin=body).out
    assert saved.startswith("saved subscription alerts, revision 1\nsigning secret (shown once): whsec_")
    assert "alerts" in ask("subscriptions", "--text").out
    told = ask("subscriptions", "show", "alerts", "--text").out
    assert told == ("alerts: outgoing webhook\nsends to: http://127.0.0.1:9/\nevent types: run.failed\nenabled: yes\n")
    assert "事件类型：run.failed" in ask("subscriptions", "show", "alerts", "--text", BOLLARD_LANG="zh_Hans").out
    shown = ask("subscriptions", "show", "alerts").json
    assert ask("subscriptions", "save", "-", stdin=json.dumps(shown)).json["revision"] == 2
    tested = ask("subscriptions", "test", "alerts", "--text")
    assert (tested.code, tested.out.startswith("the test event was not delivered: ")) == (1, True)
    assert ask("subscriptions", "deliveries", "alerts", "--text").out == "There are no deliveries yet.\n"
    assert ask("subscriptions", "delete", "alerts", "--text").out == "deleted subscription alerts\n"
    gone = ask("subscriptions", "show", "alerts")
    assert (
        gone.err == "bollard: the host says: there is no such subscription\nhint: `bollard subscriptions` lists them\n"
    )


def test_events_are_followed_as_they_come(ask, started, steady_host) -> None:
    following = started("events", "--follow", "--types", "note.taken", **steady_host.variables)
    out = following.stdout
    assert out is not None
    lines: queue.Queue[bytes] = queue.Queue()
    reader = threading.Thread(target=lambda: lines.put(out.readline()), daemon=True)
    reader.start()
    for number in range(100):  # an event from before the stream is open does not come
        ask("events", "post", "--type", "note.taken", "--id", f"note-{number}", "--message", "hello")
        with contextlib.suppress(queue.Empty):
            told = json.loads(lines.get(timeout=0.2))
            break
    assert (told["type"], told["source"], told["data"]["text"]) == ("note.taken", "cli", "hello")
    following.kill()
    reader.join()


def test_a_filter_without_follow_is_refused(ask) -> None:
    refused = ask("events", "--types", "a")
    assert (refused.code, refused.err) == (
        2,
        "bollard: --types: only with --follow\nhint: add --follow, or leave these options out\n",
    )
