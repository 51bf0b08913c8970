"""Approvals and questions in a conversation, over a channel: sent, clicked by who may, once, and updated."""

import json
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.host.http.test_channels import Program, bind, post, save
from tests.host.http.test_channels import program as program
from tests.replacement import replace

from bollard.host.settings import Settings

KIT = """
    import json

    from bollard.sdk import AgentAPIException, RunContext, runner


    @runner(name="clerk", label="Clerk", permissions={"tools": ["call"], "agents": ["call"]}, capabilities=["steering"])
    async def clerk(ctx: RunContext):
        if ctx.event.event_type == "approval.decided":
            yield ctx.completed(f"then: {ctx.event.data['outcome']}")
            return
        tool, _, arguments = ctx.input.text.partition(" ")
        try:
            if tool == "clerk":
                child = await ctx.api.agents.call("clerk", {"text": arguments})
                yield ctx.completed(f"child: {child.messages[-1].content}")
                return
            found = await ctx.api.tools.call(tool, json.loads(arguments))
        except AgentAPIException as refused:
            yield ctx.completed(f"refused: {refused.error.code}")
        else:
            yield ctx.completed(f"done: {found.content[0].text}")
"""
SUM = 'calculate {"expression": "6 * 7"}'
ASK = 'ask_user {"question": "Which one?", "choices": ["left", "right"]}'
CARDS = {"dedupe": "native", "supports_buttons": True, "supports_forms": True}
ACCESS = {
    "permissions": {"tools": ["call"], "agents": ["call"]},
    "resources": {"tools": {"add": ["tool:builtin/calculate", "tool:builtin/ask_user"]}, "agents": {"add": ["clerk"]}},
}
RULES = {"access": ACCESS, "audience": {"approve": {"who": "everyone"}}}


@pytest.fixture(scope="module")
def settings(kit_settings: Settings) -> Settings:
    return replace(kit_settings, requests_per_minute=1_000_000)


@pytest.fixture(scope="module")
def clerk(api: Any) -> Any:
    api.until_health(lambda health: {each["status"] for each in health["plugins"].values()} == {"ready"})
    rules = [{"capability": "tool:builtin/calculate", "decision": "always"}]
    api.save_agent("clerk", "kit/clerk", approval={"rules": rules}, **RULES)
    for user, role in (("ann", "member"), ("vic", "viewer"), ("bob", "member")):
        assert api.put(f"/api/v1/users/{user}", {"role": role}).status == 201
    return api


class Room:
    """A channel of its own with a program behind it, and people who are linked to users."""

    def __init__(self, api: Any, program: Program, agent: str = "clerk", **more: Any) -> None:
        self.api = api
        self.program = program
        self.name = f"room-{secrets.token_hex(4)}"
        self.table = f"table-{self.name}"
        self.secret = save(api, self.name, **{"url": program.url, "abilities": CARDS, **more})["secret"]
        bind(api, self.name, agent)
        for user in ("ann", "vic", "bob"):
            assert api.post("/api/v1/actors", {"actor": f"{self.name}:{user}", "user_id": user}).status in (200, 201)

    def event(self, actor: str | None = "ann", place: str = "", **body: Any) -> Any:
        who = {} if actor is None else {"actor": {"id": actor}}
        number = f"msg-{secrets.token_hex(6)}"
        return post(
            self.api, self.name, self.secret, {"conversation": place or self.table, **who, **body}, number=number
        )

    def say(self, text: str, actor: str | None = "ann", **more: Any) -> Any:
        answer = self.event(actor, text=text, **more)
        assert answer.status == 202, answer.body
        return answer.json

    def click(self, card: Any, button: str | None, actor: str | None = "ann", place: str = "", **data: Any) -> Any:
        interaction = card if isinstance(card, str) else card["interaction"]["id"]
        data = {"interaction_id": interaction, **({} if button is None else {"button": button}), **data}
        answer = self.event(actor, place, type="interaction.submitted", data=data)
        assert answer.status == 200, answer.body
        return answer.json

    def card(self, kind: str = "interaction.requested") -> Any:
        return self.sent(lambda body: body["type"] == kind)

    def sent(self, fits: Any) -> Any:
        arrival, came = self.program.arrival, self.program.came
        with arrival:
            assert arrival.wait_for(lambda: any(map(fits, came)), 60), came
            return next(filter(fits, came))


