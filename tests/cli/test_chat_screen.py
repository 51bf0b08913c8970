"""The screen of `bollard chat`: typing while text streams, requests that are answered in place, and narrow, dumb and
resized terminals. A real host, and a terminal that draws."""

import json
import os
import re
import signal
import stat
from pathlib import Path

import pytest

from bollard.cli.terminal.columns import width_of

pytestmark = pytest.mark.full

CTRL_C, CTRL_D, ALT_ENTER, UP = "\x03", "\x04", "\x1b\r", "\x1b[A"
TOOLS = {
    "permissions": {"tools": ["call"]},
    "resources": {"tools": {"add": ["tool:builtin/calculate", "tool:builtin/ask_user"]}},
}
CALCULATE = 'call calculate {"expression": "6 * 7"}\n'


@pytest.fixture
def clerk(bollard, host):
    """Save an agent that calls tools, with or without approval. Others use the host, so it is deleted afterwards."""
    saved: list[str] = []

    def save(agent_id: str, approval: str = "never", pause_s: float = 0.3) -> str:
        agent = {
            "agent_id": agent_id,
            "runner_id": "plugin:bollard/demo/default",
            "config": {"pause_s": pause_s},
            "policy": {"access": TOOLS, "approval": {"mode": approval}},
        }
        assert bollard("agents", "save", "-", stdin=json.dumps(agent), **host.variables).code == 0
        saved.append(agent_id)
        return agent_id

    yield save
    for agent_id in saved:
        assert bollard("agents", "delete", agent_id, **host.variables).code == 0


@pytest.mark.smoke
def test_typed_text_never_mixes_with_streamed_text(screen, host, clerk) -> None:
    shell = screen("chat", "--agent", clerk("brisk", pause_s=0.05), **host.variables)
    shell.expect("^›")
    shell.send("slow\n")
    for letter in "count 2":
        shell.expect(r"I take my time")
        shell.send(letter)
    shell.expect(r"^› count 2$")  # the draft, below the answer
    shell.expect(r"left it\. That was all\.$")
    answer = shell.text.partition("› slow\n")[2].partition("\n›")[0]
    assert " ".join(answer.split()) == (
        "I take my time, so that you can stop me in the middle of a sentence, or read me from two places at once, or "
        "lose the connection and pick up the stream where you left it. That was all."
    )
    shell.send("\n")
    shell.expect("^1 2$")
    shell.send(CTRL_D)
    assert shell.end() == 0


def test_a_sign_shows_the_working_run_until_its_first_words(screen, steady_host, write, bollard) -> None:
    silent = write(
        "silent.py",
        """
        import asyncio
        from bollard.sdk import RunContext, runner
        @runner()
        async def silent(ctx: RunContext):
            await asyncio.sleep(5)
            yield ctx.delta("at last")
        """,
    )
    assert bollard("plugin", "install", str(silent), "--yes", **steady_host.variables).code == 0
    shell = screen("chat", "--agent", "silent", **steady_host.variables)
    shell.expect("^›")
    shell.send("go\n")
    shell.expect(r"^… working$")
    shell.expect(r"^… working · 1 s$")
    shell.expect(r"^at last$")
    shell.send(CTRL_D)
    assert shell.end() == 0
    assert "working" not in shell.text


