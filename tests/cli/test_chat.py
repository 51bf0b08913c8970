"""`bollard chat` against a real host, behind pipes and behind a pseudo-terminal."""

import json
import signal

import pytest

pytestmark = pytest.mark.full


CTRL_C, CTRL_D = "\x03", "\x04"


def test_each_line_of_a_pipe_is_a_message_and_each_record_a_json_line(bollard, host) -> None:
    done = bollard("chat", "--json", "--agent", "echo", stdin="one\n\ntwo\n", **host.variables)

    assert (done.code, done.err) == (0, "")
    ends = [line for line in done.lines if line["type"] == "run.ended"]
    assert [line["data"]["status"] for line in ends] == ["completed", "completed"]
    whole = [line["data"]["message"]["content"] for line in done.lines if line["type"] == "message.completed"]
    assert whole == ["you said: one", "you said: two"]
    for end in ends:
        records = [line for line in done.lines if line["run_id"] == end["run_id"]]
        assert [line["seq"] for line in records] == list(range(1, len(records) + 1))


def test_a_pipe_gets_only_the_answers(bollard, host) -> None:
    done = bollard("chat", stdin="count 3\nhello\n", **host.variables)

    assert (done.code, done.err) == (0, "")
    counted, said = done.out.splitlines()
    assert counted == "1 2 3 "
    assert said.startswith("Hello! 你好！ You said: hello.")


def test_verbose_prints_the_rest_to_stderr(bollard, host) -> None:
    done = bollard("chat", "--verbose", "--message", "count 3", **host.variables)

    assert (done.code, done.out) == (0, "1 2 3 \n")
    assert f"Demo demo at {host.url}, conversation cli-" in done.err
    assert "Default agent: the workspace default has no model; add one: `bollard models add --preset NAME`" in done.err
    assert "state conversation.count = 3" in done.err
    assert "completed · " in done.err


def test_a_failed_run_is_shown_with_a_hint(bollard, host) -> None:
    done = bollard("chat", "--text", "--message", "fail", **host.variables)

    assert done.code == 1
    assert "failed · runner.error · you asked me to fail" in done.err
    assert (
        "hint: The runner of the plugin bollard/demo failed. Its log says more: `bollard plugin logs bollard/demo`."
        in done.err
    )


def test_the_chat_supports_chinese(bollard, host) -> None:
    done = bollard("chat", "--text", "--message", "失败", BOLLARD_LANG="zh_Hans", **host.variables)

    assert done.err.startswith("  失败 · ")
    assert "失败 · runner.error · 是你让我失败的" in done.err
    assert (
        "提示：插件 bollard/demo 的运行器执行失败。详情请看它的日志：`bollard plugin logs bollard/demo`。" in done.err
    )


def test_messages_of_one_chat_share_a_conversation(bollard, host) -> None:
    bollard("chat", "--conversation", "of-this-test", "--message", "a", "--message", "b", **host.variables)

    runs = bollard("runs", "list", "--limit", "100", **host.variables).json["items"]
    assert len([run for run in runs if run.get("conversation_id") == "of-this-test"]) == 2


def test_an_absent_agent_is_refused_with_the_existing_ones(bollard, host) -> None:
    done = bollard("chat", "--agent", "nobody", "--message", "hi", **host.variables)

    assert (done.code, done.out) == (2, "")
    known = "bollard: the host has no agent 'nobody'; it has: assistant, demo, echo\n"
    assert done.err == f"{known}hint: choose with --agent, in a chat with /agents\n"


def test_an_agent_without_its_runner_is_not_reported_as_unknown(bollard, new_host, write) -> None:
    lines = (
        "from bollard.sdk import RunContext, runner",
        "@runner(label='Brief')",
        "async def brief(ctx: RunContext):",
    )
    plugin = str(write("brief.py", "\n".join(lines) + "\n    yield ctx.delta('x')\n"))
    host = new_host().start("--plugins", plugin, agents=("brief",))
    saved = bollard("agents", "new", "mine", "--runner", "brief", **host.variables).json
    assert bollard("agents", "save", "-", stdin=json.dumps(saved), **host.variables).code == 0
    host.signal(signal.SIGTERM)

    host.start()
    done = bollard("chat", "--agent", "mine", "--message", "hi", **host.variables)

    assert (done.code, done.out) == (2, "")
    sentence, hint = done.err.splitlines()
    assert sentence == "bollard: agent mine is saved, but its runner plugin:local/brief/default is unavailable"
    assert hint == "hint: check with `bollard plugin list` that its plugin is installed, enabled and healthy"