@pytest.fixture
def room(clerk: Any, program: Program) -> Room:
    return Room(clerk, program)


def final(text: str) -> Any:
    return lambda body: body["type"] == "message.sent" and body["text"] == text


def test_an_approval_is_decided_by_a_click_in_its_conversation(room: Room) -> None:
    run_id = room.say(SUM)["run_id"]
    card = room.card()
    shown = card["interaction"]
    (approval,) = [
        item
        for item in room.api.get("/api/v1/approvals?status=requested").json["items"]
        if shown["id"].startswith(item["approval_id"])
    ]
    whole = room.api.get(f"/api/v1/approvals/{approval['approval_id']}").json
    assert shown["lines"] == whole["display"]["lines"], "the text of the host, byte for byte"
    assert [each["id"] for each in shown["buttons"]] == ["allow_once", "allow_run", "deny", "deny_stop"]
    assert shown["fallback"] == {"command": f"bollard approvals show {approval['approval_id']}"}
    assert (card["target"], card["run_id"], shown["expires_at"]) == (room.table, run_id, approval["expires_at"])

    clicked = room.click(card, "allow_once", message="m1")
    assert clicked == {"outcome": "granted", "toast": "Allowed."}
    room.sent(final("done: 42"))
    kinds = [each["type"] for each in room.program.came]
    assert kinds == ["interaction.requested", "interaction.updated", "message.sent"], "in the order of the log"
    updated = room.program.came[1]
    assert (updated["message"], updated["interaction"]["outcome"]) == ("m1", "granted")
    assert (updated["interaction"]["by"], updated["interaction"]["decision"]) == ("user:ann", "allow_once")
    (granted,) = [each.data["data"] for each in room.api.read(run_id) if each.type == "approval.granted"]
    assert (granted["by"], granted["via"]) == ("user:ann", f"{room.name}:ann")

    again = room.click(card, "deny")
    assert (again["outcome"], again["reason"]["reason"]) == ("refused", "already_executed")
    assert again["toast"] == "Already allowed, and the call was made."


def test_only_a_linked_person_with_the_right_decides(room: Room) -> None:
    run_id = room.say(SUM)["run_id"]
    card = room.card()

    def refusal(actor: str | None) -> str:
        return room.click(card, "allow_once", actor)["reason"]["reason"]

    assert refusal("stranger") == "actor_not_linked"
    assert room.click(card, "allow_once", "stranger")["toast"].endswith("Send me /link in a private chat.")
    clicked = {"interaction_id": card["interaction"]["id"], "button": "allow_once"}
    chinese = room.event("stranger", type="interaction.submitted", locale="zh-CN", data=clicked)
    assert chinese.json["toast"].endswith("请在与我的私聊中发送 /link。")
    assert refusal(None) == "actor_not_linked"
    assert refusal("vic") == "decide_not_permitted"
    assert room.api.get(f"/api/v1/runs/{run_id}").json["status"] == "waiting"
    assert room.click(card, "deny", "bob")["outcome"] == "denied"
    room.sent(final("refused: approval_denied"))


