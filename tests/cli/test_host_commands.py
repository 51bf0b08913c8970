"""`bollard runs`, `agents`, `events` and `log` against a real host."""

import json
import re
import signal
import sqlite3

import pytest

pytestmark = pytest.mark.full


@pytest.fixture
def ended(host, bollard) -> str:
    """The id of a run that has completed."""
    lines = bollard("chat", "--json", "--agent", "echo", "--message", "hi", **host.variables).lines
    return lines[0]["run_id"]


def test_runs_lists_the_newest_first(host, bollard, ended) -> None:
    page = bollard("runs", **host.variables).json
    assert page["items"][0]["run_id"] == ended
    table = bollard("runs", "--text", **host.variables)
    assert ended in table.out
    assert max(map(len, table.out.splitlines())) <= 80
    assert bollard("runs", "list", "--limit", "1", **host.variables).json["items"] == page["items"][:1]


def test_runs_can_be_filtered(host, bollard, ended) -> None:
    bollard("chat", "--message", "fail", **host.variables)
    failed = bollard("runs", "list", "--status", "failed", "--agent", "demo", **host.variables).json["items"]
    assert {(run["status"], run["agent_id"]) for run in failed} == {("failed", "demo")}
    assert bollard("runs", "list", "--agent", "nobody", "--text", **host.variables).out == "There are no runs.\n"


def test_a_run_is_shown_with_its_records_and_its_stream(host, bollard, ended) -> None:
    assert bollard("runs", "show", ended, **host.variables).json["status"] == "completed"
    shown = bollard("runs", "show", ended, "--text", **host.variables).out
    assert shown.startswith(f"{ended}: completed\nagent: echo, runner plugin:bollard/echo/default\n")
    assert re.search(r"^created: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", shown, re.MULTILINE)
    assert "{" not in shown, "nothing is shown as Python or JSON has it"
    kept = bollard("runs", "records", ended, **host.variables).json["items"]
    assert [item["type"] for item in kept][-1] == "run.ended"
    assert "run.ended" in bollard("runs", "records", ended, "--text", **host.variables).out
    watched = bollard("runs", "watch", ended, **host.variables)
    assert watched.code == 0
    assert [line["seq"] for line in watched.lines] == list(range(1, len(watched.lines) + 1))
    rest = bollard("runs", "watch", ended, "--after", "1.3", **host.variables)
    assert rest.lines == watched.lines[3:]
    assert bollard("runs", "watch", ended, "--text", **host.variables).out == "you said: hi\n"


def test_a_run_can_be_cancelled_from_another_terminal(host, bollard, started) -> None:
    chat = started("chat", "--json", "--message", "slow", **host.variables)
    assert chat.stdout is not None
    run = json.loads(chat.stdout.readline())["run_id"]
    assert bollard("runs", "cancel", run, **host.variables).json == {"run_id": run, "cancelling": True}
    *_, last = chat.stdout
    assert json.loads(last)["data"]["status"] == "cancelled"
    again = bollard("runs", "cancel", run, **host.variables)
    assert (again.code, again.err) == (
        4,
        "bollard: the host says: the run has ended: cancelled\nhint: there is nothing to cancel\n",
    )


@pytest.mark.parametrize("command", ["show", "cancel", "records", "watch"])
@pytest.mark.parametrize("run", ["run_none", "../agents", "a b", "%2e%2e"])
def test_an_absent_run_is_reported_as_not_found(host, bollard, command: str, run: str) -> None:
    done = bollard("runs", command, run, **host.variables)
    assert done.code == 4
    assert done.err.startswith("bollard: the host says: ")


def test_agents_are_listed(host, bollard) -> None:
    listed = [item["agent_id"] for item in bollard("agents", **host.variables).json["items"]]
    assert {"assistant", "demo", "echo"} <= {*listed}
    assert listed == sorted(listed)
    assert "演示" in bollard("agents", "--text", BOLLARD_LANG="zh_Hans", **host.variables).out