def test_an_empty_message_is_not_sent(bollard, host) -> None:
    before = len(bollard("runs", "list", "--limit", "100", **host.variables).json["items"])
    done = bollard("chat", "--message", "hi", "--message", " ", **host.variables)

    assert (done.code, done.out) == (2, "")
    assert done.err == "bollard: the message is empty\nhint: write a message, or omit --message to chat\n"
    assert len(bollard("runs", "list", "--limit", "100", **host.variables).json["items"]) == before


def test_a_refusal_of_the_host_is_shown_in_chinese(bollard, host) -> None:
    done = bollard("runs", "cancel", "run_none", BOLLARD_LANG="zh_Hans", **host.variables)

    assert done.err == "bollard: 主机答复：没有这个运行\n提示：用 `bollard runs` 查看最新的运行\n"


def test_a_conversation_on_a_terminal(screen, host) -> None:
    shell = screen("chat", **host.variables)
    shell.expect(r"Demo demo at http://127\.0\.0\.1:\d+, conversation cli-\w+")
    shell.expect("Default agent: the workspace default has no model")
    shell.expect(r"Ctrl-C stops the answer, Ctrl-D leaves\. Commands: /help")
    shell.expect("^›")
    shell.send("hello\n")
    shell.expect("You said: hello")
    shell.send(CTRL_D)
    assert shell.end() == 0
    assert "completed" not in shell.text
    assert "›" not in shell.text.partition("You said: hello")[2]  # nothing of the input line is left


def test_text_appears_during_the_run_and_ctrl_c_cancels_it(screen, bollard, host) -> None:
    shell = screen("chat", "--conversation", "to-be-stopped", **host.variables)
    shell.expect("^›")
    shell.send("slow\n")
    shell.expect("I take my time")
    assert "cancelled" not in shell.text
    shell.send(CTRL_C)
    shell.expect("stopping the run; press Ctrl-C again to leave")
    shell.expect("cancelled · ")
    shell.expect("^›")
    shell.send("hello\n")
    shell.expect("You said: hello")
    shell.expect("^›")
    shell.send(CTRL_D)
    assert shell.end() == 0
    assert "That was all" not in shell.text
    stopped = bollard("runs", "list", "--status", "cancelled", **host.variables).json["items"]
    assert [run["conversation_id"] for run in stopped].count("to-be-stopped") == 1


def test_a_second_ctrl_c_exits(screen, new_host, write) -> None:
    host = new_host()
    stubborn = write(
        "stubborn.py",
        """
        import asyncio
        from bollard.sdk import RunContext, runner
        @runner()
        async def stubborn(ctx: RunContext):
            yield ctx.delta("here I stand")
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    pass
        """,
    )
    host.start("--plugins", str(stubborn), agents=("stubborn",), BOLLARD_BUILTIN_PLUGINS="false")
    shell = screen("chat", **host.variables)
    shell.expect("^›")
    shell.send("go\n")
    shell.expect("here I stand")
    shell.send(CTRL_C)
    shell.expect("stopping the run; press Ctrl-C again to leave")
    shell.send(CTRL_C)
    assert shell.end() == 130


def test_a_line_typed_during_a_run_is_the_next_message(screen, host) -> None:
    shell = screen("chat", **host.variables)
    shell.expect("^›")
    shell.send("slow\n")
    shell.expect("I take my time")
    shell.send("count 2\n")
    shell.expect("queued until this run ends")
    shell.expect("That was all")
    shell.expect("› count 2")
    shell.expect("^1 2$")


def test_a_line_typed_during_a_run_that_can_be_steered_joins_it(screen, steady_host) -> None:
    shell = screen("chat", "--agent", "steady", **steady_host.variables)
    shell.expect("Enter sends, also into an answer in progress")
    shell.expect("^›")
    shell.send("go\n")
    shell.expect("step 1: ")
    shell.send("use blue\n")
    shell.expect("sent into the run")
    shell.expect("The run has read your message.")
    shell.expect("told: use blue")
    shell.send("enough\n")
    shell.expect("told: enough")
    shell.expect("^›")
    shell.send(CTRL_D)
    assert shell.end() == 0


def test_an_unread_line_is_answered_once_by_its_own_run(screen, bollard, steady_host) -> None:
    shell = screen("chat", "--agent", "deaf", "--conversation", "unread", **steady_host.variables)
    shell.expect("^›")
    shell.send("wait\n")
    shell.expect("I do not listen: wait")
    shell.send("one\n")
    shell.expect("sent into the run")
    shell.send("two\n")
    shell.expect("sent into the run")
    shell.expect("The run ended before reading your message; answering it now.")
    shell.expect("› one")
    shell.expect("I do not listen: one")
    shell.expect("› two")
    shell.expect("I do not listen: two")
    shell.expect("^›")
    shell.send(CTRL_D)
    assert shell.end() == 0
    runs = bollard("runs", "list", "--agent", "deaf", **steady_host.variables).json["items"]
    assert len([run for run in runs if run["conversation_id"] == "unread"]) == 3