def test_the_agents_rules_decide_who_approves_in_a_conversation_too(clerk: Any, program: Program) -> None:
    listed = {"approve": {"who": "listed", "actors": ["user:bob"]}}
    own = {"mode": "always", "other_person": True}
    clerk.save_agent("strict", "kit/clerk", access=ACCESS, audience=listed, approval={"mode": "always"})
    clerk.save_agent("pairs", "kit/clerk", approval=own, **RULES)
    strict = Room(clerk, program, "strict", commands=["help"])
    strict.say(SUM)
    stranger = strict.click(strict.card(), "allow_once", "stranger")
    assert stranger["toast"].endswith("Ask its operator to link it.")
    assert strict.click(strict.card(), "allow_once", "ann")["reason"]["reason"] == "not_an_approver"
    assert strict.click(strict.card(), "deny", "bob")["outcome"] == "denied"
    pairs = Room(clerk, program, "pairs")
    pairs.say(SUM)
    card = pairs.sent(lambda body: body["type"] == "interaction.requested" and body["channel"] == pairs.name)
    assert pairs.click(card, "allow_once", "ann")["reason"]["reason"] == "own_approval"
    assert pairs.click(card, "deny", "bob")["outcome"] == "denied"


def test_forged_foreign_and_forwarded_clicks_decide_nothing(room: Room, clerk: Any, program: Program) -> None:
    run_id = room.say(SUM)["run_id"]
    card = room.card()
    interaction = card["interaction"]["id"]

    def reason(answer: Any) -> str:
        assert answer["outcome"] == "refused"
        return answer["reason"]["reason"]

    forged = f"{interaction.partition('.')[0]}.{secrets.token_urlsafe(12)}"
    for wrong in (forged, interaction.partition(".")[0], "apr_1.x", "qst_1.x", "other", "\u00e9.x", "x" * 256):
        assert reason(room.click(wrong, "allow_once")) in ("no_interaction", "no_question")
    assert reason(room.click(card, "allow_once", place="elsewhere")) == "interaction_elsewhere"
    clerk.until(
        "/api/v1/deliveries", lambda page: any(each["run_id"] == run_id and each["messages"] for each in page["items"])
    )
    assert reason(room.click(card, "allow_once", message="m99")) == "interaction_elsewhere"
    other = Room(clerk, program)
    assert reason(other.click(card, "allow_once")) == "no_interaction"
    assert reason(room.click(card, "open_sesame")) == "unknown_button"
    assert reason(room.click(card, None)) == "unknown_button"
    assert room.event("ann", type="interaction.submitted", data={"button": "allow_once"}).status == 400
    assert clerk.get(f"/api/v1/runs/{run_id}").json["status"] == "waiting"
    assert room.say("yes, allow it", actor="bob")["run_id"] != run_id, "a message decides nothing"
    assert clerk.get(f"/api/v1/runs/{run_id}").json["status"] == "waiting"
    assert room.click(card, "deny")["outcome"] == "denied"


def test_a_decision_elsewhere_and_a_stopped_run_update_the_conversation(room: Room) -> None:
    room.say(SUM)
    approval_id = room.card()["interaction"]["id"].partition(".")[0]
    found = room.api.get(f"/api/v1/approvals/{approval_id}").json
    decision = {"decision": "deny", "digest": found["digest"]}
    assert room.api.post(f"/api/v1/approvals/{approval_id}/decide", decision).status == 200
    updated = room.card("interaction.updated")["interaction"]
    assert (updated["outcome"], updated["by"]) == ("denied", "admin-token")
    assert updated["text"] == "calculate: denied by admin-token."
    room.sent(final("refused: approval_denied"))

    run_id = room.say(SUM)["run_id"]
    second = room.sent(lambda body: body["type"] == "interaction.requested" and body["run_id"] == run_id)
    stopped = room.event("ann", type="run.stop_requested", data={"run_id": run_id})
    assert stopped.json == {"outcome": "stopping", "toast": "The run is being stopped.", "run_id": run_id}
    over = room.sent(lambda body: body["type"] == "interaction.updated" and body["run_id"] == run_id)
    assert over["interaction"]["outcome"] == "expired"
    assert room.click(second, "allow_once")["reason"]["reason"] == "approval_over"


