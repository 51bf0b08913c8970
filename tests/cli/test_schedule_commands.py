"""`bollard schedules` against a real host."""

import json

import pytest


@pytest.fixture
def ask(bollard, steady_host):
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


def test_a_schedule_is_added_listed_shown_paused_fired_and_deleted(ask) -> None:
    assert ask("schedules", "--text").out == "There are no schedules.\n"
    rule = ("--cron", "0 9 * * 1-5", "--zone", "Asia/Shanghai")
    unasked = ask("schedules", "add", "news", *rule, "--agent", "echo", "--text")
    assert unasked.code != 0
    assert "repeat with --yes" in unasked.err
    added = ask("schedules", "add", "news", *rule, "--agent", "echo", "--message", "hello", "--yes", "--text").out
    assert added.startswith("saved schedule news, revision 1\nnext:\n  20")
    again = ask("schedules", "add", "news", *rule, "--agent", "echo", "--yes", "--text")
    assert "revision 1, but revision 0 was edited" in again.err
    assert "news      0 9 * * 1-5 in" in ask("schedules", "--text").out
    told = ask("schedules", "show", "news", "--text").out
    assert told.startswith("news: 0 9 * * 1-5 in Asia/Shanghai\ntarget: echo\nmissed ticks: the last one starts\n")
    assert "错过的触发：只启动最后一次" in ask("schedules", "show", "news", "--text", BOLLARD_LANG="zh_Hans").out
    assert ask("schedules", "pause", "news", "--text").out == "paused schedule news\n"
    assert "paused\nthere is no further tick\n" in ask("schedules", "show", "news", "--text").out
    assert ask("schedules", "resume", "news", "--text").out.startswith("resumed schedule news\nnext:\n")
    fired = ask("schedules", "fire", "news").json
    assert "hello" in ask("runs", "watch", fired["run_id"], "--text").out
    shown = ask("schedules", "show", "news").json
    assert ask("schedules", "save", "-", stdin=json.dumps(shown)).json["revision"] == shown["revision"] + 1
    assert ask("schedules", "delete", "news", "--text").out == "deleted schedule news\n"


def test_a_preview_shows_a_change_to_daylight_saving_time(ask) -> None:
    rule = ("--cron", "30 2 * * *", "--zone", "America/New_York", "--start", "2027-03-13")
    shown = ask("schedules", "preview", *rule, "--text").out
    assert shown.startswith("next:\n  2027-03-13T02:30:00-05:00\n  2027-03-14T03:00:00-04:00\n")
    never = ask("schedules", "preview", "--cron", "0 0 31 2 *")
    assert never.err.startswith("bollard: the host says: schedule.cron: never fires\nhint: correct the day")
    assert "永远不会触发" in ask("schedules", "preview", "--cron", "0 0 31 2 *", BOLLARD_LANG="zh_Hans").err
    assert "错误" not in ask("schedules", "preview", "--every", "soon", BOLLARD_LANG="zh_Hans").out
    assert ask("schedules", "preview", "--every", "soon").code != 0