def test_an_approval_is_decided_by_one_key(screen, bollard, host, clerk) -> None:
    shell = screen("chat", "--agent", clerk("careful", "always"), **host.variables)
    shell.expect("^›")
    shell.send(CALCULATE)
    approval = shell.expect(r"^apr_\w+: waiting$").partition(":")[0]
    shell.expect(r"^Allow this call\? y once, n no, d details:$")
    rendered = bollard("approvals", "show", approval, "--text", **host.variables).out
    assert rendered in shell.text  # what the host renders, unchanged
    shell.send("x")  # no answer
    shell.send("\x1b[200~y\x1b[201~")  # nor is pasted text
    shell.send("d")
    shell.expect(rf"^  approval {approval}\n  agent careful\n  run run_\w+\n  expires at .*\n  digest [0-9a-f]+$")
    assert "… " not in shell.text, "the run waits for the person, not the person for the run"
    shell.send("y")
    shell.expect(r"^  allowed once: calculate$")
    shell.expect(r'^  tool calculate \{"expression": "6 \* 7"\} → 42$')
    shell.expect(r"^calculate answered: 42$")
    found = bollard("approvals", "show", approval, **host.variables).json
    assert (found["status"], found["decision"]) == ("used", "allow_once")
    shell.send("/details\n")
    shell.expect(r'"expression": "6 \* 7"\n')
    shell.expect(r"^    result: 42$")
    shell.send(CALCULATE)
    shell.expect(r"Allow this call\? y once, n no, d details:$")
    shell.send("n")
    shell.expect(r"^  denied: calculate$")
    shell.send(CTRL_D)
    assert shell.end() == 0


def test_attached_content_is_opened_before_a_call_is_allowed(screen, bollard, host, clerk) -> None:
    shell = screen("chat", "--agent", clerk("attached", "always"), **host.variables)
    shell.expect("^›")
    question = json.dumps({"question": "\n".join(f"line {number}" for number in range(45))})
    shell.send(f"call ask_user {question}\n")
    approval = shell.expect(r"^apr_\w+: waiting$").partition(":")[0]
    shell.expect(r"^Allow this call\?")
    shell.send("y")
    shell.expect("This call has attached content; press d to read it before you allow it.")
    assert bollard("approvals", "show", approval, **host.variables).json["status"] == "requested"
    shell.send("d")
    shell.expect(r"content 1, \d+ bytes:\n  .*line 0")
    shell.expect(r"line 44")
    shell.send("y")
    shell.expect(r"^  question: line 0")
    shell.send("read\n")
    shell.expect(r"^ask_user answered: read$")
    assert bollard("approvals", "show", approval, **host.variables).json["inspected"] is True


def test_a_message_being_typed_does_not_decide(screen, bollard, host, clerk) -> None:
    """The letters go to the message; the question waits for a pause and gives the draft back."""
    shell = screen("chat", "--agent", clerk("typing", "always"), **host.variables)
    shell.expect("^›")
    shell.send(f"{CALCULATE}y")
    approval = shell.expect(r"^apr_\w+: waiting$").partition(":")[0]
    shell.send("y")
    shell.expect(r"^› yy$")
    assert bollard("approvals", "show", approval, **host.variables).json["status"] == "requested"
    shell.expect(r"^Allow this call\?")
    shell.send("n")
    shell.expect(r"^  denied: calculate$")
    shell.expect(r"^› yy$")


def test_a_key_pressed_twice_decides_one_approval(screen, bollard, host, write) -> None:
    """The second question waits for a pause, so that its call is read before a key decides it."""
    both = write(
        "both.py",
        """
        import asyncio
        from bollard.sdk import RunContext, runner
        @runner(permissions={"tools": ["call"]})
        async def both(ctx: RunContext):
            calls = (ctx.api.tools.call("tool:builtin/calculate", {"expression": f"{n} + {n}"}) for n in (1, 2))
            await asyncio.gather(*calls)
            yield ctx.delta("both done")
        """,
    )
    assert bollard("plugin", "install", str(both), "--yes", **host.variables).code == 0
    agent = {"agent_id": "twice", "runner_id": "plugin:local/both/default"}
    agent |= {"policy": {"access": TOOLS, "approval": {"mode": "always"}}}
    assert bollard("agents", "save", "-", stdin=json.dumps(agent), **host.variables).code == 0
    shell = screen("chat", "--agent", "twice", **host.variables)
    shell.expect("^›")
    shell.send("go\n")
    shell.expect(r"^Allow this call\?")
    shell.send("y")
    shown = shell.expect(r"(?s)^  allowed once: calculate$.*^apr_\w+: waiting$")
    shell.send("y")
    shell.expect(r"^› y$")
    second = shown.rpartition("\n")[2].partition(":")[0]
    assert bollard("approvals", "show", second, **host.variables).json["status"] == "requested"
    shell.expect(r"^Allow this call\? y once, n no, d details:$")
    shell.send("y")
    shell.expect(r"^both done$")
    assert bollard("agents", "delete", "twice", **host.variables).code == 0