def test_only_who_may_steer_stops_a_run_and_only_in_its_conversation(room: Room) -> None:
    run_id = room.say(SUM)["run_id"]
    card = room.card()

    def reason(actor: str, place: str = "", **data: Any) -> str:
        answer = room.event(actor, place, type="run.stop_requested", data=data)
        assert answer.status == 200, answer.body
        return answer.json["reason"]["reason"]

    assert reason("stranger", run_id=run_id) == "not_a_steerer"
    assert reason("bob", run_id=run_id) == "not_a_steerer"
    assert reason("ann", "elsewhere", run_id=run_id) == "no_run"
    assert reason("ann", run_id="run_1") == "no_run"
    assert reason("ann", "elsewhere") == "no_run"
    assert room.event("ann", type="run.stop_requested").json["run_id"] == run_id
    assert room.api.ended(run_id)["status"] == "cancelled"
    assert reason("ann", run_id=run_id) == "cancel_ended"
    assert room.click(card, "allow_once")["outcome"] == "refused"


def test_a_channel_without_buttons_gets_text_with_a_command(clerk: Any, program: Program) -> None:
    room = Room(clerk, program, abilities={"dedupe": "native", "supports_edit": True}, locale="zh_Hans")
    room.say(SUM)
    text = room.sent(lambda body: "bollard approvals show apr_" in body["text"])
    assert (text["type"], "interaction" in text) == ("message.sent", False)
    assert 'arguments.expression | "6 * 7"' in text["text"]
    assert "工具 | tool:builtin/calculate" in text["text"]
    approval_id = text["text"].rpartition("show ")[2]
    found = clerk.get(f"/api/v1/approvals/{approval_id}").json
    decision = {"decision": "allow_once", "digest": found["digest"]}
    assert clerk.post(f"/api/v1/approvals/{approval_id}/decide", decision).status == 200
    edited = room.sent(lambda body: body["type"] == "message.edited")
    assert (edited["message"], edited["text"]) == ("m1", "calculate：已由 admin-token 允许。")
    assert room.click(f"{approval_id}.x", "allow_once")["toast"] == "这里没有该请求。"


def test_a_question_is_answered_by_its_button(room: Room) -> None:
    room.say(ASK)
    card = room.card()
    assert [(each["id"], each["label"]) for each in card["interaction"]["buttons"]] == [("1", "left"), ("2", "right")]
    assert room.click(card, "2", "vic")["reason"]["reason"] == "not_the_asked"
    assert room.click(card, "3")["reason"]["reason"] == "unknown_button"
    assert room.click(card, "2") == {"outcome": "answered", "toast": "Your answer was recorded."}
    room.sent(final("done: right"))
    updated = room.card("interaction.updated")["interaction"]
    assert (updated["outcome"], updated["answer"], updated["kind"]) == ("answered", "right", "question")
    assert room.click(card, "1")["reason"]["reason"] == "no_question"


def test_a_question_without_choices_is_a_form(room: Room) -> None:
    room.say('ask_user {"question": "Your name?"}', actor="stranger")
    card = room.card()
    assert card["interaction"]["form"]["fields"] == [{"name": "answer", "type": "text", "label": "Answer"}]
    assert room.click(card, None, "stranger", values={"answer": " "})["reason"]["reason"] == "answer_length"
    assert room.click(card, None, "stranger", values={"answer": "Ada"})["outcome"] == "answered"
    room.sent(final("done: Ada"))


@pytest.mark.parametrize("mode", ["queue", "steer", "parallel"])
def test_the_next_message_of_the_asked_person_answers(clerk: Any, program: Program, mode: str) -> None:
    concurrency = {"mode": mode, "steer_from": "conversation"}
    clerk.save_agent(f"asks-{mode}", "kit/clerk", concurrency=concurrency, **RULES)
    room = Room(clerk, program, f"asks-{mode}", abilities={"dedupe": "native"})
    run_id = room.say(ASK)["run_id"]
    question = room.sent(lambda body: body["text"].startswith("Which one?"))
    assert question["text"] == "Which one?\n1. left\n2. right\nAnswer with a number or with the text."
    other = room.say('calculate {"expression": "1 + 1"}', actor="bob")
    asked = clerk.get(f"/api/v1/runs/{run_id}/questions").json["items"]
    assert len(asked) == 1, "the message of another person is no answer"
    answered = room.say(" 2 ")
    assert answered["steering"]["claimed_by_run_id"] == run_id
    room.sent(final("done: right"))
    (record,) = [each.data["data"] for each in clerk.read(run_id) if each.type == "question.answered"]
    assert (record["answer"], record["event_id"]) == ("right", answered["event_id"])
    assert other["event_id"] != answered["event_id"]