def test_stopping_a_run_drops_its_steering_messages(screen, bollard, steady_host) -> None:
    shell = screen("chat", "--agent", "deaf", "--conversation", "stopped", **steady_host.variables)
    shell.expect("^›")
    shell.send("stay\n")
    shell.expect("I do not listen: stay")
    shell.send("one\n")
    shell.expect("sent into the run")
    shell.send(CTRL_C)
    shell.expect("Your message was dropped with the run.")
    shell.expect("cancelled")
    shell.expect("1 queued messages were dropped with the run")
    shell.expect("^›")
    shell.send(CTRL_D)
    assert shell.end() == 0
    runs = bollard("runs", "list", "--agent", "deaf", **steady_host.variables).json["items"]
    assert [run["status"] for run in runs if run["conversation_id"] == "stopped"] == ["cancelled"]


def test_stopping_a_run_also_cancels_the_runs_queued_behind_it(screen, bollard, steady_host) -> None:
    shell = screen("chat", "--agent", "deaf", "--conversation", "behind", **steady_host.variables)
    shell.expect("^›")
    shell.send("wait\n")
    shell.expect("I do not listen: wait")
    for _ in range(2):
        shell.send("stay\n")
        shell.expect("sent into the run")
    shell.expect("› stay")  # the first has its own run now, and the second waits for it
    shell.expect("I do not listen: stay")
    shell.send("stay\n")
    shell.expect("queued until this run ends")
    shell.send(CTRL_C)
    shell.expect("cancelled")
    shell.expect("2 queued messages were dropped with the run")
    shell.expect("^›")
    shell.send(CTRL_D)
    assert shell.end() == 0
    runs = bollard("runs", "list", "--agent", "deaf", **steady_host.variables).json["items"]
    behind = [run["run_id"] for run in runs if run["conversation_id"] == "behind"]
    ends = [bollard("runs", "watch", run, **steady_host.variables).lines[-1]["data"]["status"] for run in behind]
    assert ends == ["cancelled", "cancelled", "cancelled", "completed"]


def test_a_revocation_is_shown_to_readers_of_the_run(screen, bollard, ada, steady_host) -> None:
    run = ada("watched")
    shell = screen("runs", "watch", run.run_id, **steady_host.variables)
    shell.expect("step 1: history read")
    bollard("runs", "revoke", run.run_id, "--operation", "history.page", **steady_host.variables)
    shell.expect(r"revoked from the run: history\.page")
    shell.expect(r"api history\.page denied: revoked")
    bollard("runs", "cancel", run.run_id, **steady_host.variables)
    shell.expect("cancelled")
    assert shell.end() == 1
    run.end()


def test_a_killed_and_restarted_host_ends_the_run_in_the_same_chat(screen, new_host) -> None:
    host = new_host().start()
    shell = screen("chat", **host.variables)
    shell.expect("^›")
    shell.send("slow\n")
    shell.expect("I take my time")
    host.signal(signal.SIGKILL)
    shell.expect("connection lost")
    host.start()
    shell.expect("reconnected")
    shell.expect(r"failed · host\.lost")
    shell.expect("hint: The host stopped during the run. Send the message again.")
    shell.expect("^›")
    shell.send("hello\n")
    shell.expect("You said: hello")
    shell.send(CTRL_D)
    assert shell.end() == 0


def test_a_stream_read_before_and_after_a_kill_has_no_holes(started, new_host) -> None:
    host = new_host().start()
    chat = started("chat", "--json", "--message", "slow", **host.variables)
    assert chat.stdout is not None
    seen = [json.loads(chat.stdout.readline()) for _ in range(6)]
    host.signal(signal.SIGKILL)
    host.start()
    seen += [json.loads(line) for line in chat.stdout]

    assert chat.wait() == 1
    assert seen[-1]["data"] == {"status": "failed", "code": "host.lost", "error": seen[-1]["data"]["error"]}
    place = 0
    for line in seen:
        if line["type"] == "gap":
            assert line["data"]["reason"] == "uncommitted"
            assert line["data"]["last"] == place
            place = line["data"]["first"] - 1
        else:
            assert line["seq"] == place + 1
            place = line["seq"]


def test_without_a_host_the_command_fails_at_once(bollard) -> None:
    done = bollard("chat", "--url", "http://127.0.0.1:1", "--token", "x", "--message", "hi")

    assert (done.code, done.out) == (4, "")
    problem, hint = done.err.splitlines()
    assert problem == "bollard: no host answers at http://127.0.0.1:1 (Connection refused)"
    assert hint.startswith("hint: ")
    assert "start a host with `bollard up`" in hint