def test_an_approval_decided_elsewhere_removes_its_prompt(screen, bollard, host, clerk) -> None:
    shell = screen("chat", "--agent", clerk("elsewhere", "always"), **host.variables)
    shell.expect("^›")
    shell.send(CALCULATE)
    approval = shell.expect(r"^apr_\w+: waiting$").partition(":")[0]
    shell.expect(r"^Allow this call\?")
    assert bollard("approvals", "allow", approval, "--yes", **host.variables).code == 0
    shell.expect(rf"Approval {approval} was decided elsewhere")
    shell.expect(r"^calculate answered: 42$")
    assert "Allow this call?" not in shell.text


def test_a_token_without_the_right_to_decide_learns_the_missing_right(screen, bollard, host, clerk) -> None:
    """No one is asked for a decision that the host would refuse. An approver decides in both cases."""
    agent, rights = clerk("guarded", "always"), ["runs.create", "runs.read", "runs.control", "agents.read"]
    for further, missing in ([], "approvals.read"), (["approvals.read"], "approvals.decide"):
        options = [part for right in (*rights, *further) for part in ("--right", right)]
        key = bollard("keys", "add", "--name", "guest", *options, **host.variables).json
        shell = screen("chat", "--agent", agent, **{**host.variables, "BOLLARD_TOKEN": key["token"]})
        shell.expect("^›")
        shell.send(CALCULATE)
        shell.expect(f"the host says: this needs the right {missing}$")
        shell.expect("hint: ask an admin of the workspace for a role or a key that has it")
        waits = shell.expect(r"calculate waits until an approver decides: bollard approvals allow\s+apr_\w+")
        assert bollard("approvals", "allow", waits.split()[-1], "--yes", **host.variables).code == 0
        shell.expect(r"^calculate answered: 42$")
        assert "Allow this call?" not in shell.text
        shell.send(CTRL_D)
        assert shell.end() == 0
        assert bollard("keys", "delete", key["key_id"], **host.variables).code == 0


def test_ctrl_c_cancels_a_run_that_waits_for_an_approval(screen, host, clerk) -> None:
    shell = screen("chat", "--agent", clerk("stopped", "always"), **host.variables)
    shell.expect("^›")
    shell.send(CALCULATE)
    shell.expect(r"^Allow this call\?")
    shell.send(CTRL_C)
    shell.expect("stopping the run")
    shell.expect("cancelled")
    shell.expect("^›$")
    assert "Allow this call?" not in shell.text
    shell.send(CTRL_D)
    assert shell.end() == 0


@pytest.mark.parametrize("kind", ["xterm", "dumb"])
def test_a_terminated_chat_restores_the_terminal(terminal, host, kind: str) -> None:
    """Also during an answer, when no line is read."""
    shell = terminal("chat", "--agent", "demo", TERM=kind, **host.variables)
    before = shell.modes
    shell.expect("›")
    shell.send("slow\r")
    shell.expect("I take" if kind == "xterm" else "working")
    assert shell.modes != before
    os.kill(shell.pid, signal.SIGTERM)
    assert shell.end() == 143
    assert shell.modes == before
    assert shell.raw.count("\x1b[?2004h") == shell.raw.count("\x1b[?2004l")  # pasted text


