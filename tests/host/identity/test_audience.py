"""Audience rules: which callers may see, steer and approve runs of an agent."""

from collections.abc import AsyncGenerator
from typing import Any

import msgspec
import pytest
from starlette.requests import HTTPConnection

from bollard.host.agents.agent import Agent, AgentRegistry
from bollard.host.agents.policies import AgentPolicy, AudiencePolicy, AudienceRule
from bollard.host.http.auth.callers import give_caller
from bollard.host.http.auth.presence import AccessRevoked
from bollard.host.http.resources.run_rows import RunRows
from bollard.host.identity.audience import Audience
from bollard.host.identity.caller import Caller, installation, rights_of
from bollard.host.identity.keys import KeyRequest
from bollard.host.identity.sessions import digest_of
from bollard.host.limits import STREAM_LOOK_S
from bollard.host.log.records import RunFacts
from bollard.host.runs.hub import StreamRecord
from bollard.host.scope import Scope
from bollard.host.store.rows import EventRow, PutEvent, PutRun, RunRow

DEEDS = ("see", "steer", "approve")


def caller(user_id: str, role: Any = "member", workspace: str = "default") -> Caller:
    return Caller(
        workspace=workspace, kind="session", name=f"user:{user_id}", user_id=user_id, role=role, rights=rights_of(role)
    )


def agent(rule: AudienceRule | None, agent_id: str = "echo") -> Agent:
    audience = AudiencePolicy() if rule is None else AudiencePolicy(see=rule, steer=rule, approve=rule)
    return Agent(
        agent_id=agent_id,
        runner_id="plugin:bollard/echo/default",
        runner_name="default",
        plugin="bollard/echo",
        label={"en_US": "Echo"},
        policy=AgentPolicy(audience=audience),
    )


class Hall:
    """Runs of agents in a store, and people who ask about them."""

    def __init__(self, office: Any) -> None:
        self.office = office
        self.store = office.store
        self.agents = AgentRegistry()
        self.audience = Audience(
            agents=self.agents,
            users=office.book.users,
            links=office.book.links,
            callers=office.book.callers,
            store=office.store,
        )
        self._count = 0

    def run(
        self,
        actor: tuple[str, str] | None,
        conversation: str | None = None,
        agent_id: str = "echo",
        thread: str | None = None,
    ) -> RunRow:
        self._count += 1
        run_id = f"run_{self._count}"
        facts = RunFacts(
            run_id=run_id,
            workspace="default",
            event_id=f"evt_{self._count}",
            agent_id=agent_id,
            binding_id="b",
            runner_id="r",
            grant_sha256="g",
            conversation=conversation,
            thread=thread,
            actor_type=actor[0] if actor else None,
            actor_id=actor[1] if actor else None,
        )
        shared = {"workspace": "default", "conversation": conversation, "bot": None, "thread": thread}
        row = RunRow(
            run_id=run_id,
            event_id=facts.event_id,
            agent_id=agent_id,
            binding_id="b",
            runner_id="r",
            parent_run_id=None,
            depth=0,
            status="completed",
            reason=None,
            epoch=1,
            owner=None,
            lease_until_ms=None,
            grant_sha256="g",
            created_ms=self._count,
            started_ms=None,
            finished_ms=None,
            updated_ms=self._count,
            cancel_requested_ms=None,
            last_seq=1,
            facts=msgspec.json.encode(facts),
            **shared,
        )
        event = EventRow(
            event_id=facts.event_id,
            source="s",
            source_id=facts.event_id,
            type="message.received",
            run_id=run_id,
            actor_type=facts.actor_type,
            actor_id=facts.actor_id,
            actor_name=None,
            subject_type=None,
            subject_id=None,
            summary=None,
            event_ms=None,
            created_ms=self._count,
            dispatch="run",
            steering=None,
            steering_ms=None,
            record_id=self._count,
            **shared,
        )
        with self.store.write() as transaction:
            transaction.apply([PutEvent(event), PutRun(row)])
        return row

    def event(self, actor: tuple[str, str] | None, conversation: str | None) -> EventRow:
        """An event that waits for its run."""
        run = self.run(actor, conversation, thread="unseen")
        row = self.store.event("default", run.event_id)
        return msgspec.structs.replace(row, run_id=None, thread=None, dispatch="pending")

    async def may(self, who: Caller, row: RunRow) -> set[bool]:
        return {await self.audience.may(who, deed, row) for deed in DEEDS}