def test_an_approval_of_a_called_agent_goes_to_the_conversation_of_its_caller(room: Room) -> None:
    room.say(f"clerk {SUM}")
    card = room.card()
    assert card["target"] == room.table
    assert room.click(card, "allow_once")["outcome"] == "granted"
    room.sent(final("child: done: 42"))


@pytest.mark.parametrize("clicks", [200, pytest.param(10_000, marks=pytest.mark.full)])
def test_many_clicks_on_one_approval_make_one_decision(room: Room, clicks: int) -> None:
    run_id = room.say(SUM)["run_id"]
    card = room.card()
    with ThreadPoolExecutor(8) as pool:
        buttons = ["allow_once", "deny"] * (clicks // 2)
        outcomes = [answer["outcome"] for answer in pool.map(lambda button: room.click(card, button), buttons)]
    assert len(outcomes) - outcomes.count("refused") == 1
    room.sent(lambda body: body["type"] == "message.sent")
    decided = [each.type for each in room.api.read(run_id) if each.type in ("approval.granted", "approval.denied")]
    assert len(decided) == 1
    assert [body["type"] for body in room.program.came].count("interaction.updated") == 1


def test_a_click_with_attached_content_can_only_deny(room: Room) -> None:
    long = json.dumps({"expression": "+\n".join(["1"] * 50)})
    room.say(f"calculate {long}")
    card = room.card()
    assert [each["id"] for each in card["interaction"]["buttons"]] == ["deny", "deny_stop"]
    assert room.click(card, "allow_once")["reason"]["reason"] == "inspected_missing"
    assert room.click(card, "deny")["outcome"] == "denied"


def test_a_channel_with_private_messages_shows_an_approval_to_those_who_may_decide(
    clerk: Any, program: Program
) -> None:
    private = Room(clerk, program, abilities={**CARDS, "private_messages": True})
    private.say(SUM)
    card = private.card()
    assert sorted(card["visible_to"]) == ["ann", "bob"], "vic has no right to decide"
    links = {each["actor"]: each["link_id"] for each in clerk.get("/api/v1/actors?limit=100").json["items"]}
    assert clerk.delete(f"/api/v1/actors/{links[f'{private.name}:bob']}").status == 200
    assert private.click(card, "deny")["outcome"] == "denied"
    assert private.card("interaction.updated")["visible_to"] == card["visible_to"], "the people who saw the request"
    private.say(ASK)
    question = private.sent(lambda body: body.get("interaction", {}).get("kind") == "question")
    assert "visible_to" not in question
    assert private.click(question, "1")["outcome"] == "answered"


def test_a_private_approval_that_nobody_in_the_chat_may_decide_is_shown_to_the_person_who_waits(
    clerk: Any, program: Program
) -> None:
    private = Room(clerk, program, abilities={**CARDS, "private_messages": True})
    links = {each["actor"]: each["link_id"] for each in clerk.get("/api/v1/actors?limit=100").json["items"]}
    for name in ("ann", "bob"):
        assert clerk.delete(f"/api/v1/actors/{links[f'{private.name}:{name}']}").status == 200
    private.say(SUM, "vic")
    card = private.card()
    assert card["visible_to"] == ["vic"]
    assert private.click(card, "allow_once", "vic")["reason"]["reason"] == "decide_not_permitted"
