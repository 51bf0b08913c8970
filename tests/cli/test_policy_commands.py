"""`bollard agents`, `bindings` and `resolve` against a real host."""

import json

import pytest


@pytest.fixture
def ask(bollard, steady_host):
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard(*arguments, **{**steady_host.variables, **more})


@pytest.fixture
def saved(ask):
    """Save documents, and delete them when the test is over."""
    kept: list[tuple[str, str]] = []

    def save(group: str, body: dict[str, object]):
        kept.append((group, str(body["agent_id" if group == "agents" else "binding_id"])))
        return ask(group, "save", "-", stdin=json.dumps(body))

    yield save
    for group, name in reversed(kept):
        ask(group, "delete", name)


def test_a_new_agent_spells_out_the_requests_of_its_runner(ask) -> None:
    new = ask("agents", "new", "slowly", "--runner", "steady").json

    assert new["runner_id"] == "plugin:local/steady/default"
    assert new["config"] == {"steps": 150, "pause_s": 0.2}
    assert new["policy"] == {"access": {"permissions": {"history": ["page"]}}, "concurrency": {"mode": "steer"}}
    assert ask("agents", "new", "slowly", "--runner", new["runner_id"]).json == new
    plain = ask("agents", "new", "said", "--runner", "echo").json
    assert plain["policy"] == {"access": {"permissions": {}}, "concurrency": {"mode": "queue"}}


def test_an_absent_runner_is_refused_with_the_existing_ones(ask) -> None:
    refused = ask("agents", "new", "slowly", "--runner", "nobody")
    assert refused.code == 2
    assert refused.err.startswith("bollard: the host has no runner 'nobody'\nhint: use one of plugin:")


def test_an_agent_is_saved_shown_and_deleted(ask, saved) -> None:
    body = ask("agents", "new", "brisk", "--runner", "steady").json
    body["config"] = {"steps": 1, "pause_s": 0}

    assert saved("agents", body).json["revision"] == 1
    shown = ask("agents", "show", "brisk").json
    assert shown["config"] == body["config"]
    told = ask("agents", "show", "brisk", "--text").out
    assert (
        "brisk (Steady) runs plugin:local/steady/default\nrevision: 1\nenabled: yes\npermissions: history: page\n"
        in told
    )
    assert "可使用者：所有人" in ask("agents", "show", "brisk", "--text", BOLLARD_LANG="zh_Hans").out
    assert "brisk" in ask("agents", "--text").out
    assert ask("chat", "--agent", "brisk", "--message", "go", "--text").out.endswith("done\n")
    assert ask("agents", "delete", "brisk", "--text").out == "deleted agent brisk\n"
    gone = ask("agents", "show", "brisk")
    assert gone.err == "bollard: the host says: there is no such agent\nhint: `bollard agents` lists them\n"


def test_a_shown_document_can_be_edited_and_saved_once(ask, saved, write) -> None:
    saved("agents", ask("agents", "new", "edited", "--runner", "steady").json)
    shown = ask("agents", "show", "edited").json
    shown["config"]["steps"] = 2
    write("edited.json", json.dumps(shown))

    assert ask("agents", "save", "edited.json", "--text").out == "saved agent edited, revision 2\n"
    again = ask("agents", "save", "edited.json")
    assert again.code == 4
    assert "agent edited is at revision 2, but revision 1 was edited\nhint: " in again.err


def test_an_invalid_agent_is_refused_with_the_field(ask, saved) -> None:
    body = ask("agents", "new", "wrong", "--runner", "steady").json
    body["policy"]["access"]["permissions"] = {"history": ["rewrite"]}

    refused = saved("agents", body)
    assert refused.code == 4
    assert "'rewrite' is no operation of history" in refused.err


def test_the_own_agent_of_a_runner_cannot_be_deleted(ask) -> None:
    refused = ask("agents", "delete", "echo")
    assert refused.code == 4
    assert refused.err.startswith("bollard: the host says: agent echo belongs to its plugin")


@pytest.mark.parametrize("group", ["agents", "bindings"])
def test_a_document_without_a_name_is_refused(ask, group: str) -> None:
    refused = ask(group, "save", "-", stdin="{}")
    assert refused.code == 2
    assert refused.err.startswith(f"bollard: - has no field {group[:-1]}_id\nhint: ")