@pytest.fixture
async def hall(memory_office: Any) -> Hall:
    await memory_office.user("ann", "member")
    await memory_office.user("bob", "member")
    await memory_office.user("vic", "viewer")
    return Hall(memory_office)


async def test_an_editor_of_the_agent_is_exempt_from_the_audience_rule(hall: Hall) -> None:
    hall.agents.put(agent(AudienceRule(who="listed")))
    row = hall.run(("user", "ann"))
    for who in (installation(), caller("olga", "operator"), caller("ada", "admin")):
        assert await hall.may(who, row) == {True}
    assert await hall.may(caller("ann"), row) == {False}


@pytest.mark.parametrize(
    ("listed", "who"), [("user:bob", {"bob"}), ("role:member", {"ann", "bob"}), ("user:*", {"ann", "bob", "vic"})]
)
async def test_a_list_names_users_and_roles(hall: Hall, listed: str, who: set[str]) -> None:
    hall.agents.put(agent(AudienceRule(who="listed", actors=(listed,))))
    row = hall.run(None)
    people = {"ann": caller("ann"), "bob": caller("bob"), "vic": caller("vic", "viewer")}
    assert {name for name, each in people.items() if await hall.may(each, row) == {True}} == who


async def test_participants_are_the_actor_of_the_run_and_the_actors_of_its_conversation(hall: Hall) -> None:
    hall.agents.put(agent(AudienceRule(who="participants")))
    alone, talk = hall.run(("user", "ann")), hall.run(("user", "ann"), "room")
    assert await hall.may(caller("ann"), alone) == {True}
    assert await hall.may(caller("bob"), alone) == {False}
    assert await hall.may(caller("bob"), talk) == {False}
    hall.run(("chat", "7"), "room")
    assert await hall.may(caller("bob"), talk) == {False}
    await hall.office.book.links.save({"actor": "chat:7", "user_id": "bob"}, installation())
    assert await hall.may(caller("bob"), talk) == {True}
    nobody = Caller(workspace="default", kind="key", name="key:1", rights=frozenset({"runs.read"}))
    assert await hall.may(nobody, hall.run(None, "room")) == {False}


async def test_a_caller_who_acts_for_others_may_steer_but_not_see(hall: Hall) -> None:
    hall.agents.put(agent(AudienceRule(who="listed")))
    row = hall.run(("user", "ann"))
    program = Caller(workspace="default", kind="key", name="key:1", rights=frozenset({"actors.assume", "runs.read"}))
    assert [await hall.audience.may(program, deed, row) for deed in DEEDS] == [False, True, False]


async def test_a_run_token_covers_its_own_run_only(hall: Hall) -> None:
    hall.agents.put(agent(AudienceRule(who="listed")))
    row, other = hall.run(None), hall.run(None)
    holder = Caller(workspace="default", kind="run", name=f"run:{row.run_id}", rights=frozenset({"runs.execute"}))
    may = {deed: await hall.audience.may(holder, deed, row) for deed in DEEDS}
    assert may == {"steer": True, "see": True, "approve": False}, "the executor of a run approves none of its calls"
    assert await hall.may(holder, other) == {False}


async def test_runs_without_a_rule_or_an_agent_are_for_their_participants(hall: Hall) -> None:
    hall.agents.put(agent(None))
    rows = [hall.run(("user", "ann")), hall.run(("user", "ann"), agent_id="gone")]
    assert await hall.audience.seen(caller("bob"), rows) == []
    assert await hall.audience.seen(caller("vic", "viewer"), rows) == []
    assert await hall.audience.seen(caller("ann"), rows) == rows
    assert await hall.audience.seen(caller("olga", "operator"), rows) == rows


async def test_a_key_that_reads_the_log_or_acts_for_others_sees_runs_of_participants(hall: Hall) -> None:
    hall.agents.put(agent(AudienceRule(who="participants")))
    row = hall.run(("user", "ann"))
    for right, deeds in (("audit.read", [True, False, False]), ("actors.assume", [True, True, False])):
        program = Caller(workspace="default", kind="key", name="key:1", rights=frozenset({right, "runs.read"}))
        assert [await hall.audience.may(program, deed, row) for deed in DEEDS] == deeds
    hall.agents.put(agent(AudienceRule(who="everyone")))
    reader = Caller(workspace="default", kind="key", name="key:2", rights=frozenset({"runs.read"}))
    assert await hall.may(reader, row) == {True}


