"""The hand-written `run/start` request matches the protocol for any event."""

import itertools
from typing import Any

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.new_events import new_event

from bollard.host.agents.agent import Agent
from bollard.host.grants.offer import Offer
from bollard.host.log.records import RunFacts
from bollard.host.runs.creation import RunMaker
from bollard.host.runs.ids import IdMaker
from bollard.host.runs.start_request import ConversationFacts, run_request
from bollard.protocol import AgentRunRequest

MAKER = RunMaker(ManualClock(), IdMaker(), lambda _: Offer.of())
CHOICES: dict[str, tuple[Any, ...]] = {
    "text": (None, "hello"),
    "contents": ((), ({"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "https://x/y.png"}})),
    "conversation": (None, "room"),
    "thread": (None, "t"),
    "bot": (None, "b"),
    "actor_type": (None, "user"),
    "actor_id": (None, "u1"),
    "subject_type": (None, "ticket"),
    "subject_id": (None, "7"),
    "event_ms": (None, 0, 1_700_000_000_123),
    "data": ({}, {"deep": {"er": [1, None, "x"]}}),
}


@pytest.mark.requirement("P04-09", "P02-18")
@pytest.mark.parametrize(("trigger", "kind"), [("api", "message.received"), ("webhook", "webhook.received")])
def test_every_combination_of_an_event_is_a_valid_request(trigger: Any, kind: str) -> None:
    agent = Agent(
        agent_id="parrot",
        runner_id="plugin:acme/parrot/default",
        runner_name="default",
        plugin="parrot",
        label={"en_US": "Parrot"},
        config={"model": "m", "n": 3},
    )
    checked = 0
    for values in itertools.product(*CHOICES.values()):
        fields = dict(zip(CHOICES, values, strict=True))
        event = new_event(source="web", source_id="1", event_type=kind, trigger=trigger, **fields)
        facts = RunFacts(
            run_id="run_1",
            workspace="default",
            event_id="evt_1",
            agent_id="parrot",
            binding_id="b",
            runner_id=agent.runner_id,
            grant_sha256="0" * 64,
            bot=event.scope.bot,
            conversation=event.scope.conversation,
            thread=event.scope.thread,
            deadline_s=30,
        )
        grant = MAKER.grant(event, agent, "run_1")
        known = ConversationFacts(state={"runner": {"k": 1}}, transcript_seq=7, has_history_before=True)
        request = run_request(facts, agent, event, grant, known, now_ms=1_700_000_000_000, host_version="1")
        read = AgentRunRequest.from_wire(request)
        context = read.context
        assert (read.runner_id, read.runner_name, context.run_id) == (agent.runner_id, "default", "run_1")
        assert (context.input.text, len(context.input.contents)) == (event.text, len(event.contents))
        assert (context.conversation is None) is (event.scope.conversation is None)
        assert (context.actor is None) is (event.scope.actor is None)
        assert (context.subject is None) is (event.scope.subject_type is None)
        assert context.context.inline_policy.mode == "current_event"
        assert context.context.inline_policy.delivered_count == 1
        assert (context.config, context.runtime.timeout_ms) == (agent.config, 30_000)
        assert context.event.data == event.data
        assert (context.state.runner, context.context.transcript_seq) == ({"k": 1}, 7)
        assert context.context.has_history_before
        checked += 1
    assert checked == 3 * 2**10
