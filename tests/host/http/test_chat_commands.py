"""Chat commands in a channel: answered by the host through the outbox, once, in the language of the person."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.host.http.chat_program import Program, bind, post, save


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    yield program
    program.stop()


def chat(api: Any, secret: str, text: str, number: str, *, room: str = "cmd", **more: Any) -> Any:
    body = {"text": text, "conversation": "c-1", "actor": {"id": "ann"}, "is_private": True, **more}
    answer = post(api, room, secret, body, number=number)
    assert answer.status in (200, 202), answer.body
    return answer.json


def test_help_lists_the_commands_that_are_on_in_the_language_of_the_person(api: Any, program: Program) -> None:
    secret = save(api, "cmd", url=program.url, commands=["help", "new"])["secret"]
    bind(api, "cmd")
    asked = chat(api, secret, "/help", "h-1")
    assert (asked["run_id"], asked["reason"]["code"]) == (None, "command")
    assert program.until(1)[0]["text"].splitlines() == ["Commands:", "/help: show this list", NEW]
    assert chat(api, secret, "/help", "h-1")["event_id"] == asked["event_id"]
    chat(api, secret, "/HELP@polly", "h-2", locale="zh-CN")
    assert program.until(2)[1]["text"].startswith("可用命令：")
    assert chat(api, secret, "/stop", "h-3")["run_id"]  # it is off, so the agent gets it
    api.until(
        "/api/v1/deliveries?channel=cmd",
        lambda found: [item["status"] for item in found["items"] if not item["run_id"]] == ["sent", "sent"],
    )


NEW = "/new: begin a new conversation; the present one stays readable"


def test_new_begins_another_conversation_and_bindings_still_match_the_room(api: Any, program: Program) -> None:
    secret = save(api, "cmd2", url=program.url)["secret"]
    scope = {"channel": "cmd2", "conversation": "c-1"}
    api.put("/api/v1/bindings/cmd2", {"agent_id": "parrot", "scope": scope})
    first = chat(api, secret, "one", "n-1", room="cmd2")["run_id"]
    chat(api, secret, "/new", "n-2", room="cmd2")
    second = chat(api, secret, "two", "n-3", room="cmd2")["run_id"]
    runs = [api.ended(run_id) for run_id in (first, second)]
    assert [run["conversation_id"] for run in runs] == ["c-1", "c-1#2"]
    came = program.until(3)
    assert {each["target"] for each in came} == {"c-1"}
    assert api.get("/api/v1/conversations/c-1/messages").json["items"]
    assert api.get("/api/v1/conversations/c-1%232/messages").json["items"]


def test_a_command_that_comes_several_times_at_once_is_executed_once(api: Any, program: Program) -> None:
    secret = save(api, "cmd7", url=program.url)["secret"]
    bind(api, "cmd7")
    with ThreadPoolExecutor(8) as pool:
        events = pool.map(lambda _: chat(api, secret, "/new", "r-1", room="cmd7")["event_id"], range(16))
    assert len(set(events)) == 1
    run = chat(api, secret, "hello", "r-2", room="cmd7")["run_id"]
    assert api.ended(run)["conversation_id"] == "c-1#2"


def test_an_agent_of_the_list_is_chosen_for_the_chat(api: Any, program: Program) -> None:
    api.save_agent("second")
    secret = save(api, "cmd3", url=program.url, agents=["second"])["secret"]
    bind(api, "cmd3")
    chat(api, secret, "/agent", "a-1", room="cmd3")
    assert "second" in program.until(1)[0]["text"]
    chat(api, secret, "/agent second", "a-2", room="cmd3")
    run = chat(api, secret, "hello", "a-3", room="cmd3")["run_id"]
    assert api.ended(run)["agent_id"] == "second"
    chat(api, secret, "/status", "a-4", room="cmd3")
    assert "Agent: second\nConversation: c-1\n" in program.until(4)[3]["text"]
    body = {"source": "cmd3", "text": "hello", "conversation": "c-1", "actor": {"id": "ann"}, "is_private": True}
    assert api.post("/api/v1/bindings/resolve", body).json["agent"] == "second"
    save(api, "cmd3", url=program.url)  # without the agent
    assert api.ended(chat(api, secret, "hello", "a-8", room="cmd3")["run_id"])["agent_id"] == "parrot"
    save(api, "cmd3", url=program.url, agents=["second"])
    chat(api, secret, "/agent default", "a-5", room="cmd3")
    assert api.ended(chat(api, secret, "hello", "a-6", room="cmd3")["run_id"])["agent_id"] == "parrot"
    chat(api, secret, "/agent parrot", "a-7", room="cmd3")
    assert "second" in program.until(8)[7]["text"]  # parrot is not in the list


def test_stop_ends_the_runs_that_the_person_started(api: Any, program: Program) -> None:
    secret = save(api, "cmd4", url=program.url)["secret"]
    bind(api, "cmd4")
    run = chat(api, secret, "wait", "s-1", room="cmd4", is_private=False)["run_id"]
    other = {"actor": {"id": "eve"}, "is_private": False}
    chat(api, secret, "/stop", "s-2", room="cmd4", **other)
    assert "someone else" in program.until(1)[0]["text"]
    chat(api, secret, "/stop", "s-3", room="cmd4", is_private=False)
    assert "Stopped runs: 1" in {each["text"] for each in program.until(3)}
    assert api.ended(run)["status"] == "cancelled"


def test_a_code_of_a_chat_links_its_actor_to_a_user_once(api: Any, program: Program) -> None:
    api.put("/api/v1/users/ann", {"role": "member", "password": "correct horse battery"})
    session = api.post("/api/v1/session", {"user": "ann", "password": "correct horse battery"}, token=None)
    token = session.json["token"]
    secret = save(api, "cmd5", url=program.url)["secret"]
    bind(api, "cmd5")
    chat(api, secret, "/link", "l-1", room="cmd5", is_private=False)
    assert program.until(1)[0]["text"] == "Send /link in a private chat with me."
    chat(api, secret, "/link", "l-2", room="cmd5")
    code = program.until(2)[1]["text"].split()[2]
    assert api.post("/api/v1/actors/redeem", {"code": "WRONG"}, token=token).error["details"]["reason"] == "link_code"
    unnamed = api.post("/api/v1/actors/redeem", {"code": code})
    assert unnamed.error["details"]["reason"] == "link_needs_user"
    linked = api.post("/api/v1/actors/redeem", {"code": code}, token=token)
    assert (linked.status, linked.json["actor"], linked.json["user_id"]) == (201, "cmd5:ann", "ann")
    assert api.post("/api/v1/actors/redeem", {"code": code}, token=token).status == 400
    chat(api, secret, "/status", "l-3", room="cmd5")
    assert "Linked user: ann" in program.until(3)[2]["text"]


def test_a_code_of_a_user_links_the_actor_that_sends_it(api: Any, program: Program) -> None:
    api.put("/api/v1/users/bob", {"role": "member"})
    made = api.post("/api/v1/actors/codes", {"user_id": "bob"})
    assert made.status == 201
    secret = save(api, "cmd6", url=program.url)["secret"]
    bind(api, "cmd6")
    sent = chat(api, secret, f"/link {made.json['code']}", "r-1", room="cmd6", actor={"id": "b"})
    assert program.until(1)[0]["text"] == "This account is now linked to user bob."
    assert made.json["code"] not in str(api.get(f"/api/v1/events/{sent['event_id']}").json)
    chat(api, secret, f"/link {made.json['code']}", "r-2", room="cmd6", actor={"id": "eve"})
    assert "wrong, used or older" in program.until(2)[1]["text"]
    links = {item["actor"]: item["user_id"] for item in api.get("/api/v1/actors").json["items"]}
    assert links["cmd6:b"] == "bob"
    assert "cmd6:eve" not in links