async def test_an_event_without_a_run_is_for_its_sender_and_the_participants_of_its_conversation(hall: Hall) -> None:
    hall.agents.put(agent(None))
    hall.run(("user", "ann"), "room")
    waiting = hall.event(("user", "bob"), "room")
    alone, webhook = hall.event(("user", "bob"), "empty room"), hall.event(None, None)
    people = {
        "ann": caller("ann"),
        "bob": caller("bob"),
        "vic": caller("vic", "viewer"),
        "olga": caller("o", "operator"),
    }

    async def seen(row: EventRow) -> set[str]:
        return {name for name, who in people.items() if await hall.audience.sees_event(who, row)}

    assert await seen(waiting) == {"ann", "bob", "olga"}
    assert await seen(alone) == {"bob", "olga"}
    assert await seen(webhook) == {*people}


async def test_a_resource_of_a_run_is_visible_to_the_readers_of_the_run(hall: Hall) -> None:
    hall.agents.put(agent(AudienceRule(who="participants")))
    row = hall.run(("user", "ann"))
    assert await hall.audience.sees_run(caller("ann"), row.run_id)
    assert not await hall.audience.sees_run(caller("bob"), row.run_id)
    assert not await hall.audience.sees_run(caller("ann"), "run_absent")
    assert await hall.audience.sees_run(caller("bob"), None)


async def test_a_conversation_is_visible_to_readers_of_the_newest_run_of_each_agent(hall: Hall) -> None:
    hall.agents.put(agent(AudienceRule(who="everyone")))
    hall.agents.save(agent(AudienceRule(who="participants"), "private"))
    place = Scope(workspace="default", conversation="room")
    hall.run(("user", "ann"), "room")
    assert await hall.audience.sees_place(caller("bob"), place)
    hall.run(("user", "ann"), "room", "private")
    assert not await hall.audience.sees_place(caller("bob"), place)
    assert await hall.audience.sees_place(caller("ann"), place)
    assert await hall.audience.sees_place(caller("olga", "operator"), place)


@pytest.mark.parametrize(("agent_id", "thread"), [("private", "another"), ("echo", None)])
async def test_a_private_conversation_stays_private_after_any_number_of_other_runs(
    hall: Hall, agent_id: str, thread: str | None
) -> None:
    hall.agents.put(agent(AudienceRule(who="everyone")))
    hall.agents.save(agent(AudienceRule(who="participants"), "private"))
    place = Scope(workspace="default", conversation="room")
    hall.run(("user", "ann"), "room", "private")
    for _ in range(60):
        hall.run(("user", "bob" if thread else "ann"), "room", agent_id, thread)
    assert not await hall.audience.sees_place(caller("bob"), place)
    assert not await hall.audience.may_enter(caller("bob"), place)
    assert await hall.audience.sees_place(caller("ann"), place)


async def test_a_stream_ends_soon_after_its_reader_loses_access(hall: Hall) -> None:
    office = hall.office
    hall.agents.put(agent(None))
    row, token = hall.run(("user", "ann")), await office.login("ann")
    rows = RunRows(hall.store, hall.audience, office.clock)
    request = HTTPConnection({"type": "http", "headers": []})
    give_caller(request, office.caller(token))
    closed: list[bool] = []

    async def silence() -> AsyncGenerator[list[StreamRecord]]:
        try:
            while True:
                yield []
        finally:
            closed.append(True)

    batches = rows.watched(request, row, silence())
    for _ in range(3):
        office.clock.advance(STREAM_LOOK_S)
        assert await anext(batches) == []
    await office.user("ann", "viewer", password=None)  # another role is another caller: the reader reconnects
    assert await anext(batches) == []  # not looked at yet
    office.clock.advance(STREAM_LOOK_S)
    with pytest.raises(AccessRevoked):
        await anext(batches)
    assert closed == [True]


async def test_access_ends_with_its_session_and_not_with_another(hall: Hall) -> None:
    office = hall.office
    hall.agents.put(agent(AudienceRule(who="everyone")))
    row, first, second = hall.run(None), await office.login("ann"), await office.login("ann")
    ann, other = office.caller(first), office.caller(second)
    await office.book.sessions.end(office.book.sessions.find(digest_of(first)))
    assert not await hall.audience.still_sees(ann, row)
    assert await hall.audience.still_sees(other, row)
    assert await hall.audience.still_sees(installation(), row)
    made = await office.book.keys.make(KeyRequest(name="k", rights=("runs.read",)), installation())
    key = office.caller(made.token)
    assert await hall.audience.still_sees(key, row)
    await office.book.keys.delete_as(installation(), made.saved.id)
    assert not await hall.audience.still_sees(key, row)
