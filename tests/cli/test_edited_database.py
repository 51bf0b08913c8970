"""A database that is edited while its host is stopped: the start refuses it, and names the repairing command."""

import signal
import sqlite3

import pytest


@pytest.fixture
def stopped(new_host, bollard, write):
    """A stopped host with a user, an agent, a secret, a conversation and a file."""
    host = new_host().start()
    document = bollard("agents", "new", "helper", "--runner", "echo", **host.variables).out
    assert bollard("agents", "save", "-", stdin=document, **host.variables).code == 0
    added = bollard(
        "users", "add", "ada", "--role", "operator", "--password-stdin", stdin="a long one\n", **host.variables
    )
    assert added.code == 0, added.err
    assert bollard("secrets", "set", "TOKEN", stdin="a canary\n", **host.variables).code == 0
    assert (
        bollard("chat", "--agent", "echo", "--conversation", "room", "--message", "hello", **host.variables).code == 0
    )
    added = bollard("files", "add", str(write("notes.txt", "what we know")), **host.variables)
    assert added.code == 0, added.err
    host.signal(signal.SIGTERM)
    return host


def edit(host, statement):
    with sqlite3.connect(host.data / "bollard.db") as connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()


def test_a_host_does_not_start_on_rows_of_another_writer(stopped, bollard):
    edit(stopped, "UPDATE users SET body = CAST(replace(body, 'operator', 'admin') AS BLOB)")
    refused = bollard("up", "--port", "0", "--data", str(stopped.data))
    assert refused.code == 4
    assert "the saved user ada of workspace default differs from the log" in refused.err
    assert "bollard log rebuild" in refused.err.splitlines()[1]
    assert bollard("log", "rebuild", "--data", str(stopped.data)).code == 0
    edit(stopped, "UPDATE kept SET body = 'mine' WHERE kind = 'password'")
    refused = bollard("up", "--port", "0", "--data", str(stopped.data))
    assert refused.code == 4
    assert "the password ada of workspace default was not written by this host" in refused.err
    assert "bollard log rebuild --drop-unverified" in refused.err.splitlines()[1]
    mended = bollard("log", "rebuild", "--drop-unverified", "--data", str(stopped.data)).json
    assert mended["dropped"] == [{"kind": "password", "workspace": "default", "id": "ada"}]
    stopped.start()
    (user,) = [each for each in bollard("users", **stopped.variables).json["items"] if each["user_id"] == "ada"]
    assert user["role"] == "operator"


def test_a_verification_names_edited_rows_and_the_repair_command(stopped, bollard):
    """Transcript, gate of an agent and content, which a start does not look at, or not at all of."""
    verified = bollard("audit", "verify", "--data", str(stopped.data), "--text")
    assert verified.code == 0, verified.out
    assert "the database matches the log: " in verified.out
    edit(stopped, "UPDATE transcript SET content = 'never said' WHERE role = 'user'")
    edit(stopped, "UPDATE agents SET revision = revision + 1")
    blob = next(path for path in (stopped.data / "blobs" / "sha256").rglob("*") if path.is_file())
    blob.chmod(0o600)
    blob.write_bytes(b"another one")
    broken = bollard("audit", "verify", "--data", str(stopped.data))
    assert broken.code == 1
    assert broken.json["problems"] == []
    found = {(each["kind"], each["table"]) for each in broken.json["store"]["mismatches"]}
    assert found == {("edited", "transcript"), ("edited", "agents"), ("content_edited", "blobs")}
    told = bollard("audit", "verify", "--data", str(stopped.data), "--text", "--lang", "zh_Hans").out
    assert "bollard log rebuild" in told
    assert bollard("audit", "verify", "--data", str(stopped.data), "--log-only").code == 0
    assert bollard("log", "rebuild", "--data", str(stopped.data)).code == 0
    again = bollard("audit", "verify", "--data", str(stopped.data)).json["store"]["mismatches"]
    assert [each["kind"] for each in again] == ["content_edited"]
