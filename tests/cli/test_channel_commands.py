"""`bollard channels` and `bollard events` against a real host."""

import json

import pytest


@pytest.fixture
def ask(bollard, steady_host):
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


def test_a_channel_is_saved_listed_shown_and_deleted(ask) -> None:
    assert ask("channels", "--text").out == "There are no channels.\n"
    body = json.dumps({"channel_id": "desk", "url": "http://127.0.0.1:9/", "abilities": {"dedupe": "native"}})
    saved = ask("channels", "save", "-", "--text", stdin=body).out
    assert saved.startswith("saved channel desk, revision 1\nsigning secret (shown once): whsec_")
    again = ask("channels", "save", "-", "--text", stdin=body).out
    assert again == "saved channel desk, revision 2\n"
    assert "desk" in ask("channels", "--text").out
    told = ask("channels", "show", "desk", "--text").out
    assert told.startswith("desk: channel of kind http\nsends to: http://127.0.0.1:9/\nenabled: yes\n")
    assert "结果未知的消息会重试" in ask("channels", "show", "desk", "--text", BOLLARD_LANG="zh_Hans").out
    assert "\nchat commands: /new, " in told
    assert "\nagents to choose with /agent: none\n" in told
    assert "\n聊天命令：/new" in ask("channels", "show", "desk", "--text", BOLLARD_LANG="zh_Hans").out
    shown = ask("channels", "show", "desk").json
    assert (shown["secret"], ask("channels", "save", "-", stdin=json.dumps(shown)).json["revision"]) == ("__kept__", 3)
    assert ask("channels", "deliveries", "--text").out == "There are no deliveries yet.\n"
    assert ask("channels", "delete", "desk", "--text").out == "deleted channel desk\n"
    gone = ask("channels", "show", "desk")
    assert gone.err == "bollard: the host says: there is no such channel\nhint: `bollard channels` lists them\n"


def test_an_undelivered_answer_is_listed_with_the_reason(ask, bollard) -> None:
    agent = ask("agents", "new", "teller", "--runner", "echo").json
    agent["policy"]["delivery"] = {"target": "nowhere:ops"}
    ask("agents", "save", "-", stdin=json.dumps(agent))
    answer = ask("events", "post", "--type", "alarm.raised", "--agent", "teller", "--message", "fire").json
    ask("runs", "watch", answer["run_id"])
    listed = ask("channels", "deliveries", "--channel", "nowhere").json["items"]
    assert [(item["run_id"], item["target"]) for item in listed] == [(answer["run_id"], "ops")]
    assert "nowhere" in ask("channels", "deliveries", "--text").out
    ask("agents", "delete", "teller")


def test_an_event_without_a_run_is_stored_and_shown_with_the_reason(ask) -> None:
    posted = ask("events", "post", "--type", "thing.happened", "--id", "lost-1", "--data", '{"n": 1}', "--text").out
    assert "is saved but started no run: no binding matches this event\nhint: `bollard resolve`" in posted
    event = posted.split()[1]
    told = ask("events", "show", event, "--text").out
    assert told.startswith(f"{event}: thing.happened from cli, id lost-1\nreceived: ")
    assert 'run: none: no binding matches this event\ndata: {"n": 1}\n' in told
    assert "运行：无" in ask("events", "show", event, "--text", BOLLARD_LANG="zh_Hans").out
    assert ask("events", "show", event).json["reason"]["code"] == "no_binding"
    assert f"{event}: thing.happened" in ask("events", "list", "--text").out
    assert ask("events", "show", "evt_nothing").code != 0


def test_an_event_with_a_run_names_it(ask) -> None:
    answer = ask("events", "post", "--type", "webhook.received", "--agent", "echo", "--conversation", "c").json
    told = ask("events", "show", answer["event_id"], "--text").out
    assert f"run: {answer['run_id']}\nconversation: c\n" in told