def test_a_duplicate_event_gets_its_first_run(host, bollard) -> None:
    post = ("events", "post", "--agent", "echo", "--type", "webhook.received", "--id", "e-1", "--data", '{"a": 1}')
    first = bollard(*post, **host.variables).json
    again = bollard(*post, **host.variables).json
    assert (first["first"], again["first"]) == (True, False)
    assert again["run_id"] == first["run_id"]
    assert bollard(*post, "--text", **host.variables).out == f"duplicate event: {first['run_id']}\n"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ("[1]", "--data is not a JSON object"),
        ("{", "--data is not JSON: "),
        ("@nothing.json", "--data: cannot read nothing.json: "),
    ],
)
def test_invalid_data_of_an_event_is_refused(bollard, data: str, sentence: str) -> None:
    done = bollard("events", "post", "--agent", "echo", "--type", "x", "--data", data)
    assert done.code == 2
    assert done.err.startswith(f"bollard: {sentence}")


@pytest.mark.smoke
def test_a_rebuilt_database_answers_as_before(new_host, bollard) -> None:
    host = new_host().start()
    bollard("chat", "--message", "hello", "--message", "count 3", "--message", "fail", **host.variables)
    before = bollard("runs", **host.variables).json
    host.signal(signal.SIGTERM)
    with sqlite3.connect(host.data / "bollard.db") as database:
        records = database.execute("SELECT count(*) FROM records").fetchone()[0]
        database.execute("DELETE FROM runs")
    database.close()
    assert bollard("log", "rebuild", "--data", str(host.data)).json == {"records": records, "skipped": 0}
    host.start()
    assert bollard("runs", **host.variables).json == before


def test_a_rebuild_needs_data(bollard) -> None:
    done = bollard("log", "rebuild", "--data", "nowhere")
    assert (done.code, done.err.splitlines()[0]) == (2, "bollard: nowhere is not a folder")


@pytest.mark.parametrize(
    "command",
    [("log", "rebuild"), ("audit", "verify", "--public-key", "ab" * 32), ("backup", "b.zip"), ("export", "e.zip")],
)
def test_a_log_command_creates_no_database(bollard, tmp_path, command: tuple[str, ...]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    done = bollard(*command, "--data", str(empty))
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"bollard: {empty} holds no database\nhint: ")
    assert list(empty.iterdir()) == []


def test_a_rebuild_of_a_database_without_a_log_is_refused(bollard, tmp_path) -> None:
    (tmp_path / "bollard.db").touch()
    done = bollard("log", "rebuild", "--data", str(tmp_path))
    assert (done.code, done.err.splitlines()[0]) == (2, "bollard: the database is empty")
    assert (tmp_path / "bollard.db").stat().st_size == 0


def test_a_question_of_a_run_is_answered_from_another_terminal(host, bollard, started) -> None:
    access = {"permissions": {"tools": ["call"]}, "resources": {"tools": {"add": ["tool:builtin/ask_user"]}}}
    asks = {"agent_id": "asks", "runner_id": "plugin:bollard/demo/default", "policy": {"access": access}}
    assert bollard("agents", "save", "-", stdin=json.dumps(asks), **host.variables).code == 0
    question = {"question": "Which one?", "choices": ["left", "right"]}
    chat = started(
        "chat", "--json", "--agent", "asks", "--message", f"call ask_user {json.dumps(question)}", **host.variables
    )
    assert chat.stdout is not None
    lines = map(json.loads, chat.stdout)
    asked = next(line for line in lines if line["type"] == "question.asked")
    run = asked["run_id"]
    wrong = bollard("runs", "answer", run, "up", **host.variables)
    assert (wrong.code, "choices" in wrong.err) == (4, True)
    told = bollard("runs", "answer", run, "left", **host.variables)
    assert told.json == {"run_id": run, "question_id": asked["data"]["question_id"], "answered": True}
    *_, last = lines
    assert last["data"]["status"] == "completed"
    none = bollard("runs", "answer", run, "left", **host.variables)
    assert none.code == 2
    assert "no open question" in none.err
    assert bollard("agents", "delete", "asks", **host.variables).code == 0