BINDING = {
    "binding_id": "pushes",
    "agent_id": "echo",
    "filters": [{"field": "event_type", "values": ["repository.pushed"]}],
}


def test_a_binding_routes_events_to_its_agent(ask, saved) -> None:
    assert ask("bindings", "--text").out == "There are no bindings.\n"
    before = ask("events", "post", "--type", "repository.pushed")
    assert (before.code, before.json["run_id"], before.json["reason"]["code"]) == (0, None, "no_binding")

    assert saved("bindings", BINDING).json["enabled"] is True
    row = " ".join(ask("bindings", "--text", COLUMNS="120").out.split())
    assert "pushes echo the whole workspace event_type = repository.pushed 0 yes" in row
    assert "repository.pushed" in ask("bindings", "show", "pushes", "--text").out
    post = ("events", "post", "--type", "repository.pushed", "--conversation", "main", "--actor", "user:ada")
    run = ask("runs", "show", ask(*post).json["run_id"]).json
    assert (run["agent_id"], run["binding_id"], run["conversation_id"]) == ("echo", "pushes", "main")
    assert ask("bindings", "delete", "pushes", "--text").out == "deleted binding pushes\n"
    assert ask("bindings").json == {"items": []}


def test_resolve_explains_every_binding(ask, saved) -> None:
    saved("bindings", BINDING)
    saved("bindings", {"binding_id": "ada", "agent_id": "steady", "scope": {"actor": "user:ada"}})

    told = ask("resolve", "--type", "repository.pushed", "--text").out.splitlines()
    assert told[:2] == [
        "Binding ada is for actor user:ada; the event has none.",
        "Binding pushes matches and goes first: agent echo gets the event.",
    ]
    assert told[2] == "echo starts a run at once"
    both = ask("resolve", "--type", "repository.pushed", "--actor", "user:ada").json
    assert (both["binding"], both["agent"], both["decision"]) == ("ada", "steady", {"kind": "start"})
    nobody = ask("resolve", "--type", "nothing.happened", "--text", BOLLARD_LANG="zh_Hans").out.splitlines()
    assert nobody[-2:] == ["没有绑定与事件匹配。", "没有智能体处理该事件"]


def test_a_binding_without_an_agent_and_deleting_a_bound_agent_are_refused(ask, saved) -> None:
    refused = saved("bindings", {"binding_id": "lost", "agent_id": "nobody"})
    assert "there is no agent nobody\nhint: " in refused.err
    saved("agents", ask("agents", "new", "bound", "--runner", "echo").json)
    saved("bindings", {"binding_id": "holds", "agent_id": "bound", "scope": {"conversation": "c"}})
    kept = ask("agents", "delete", "bound")
    assert kept.code == 4
    assert "agent bound gets the events of holds\nhint: " in kept.err


def test_a_closed_gate_is_shown_with_its_hint(ask, saved) -> None:
    body = ask("agents", "new", "shy", "--runner", "echo").json
    body["policy"]["gate"] = {"talk": "listed", "actors": ["user:ada"]}
    saved("agents", body)

    told = ask("resolve", "--agent", "shy", "--actor", "user:bob", "--text").out.splitlines()
    assert told[0] == "The event names agent shy itself."
    assert told[1].startswith("the gate denies it (unauthorized): agent shy only answers listed actors")
    assert told[2].startswith("hint: ask the administrator of the agent")
    assert told[3] == "without the gate, shy would start a run at once"
    assert not any("starts a run" in line for line in told)
    assert ask("resolve", "--agent", "shy", "--actor", "user:ada").json["refused"] is None


def test_a_live_run_takes_a_message_of_its_actor(ask, ada) -> None:
    run = ada("resolved")

    at = ("resolve", "--agent", "steady", "--conversation", "resolved", "--text")
    assert f"the event is sent into {run.run_id} of steady\n" in ask(*at, "--actor", "user:ada").out
    assert "steady runs it after the runs queued before it in the conversation\n" in ask(*at, "--actor", "user:bob").out
    ask("runs", "cancel", run.run_id)
    run.end()