def test_typed_text_answers_a_question(screen, host, clerk) -> None:
    shell = screen("chat", "--agent", clerk("asking"), **host.variables)
    shell.expect("^›")
    shell.send('call ask_user {"question": "Which colour?", "choices": ["red", "blue"]}\n')
    shell.expect(r"^  question: Which colour\?\n  1\. red\n  2\. blue\n  Type a choice or its number\.$")
    shell.send("green\n")
    shell.expect("the answer is not one of the choices")
    shell.send("2\n")
    shell.expect(r"^ask_user answered: blue$")
    shell.send('call ask_user {"question": "And your name?"}\n')
    shell.expect(r"Type your answer\.")
    shell.send("Ada\n")
    shell.expect(r"^ask_user answered: Ada$")


def test_two_lines_answer_two_questions(screen, bollard, host, write) -> None:
    pair = write(
        "pair.py",
        """
        import asyncio
        from bollard.sdk import RunContext, runner
        @runner(permissions={"tools": ["call"]})
        async def pair(ctx: RunContext):
            calls = (ctx.api.tools.call("tool:builtin/ask_user", {"question": f"Name {n}?"}) for n in (1, 2))
            await asyncio.gather(*calls)
            yield ctx.delta("thank you")
        """,
    )
    assert bollard("plugin", "install", str(pair), "--yes", **host.variables).code == 0
    agent = {"agent_id": "pair-asks", "runner_id": "plugin:local/pair/default", "policy": {"access": TOOLS}}
    assert bollard("agents", "save", "-", stdin=json.dumps(agent), **host.variables).code == 0
    shell = screen("chat", "--agent", "pair-asks", **host.variables)
    shell.expect("^›")
    shell.send("go\n")
    shell.expect(r"(?s)question: Name \d\?.*question: Name \d\?")
    shell.send("Ada\nBob\n")
    shell.expect(r"^thank you$")
    assert "→ Ada" in shell.text
    assert "→ Bob" in shell.text
    assert bollard("agents", "delete", "pair-asks", **host.variables).code == 0


def test_the_chat_commands_work(screen, bollard, host) -> None:
    shell = screen("chat", "--agent", "echo", **host.variables)
    shell.expect("^›")
    shell.send("/help\n")
    shell.expect(r"^  /stop             stop the answer$")
    shell.send("/nwe\n")
    shell.expect("There is no command /nwe; /help lists the commands.")
    shell.send("/stop\n")
    shell.expect("No answer is in progress.")
    shell.send("/details\n")
    shell.expect("The last answer called no tools.")
    first = shell.expect(r"conversation cli-\w+")
    shell.send("/new\n")
    shell.expect(rf"(?s){first}.*Echo echo at \S+, conversation cli-\w+")
    assert len(set(re.findall(r"conversation cli-\w+", shell.text))) == 2
    shell.send("/agents\n")
    shell.expect(r"^  \* echo  Echo$")
    shell.send("/agents nobody\n")
    shell.expect("the host has no agent 'nobody'")
    shell.send("/agents demo\n")
    shell.expect("Demo demo at ")
    shell.send("slow\n")
    shell.expect("I take my time")
    shell.send("/new\n")
    shell.expect("An answer is in progress; stop it with /stop first.")
    shell.send("/stop\n")
    shell.expect("cancelled")
    shell.send("/etc/hosts is a file\n")
    shell.expect("You said: /etc/hosts is a file")
    shell.send("/quit\n")
    assert shell.end() == 0


def test_messages_are_searched(screen, bollard, host) -> None:
    bollard("chat", "--agent", "echo", "--conversation", "garden", "--message", "苏州园林散步", **host.variables)
    shell = screen("chat", "--agent", "echo", **host.variables)
    shell.expect("^›")
    shell.send("/search 苏州散步\n")
    shell.expect(r"^  garden: .*苏州园林散步")
    shell.expect("Continue a conversation with `bollard chat --conversation ID`.")
    shell.send("/search xylophone-of-nobody\n")
    shell.expect("No message contains: xylophone-of-nobody")
    shell.send("/search\n")
    shell.expect("Name the words: /search WORDS")
    shell.send("/search ——\n")
    shell.expect("the search text has no word")


