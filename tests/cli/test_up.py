"""`bollard up`: its messages, its refusals, its shutdown."""

import json
import signal
import socket
import sqlite3
import stat
import subprocess
import sys

import pytest
from tests.cli.conftest import BOLLARD, environment

pytestmark = pytest.mark.full


@pytest.mark.smoke
def test_the_first_start_prints_the_token_once_and_saves_it_for_this_user(new_host, bollard) -> None:
    host = new_host().start()
    first = [line for line in host.told if line["event"] == "token"]
    assert len(first) == 1
    saved = host.folder / "config/bollard/credentials.json"
    assert first[0]["saved"] == str(saved)
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert bollard("agents", **host.variables).code == 0
    assert host.signal(signal.SIGTERM) == 0

    host.start()
    assert [line for line in host.told if line["event"] == "token"] == []
    assert bollard("agents", **host.variables).code == 0
    assert host.token not in host.log
    for file in host.data.rglob("*"):
        assert not file.is_file() or host.token.encode() not in file.read_bytes()


def test_a_token_can_be_given_and_a_wrong_one_is_refused(host, bollard) -> None:
    elsewhere = {"XDG_CONFIG_HOME": "/nonexistent"}
    assert bollard("agents", "--url", host.url, "--token", host.token, **elsewhere).code == 0
    assert bollard("agents", BOLLARD_URL=host.url, BOLLARD_TOKEN=host.token, **elsewhere).code == 0
    wrong = bollard("agents", "--url", host.url, "--token", "wrong", **elsewhere)
    assert (wrong.code, wrong.err.splitlines()[0]) == (4, f"bollard: the host at {host.url} rejected the token")
    none = bollard("agents", "--url", host.url, **elsewhere)
    assert (none.code, none.err.splitlines()[0]) == (4, f"bollard: no token for {host.url}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.smoke
def test_a_signal_stops_the_host_in_order(new_host, number: signal.Signals) -> None:
    host = new_host().start()
    assert host.signal(number) == 0
    host.wait_for("stopping")
    host.wait_for("stopped")


@pytest.mark.smoke
def test_a_run_has_its_grace_during_a_shutdown(new_host, started) -> None:
    host = new_host().start(BOLLARD_GRACE_S="15")
    chat = started("chat", "--json", "--message", "慢", **host.variables)
    assert chat.stdout is not None
    seen = [json.loads(chat.stdout.readline()) for _ in range(5)]
    assert host.signal(signal.SIGTERM) == 0
    seen += [json.loads(line) for line in chat.stdout]
    assert seen[-1]["data"] == {"status": "completed"}


def test_a_waiting_reader_does_not_delay_the_shutdown(new_host, started) -> None:
    host = new_host().start(BOLLARD_GRACE_S="0")
    chat = started("chat", "--json", "--message", "slow", **host.variables)
    assert chat.stdout is not None
    assert json.loads(chat.stdout.readline())["type"] == "run.created"
    assert host.signal(signal.SIGTERM) == 0


def test_a_host_with_a_closed_output_pipe_still_stops_in_order(new_host, started) -> None:
    host = new_host()
    process = started("up", "--data", str(host.data), "--port", "0", **host.variables)
    assert process.stdout is not None
    assert json.loads(process.stdout.readline())["event"] == "listening"
    process.stdout.close()
    process.terminate()
    assert process.wait(timeout=120) in (0, 1)
    process.stdout = None


def test_a_plugin_that_fails_to_start_is_named_and_delays_no_other(new_host, write) -> None:
    broken = write("broken.py", "raise RuntimeError('no')\n")
    host = new_host().start("--plugins", str(broken))
    failed = host.wait_for("plugin.failed")
    assert failed["plugin"] == "broken"
    assert "could not start" in failed["problem"]
    assert "Traceback" not in host.log


def test_a_port_in_use_is_refused_before_the_database_is_created(bollard, tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = bollard("up", "--port", str(port), "--data", "d")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"bollard: port {port} is in use\nhint: stop the program that uses it, or choose another port with --port\n"
    )
    assert not (tmp_path / "d/bollard.db").exists()


def test_a_full_disk_at_the_start_is_one_message(tmp_path) -> None:
    """A limit of 0 bytes for each file stands for a disk that is full."""
    command = ["sh", "-c", 'ulimit -f 0; exec "$0" up --data "$1"', BOLLARD, str(tmp_path / "data")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"bollard: cannot write {tmp_path / 'data'}: ")


def test_two_hosts_cannot_share_a_data_directory(host, bollard) -> None:
    for command in (("up", "--port", "0"), ("log", "rebuild")):
        done = bollard(*command, "--data", str(host.data))
        assert done.code == 2
        assert done.err.startswith(
            f"bollard: {host.data} is in use by process {host.process.pid}\nhint: stop that host"
        )


@pytest.mark.parametrize(
    ("arguments", "variables", "code", "sentence"),
    [
        (("--data", "file/data"), {}, 2, "cannot write file/data: Not a directory"),
        (("--data", ""), {}, 2, "invalid settings: data is ''"),
        ((), {"BOLLARD_DATA": ""}, 2, "invalid settings: data is ''"),
        ((), {"BOLLARD_HOST": "0.0.0.0"}, 2, "a public address without TLS is refused"),
        (("--port", "70000"), {}, 2, "invalid settings: port is 70000"),
        (("--workers", "0"), {}, 2, "invalid settings: workers is 0"),
        (("--database", "mysql://x"), {}, 2, "invalid settings: the database is not a PostgreSQL URL"),
        (("--plugins", "nowhere"), {}, 2, "nowhere does not exist"),
        ((), {"BOLLARD_RETENTION": "mesage.completed=3"}, 2, "invalid settings: retention lists 'mesage.compl"),
        (("--port", "many"), {}, 2, "invalid value for --port"),
    ],
)
def test_an_invalid_start_is_one_message_and_a_hint(
    bollard, write, arguments: tuple[str, ...], variables: dict[str, str], code: int, sentence: str
) -> None:
    write("file", "not a folder")
    done = bollard("up", *arguments, **variables)
    assert (done.code, done.out) == (code, "")
    assert done.err.startswith(f"bollard: {sentence}")
    assert done.err.splitlines()[1].startswith("hint: ")
    assert len(done.err.splitlines()) == 2


def test_a_log_with_a_changed_end_is_continued_only_with_broken_log(bollard, new_host) -> None:
    host = new_host().start()
    agent = {"agent_id": "mine", "runner_id": "plugin:bollard/demo/default"}
    assert bollard("agents", "save", "-", stdin=json.dumps(agent), **host.variables).code == 0
    assert host.signal(signal.SIGTERM) == 0
    with sqlite3.connect(host.data / "bollard.db") as database:
        database.execute("UPDATE records SET data = X'7b7d' WHERE id = (SELECT max(id) FROM records)")
        chain, position = database.execute("SELECT chain, position FROM records ORDER BY id DESC").fetchone()
        count = database.execute("SELECT count(*) FROM records").fetchone()
    name = f"{chain}:{position}"
    for variables in ({}, {"BOLLARD_JOURNAL": "thread"}, {"BOLLARD_BROKEN_LOG": "another:1"}):
        done = bollard("up", "--port", "0", "--data", str(host.data), **variables)
        assert (done.code, done.out) == (4, "")
        assert done.err.startswith("bollard: the end of the log is broken, so nothing is appended: ")
        assert done.err.endswith(f"BOLLARD_BROKEN_LOG={name}\n")
        assert database.execute("SELECT count(*) FROM records").fetchone() == count
    gone = bollard("up", "--port", "0", "--data", str(host.data), BOLLARD_BROKEN_LOG=name)
    assert "the saved agent mine of workspace default differs from the log" in gone.err
    assert bollard("log", "rebuild", "--data", str(host.data)).json["skipped"] == 1
    host.start(BOLLARD_BROKEN_LOG=name)
    assert host.signal(signal.SIGTERM) == 0
    assert database.execute("SELECT count(*) FROM records WHERE type = 'audit.gap'").fetchone() == (1,)
    database.close()
    host.start()


def test_data_of_a_newer_version_is_refused(bollard, new_host) -> None:
    host = new_host().start()
    assert host.signal(signal.SIGTERM) == 0
    with sqlite3.connect(host.data / "bollard.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    database.close()
    done = bollard("up", "--port", "0", "--data", str(host.data), **host.variables)
    assert done.code == 4
    assert done.err.startswith("bollard: a newer version wrote the data: ")


def test_settings_may_be_in_a_file(bollard, write) -> None:
    write("bollard.toml", "workers = 0\n")
    assert "workers is 0" in bollard("up").err
    write("bollard.toml", "colour = 'red'\n")
    assert "there is no setting 'colour'" in bollard("up").err


def test_on_a_terminal_the_host_prints_sentences(terminal, tmp_path) -> None:
    shell = terminal("up", "--port", "0", XDG_CONFIG_HOME=str(tmp_path / "c"), columns=120)
    shell.expect(r"Bollard \S+ listens at http://127\.0\.0\.1:\d+")
    shell.expect(r"admin token \(shown once\): bollard_\S+")
    shell.expect(r"agent \w+ is ready")
    shell.expect(r"agent \w+ is ready")
    shell.send("\x03")
    shell.expect("stopping: runs have 5 s to end")
    shell.expect("stopped")
    assert shell.end() == 0


def test_piped_logs_are_json_and_contain_no_secret(new_host, write, bollard) -> None:
    loud = write(
        "loud.py",
        """
        from bollard.sdk import RunContext, runner
        @runner()
        async def loud(ctx: RunContext):
            ctx.log("calling with Bearer abc123", level="warning", api_key="k-1", url="postgres://u:pw@h/db")
            yield ctx.delta("said")
        """,
    )
    host = new_host().start("--plugins", str(loud), agents=("loud",), BOLLARD_BUILTIN_PLUGINS="false")
    bollard("chat", "--message", "hi", **host.variables)
    host.signal(signal.SIGTERM)
    lines = [json.loads(line) for line in host.log.splitlines()]
    record = next(line for line in lines if line["event"].startswith("calling with"))
    assert record["level"] == "warning"
    assert record["event"] == "calling with Bearer ***"
    assert record["fields"] == {"api_key": "***", "url": "postgres://***@h/db"}


def test_help_needs_no_host_installed() -> None:
    code = "import sys; sys.modules['uvicorn'] = None; from bollard.cli.app import run; sys.exit(run(['up'], {}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("bollard: the host is not installed (uvicorn is missing)\nhint: install it: `make")


def test_a_host_does_not_import_rich_and_pygments() -> None:
    """rich and pygments take 5 MiB of every idle host; later imports still find them."""
    code = (
        "import sys, bollard.cli.operate.host_log, bollard.cli.operate.server, bollard.cli.operate.up;"
        "print([name for name in sys.modules if name.partition('.')[0] in ('rich', 'pygments')]); import rich"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
