"""`bollard runs steer|explain|grant|revoke` against a real host, on runs that are active."""

import pytest

pytestmark = pytest.mark.full


ADA, BOB = ("--actor", "user:ada"), ("--actor", "user:bob")


@pytest.fixture
def ask(bollard, steady_host):
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


def test_a_steering_message_is_read_by_the_runner(ask, ada) -> None:
    run = ada("steered")

    sent = ask("runs", "steer", run.run_id, "use blue", *ADA).json
    assert sent["steering"] == {"status": "queued", "claimed_by_run_id": run.run_id}
    assert run.record("steering.injected")["data"] == {"event_id": sent["event_id"]}
    run.record("message.delta", "told: use blue")
    assert ask("runs", "steer", run.run_id, "enough", *ADA, "--text").out == f"sent into {run.run_id}\n"
    assert run.end() == 0


def test_an_event_for_a_busy_conversation_steers_its_run(ask, ada) -> None:
    run = ada("busy")

    post = ("events", "post", "--agent", "steady", "--type", "message.received", "--conversation", "busy", *ADA)
    told = ask(*post, "--message", "enough", "--text").out
    assert told.startswith("event evt_")
    assert told.endswith(f" was sent into the active run {run.run_id}\n")
    run.record("message.delta", "told: enough")
    assert run.end() == 0


def test_a_message_of_another_actor_does_not_steer_the_run(ask, ada) -> None:
    run = ada("of-ada")

    sent = ask("runs", "steer", run.run_id, "mine", *BOB).json
    assert "steering" not in sent
    assert sent["run_id"] != run.run_id
    assert ask("runs", "grant", sent["run_id"]).json["grant"]["scope"]["actor_id"] == "bob"
    told = ask("runs", "steer", run.run_id, "and this", *BOB, "--text").out
    assert told.startswith("the message was queued and will be answered by run_")
    chinese = ask("runs", "steer", run.run_id, "这个", *BOB, "--text", BOLLARD_LANG="zh_Hans").out
    assert chinese.startswith("消息已排队，将由 run_")
    for waiting in ask("runs", "list", "--agent", "steady", "--status", "queued").json["items"]:
        ask("runs", "cancel", waiting["run_id"])
    ask("runs", "steer", run.run_id, "enough", *ADA)
    assert run.end() == 0


def test_without_an_actor_the_user_of_the_machine_is_the_actor(ask, ada) -> None:
    run = ada("of-ada-alone")

    sent = ask("runs", "steer", run.run_id, "hello").json
    assert "steering" not in sent  # the local user is not ada
    ask("runs", "cancel", sent["run_id"])
    ask("runs", "cancel", run.run_id)
    assert run.end() == 1


def test_a_run_that_cannot_be_steered_is_reported_with_a_hint(ask, ada) -> None:
    run = ada("slowly", "slow", agent="demo")

    refused = ask("runs", "steer", run.run_id, "faster", *ADA)
    assert (refused.code, refused.out) == (4, "")
    assert refused.err.startswith("bollard: the host says: the run takes no messages\nhint: ")
    ask("runs", "cancel", run.run_id)
    run.end()
    ended = ask("runs", "steer", run.run_id, "faster", *ADA)
    assert ended.err.startswith("bollard: the host says: the run is not active\nhint: ")


@pytest.mark.smoke
def test_a_revoked_permission_is_refused_at_the_next_call_and_explained(ask, ada) -> None:
    run = ada("narrowed")

    before = ask("runs", "explain", run.run_id, "history.page", "--text").out
    assert before.startswith("history.page: allowed\n  manifest: The runner's manifest asks for history.page.\n")
    assert before.endswith("  revocation: It has not been revoked.\n")
    taken = ask("runs", "revoke", run.run_id, "--operation", "history.page").json
    assert taken == {"run_id": run.run_id, "revoked": {"operations": ["history.page"]}}
    assert run.record("api.denied")["data"] == {"action": "history.page", "outcome": "revoked"}
    run.record("message.delta", "history revoked, state kept")
    assert ask("runs", "explain", run.run_id, "history.page", "--text").out == (
        "history.page: denied (revoked)\n  revocation: An operator revoked it during the run.\n"
    )
    chinese = ask("runs", "explain", run.run_id, "history.page", "--text", BOLLARD_LANG="zh_Hans").out
    assert chinese == "history.page：拒绝（revoked）\n  撤销：管理员在运行期间撤销了它。\n"
    granted = ask("runs", "grant", run.run_id, "--text").out
    assert "operations: history.page\n" in granted
    assert "revoked: history.page\n" in granted
    ask("runs", "steer", run.run_id, "enough", *ADA)
    assert run.end() == 0


def test_revoking_everything_ends_the_run(ask, ada) -> None:
    run = ada("emptied")

    told = ask("runs", "revoke", run.run_id, "--everything", "--text").out
    assert told == f"revoked from {run.run_id}: everything\n"
    assert run.record("run.ended")["data"]["status"] == "cancelled"
    gone = ask("runs", "revoke", run.run_id, "--everything")
    assert gone.code == 4
    assert gone.err.startswith("bollard: the host says: the run is not active on this host\nhint: ")


@pytest.mark.parametrize("asked", [("--operation", "models.invoke"), ("--resource", "models:gpt")])
def test_an_ungranted_permission_cannot_be_revoked(ask, ada, asked: tuple[str, str]) -> None:
    run = ada(f"never-{asked[0][2:]}")

    refused = ask("runs", "revoke", run.run_id, *asked)
    assert refused.code == 4
    assert f"run {run.run_id} was never granted {asked[1].removeprefix('models:')}" in refused.err
    assert "\nhint: granted are: " in refused.err
    ask("runs", "cancel", run.run_id)
    run.end()


def test_a_grant_and_all_its_reasons_can_be_read_after_the_run(ask, ada) -> None:
    run = ada("over", "hi", agent="echo")
    run.end()

    grant = ask("runs", "grant", run.run_id).json
    assert grant["grant_sha256"] == ask("runs", "show", run.run_id).json["grant_sha256"]
    assert grant["grant"]["scope"]["conversation"] == "over"
    items = ask("runs", "explain", run.run_id).json["items"]
    assert {(item["action"], item["allowed"]) for item in items} >= {("host.info", True), ("models.invoke", False)}
    table = ask("runs", "explain", run.run_id, "--text").out
    assert max(map(len, table.splitlines())) <= 80
    assert "The runner's manifest does not ask for models.invoke." in " ".join(table.split())


COMMANDS = (("steer", "hi"), ("explain",), ("grant",), ("revoke", "--everything"))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("run", ["run_none", "../agents", "a b"])
def test_an_absent_run_is_reported_as_not_found(ask, command: tuple[str, ...], run: str) -> None:
    name, *rest = command
    done = ask("runs", name, run, *rest)
    assert done.code == 4
    assert done.err.startswith("bollard: the host says: ")