def test_a_message_may_have_several_lines_and_enters_the_history(screen, host, tmp_path: Path) -> None:
    shell = screen("chat", "--agent", "echo", **host.variables)
    shell.expect("^›")
    shell.send(f"one{ALT_ENTER}two\\\r")
    shell.expect(r"^› one\n  two$")
    shell.send("three\r")
    shell.expect(r"you said: one\ntwo\nthree")
    shell.send(CTRL_D)
    assert shell.end() == 0
    history = tmp_path / "state/bollard/chat_history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    again = screen("chat", "--agent", "echo", **host.variables)
    again.expect("^›")
    again.send(UP)
    again.expect(r"^› one\n  two\n  three$")


def test_a_chinese_chat_fits_sixty_columns(screen, host) -> None:
    shell = screen("chat", columns=60, COLUMNS="60", BOLLARD_LANG="zh_Hans", **host.variables)
    shell.expect("默认智能体：工作区 default 还没有模型")
    shell.send("慢\n")
    shell.expect("我慢慢说")
    shell.send("数数 2，要快一点")
    shell.expect("^› 数数 2，要快一点$")
    shell.expect("就这些。$")
    assert max(width_of(line) for line in shell.lines) <= 60
    answer = shell.text.partition("› 慢\n")[2].partition("\n›")[0]
    assert answer.replace("\n", "").startswith("我慢慢说，你可以在一句话中间让我停下，也可以在两个地方同时读")
    assert len(answer.split("\n")) > 1
    assert not any(line.startswith(("，", "。")) for line in answer.split("\n"))


def test_a_resized_terminal_wraps_at_its_new_width(screen, host) -> None:
    shell = screen("chat", columns=100, **host.variables)
    shell.expect("^›")
    shell.send("hello\n")
    shell.expect("You said: hello")
    shell.resize(50)
    shell.send("slow\n")
    shell.expect(r"That was all\.$")
    answer = shell.text.partition("› slow\n")[2].partition("\n›")[0]
    assert 40 < max(width_of(line) for line in answer.split("\n")) <= 50


@pytest.mark.parametrize(("variables", "colours"), [({}, {"31", "33"}), ({"NO_COLOR": "1"}, set())])
def test_no_color_leaves_bold_and_dim(terminal, host, variables: dict[str, str], colours: set[str]) -> None:
    shell = terminal("chat", "--message", "fail", **host.variables, **variables)
    assert shell.end() == 1
    assert set(re.findall("\x1b\\[([0-9]+)m", shell.raw)) - {"0"} == {"1", "2"} | colours


def test_a_dumb_terminal_gets_lines_without_escape_sequences(terminal, host, clerk) -> None:
    shell = terminal("chat", "--agent", clerk("dumb", "always"), TERM="dumb", **host.variables)
    shell.expect(r"Commands: /help\n\n› $")
    shell.send("slow\n")
    shell.expect("… working")
    shell.send("count 2\n")
    shell.expect("queued until this run ends")
    shell.expect("That was all.")
    shell.expect("1 2")
    shell.expect("› ")
    shell.send(CALCULATE)
    shell.expect(r"Allow this call\? y once, n no, d details: ")
    shell.send("yes\n")  # the key alone
    shell.expect(r"Allow this call\? y once, n no, d details: ")
    shell.send("y\n")
    shell.expect("calculate answered: 42")
    shell.expect("\n› ")
    assert shell.shown.count("Allow this call?") == 2
    assert "details: y\n  allowed once: calculate\n" in shell.shown
    shell.send("/stop\n")
    shell.expect("No answer is in progress.\n\n› ")
    shell.send(CTRL_D)
    assert shell.end() == 0
    assert "\x1b" not in shell.raw
