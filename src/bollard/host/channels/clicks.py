"""Clicks in a conversation: decisions on approvals, answers to questions, and requests to stop a run.

The channel signs a click, and the host issued the id that it names. The host checks that the id belongs to this channel
and target, that it is still open, and that the person may act. Otherwise the click has no effect, and the answer says
why.
"""

import asyncio
import hmac
from collections.abc import Mapping
from typing import Final

import msgspec

from bollard.host.agents.agent import AgentRegistry
from bollard.host.agents.gates import FrontGates
from bollard.host.approvals.approval import DECISIONS, Approval, approval_of, stale_error
from bollard.host.approvals.approvals import Approvals
from bollard.host.approvals.approvers import Approvers
from bollard.host.approvals.decisions import Verdict
from bollard.host.approvals.interactions import INTERACTION_ID_CHARACTERS, subject_of
from bollard.host.approvals.questions import Question, QuestionRegistry, no_question
from bollard.host.errors import Conflict, Forbidden, InvalidRequest, NotFound
from bollard.host.identity.audience import Audience
from bollard.host.identity.caller import Caller
from bollard.host.identity.users import ActorLinks
from bollard.host.log.outbox_projections import opened_delivery
from bollard.host.log.records import InteractionRoute, RunFacts
from bollard.host.runs.dispatcher import Dispatcher
from bollard.host.scope import Actor
from bollard.host.store.rows import ENDED, RunRow
from bollard.host.store.store import Store

_facts: Final = msgspec.json.Decoder(RunFacts).decode
_messages: Final = msgspec.json.Decoder(list[str]).decode
FORM_FIELD: Final = "answer"
"""The field of the form of a question."""


class ClickPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a person clicked, and who."""

    workspace: str
    channel: str
    target: str
    actor: Actor | None

    @property
    def person(self) -> str:
        return "" if self.actor is None else f"{self.actor.type}:{self.actor.id or ''}"


class Click(msgspec.Struct, frozen=True, kw_only=True):
    """One click on an interaction, or one submitted form."""

    interaction_id: str
    button: str | None = None
    values: Mapping[str, str] = {}
    message: str | None = None
    """The channel's id of the clicked message."""


class Clicks:
    """Applies clicks for the people who made them."""

    def __init__(
        self,
        *,
        approvals: Approvals,
        questions: QuestionRegistry,
        approvers: Approvers,
        audience: Audience,
        links: ActorLinks,
        store: Store,
    ) -> None:
        self._approvals = approvals
        self._questions = questions
        self._approvers = approvers
        self._audience = audience
        self._links = links
        self._store = store

    async def submit(self, place: ClickPlace, click: Click) -> str:
        """Apply a click. Returns the outcome: `granted`, `denied` or `answered`. Raises `HostError` if the click has no
        effect."""
        if len(click.interaction_id) > INTERACTION_ID_CHARACTERS:
            raise no_interaction()
        subject = subject_of(click.interaction_id)
        if subject.startswith("apr_"):
            return await self._decide(place, click, subject)
        if subject.startswith("qst_"):
            return await self._answer(place, click, subject)
        raise no_interaction()

    # --- approvals ---

    async def _decide(self, place: ClickPlace, click: Click, approval_id: str) -> str:
        row = await asyncio.to_thread(self._store.approval, place.workspace, approval_id)
        if row is None:
            raise no_interaction()
        approval = approval_of(row)
        await self._check_place(place, click, approval.interaction)
        caller = self._linked(place)
        await self._approvers.check(caller, approval, await self._run(approval))
        if click.button not in DECISIONS:
            raise _unknown_button(click.button)
        if row.status != "requested":
            raise stale_error(row.status)
        verdict = Verdict(decision=click.button, digest=approval.digest, by=caller.name, via=place.person)
        await self._approvals.decide(place.workspace, approval_id, verdict)
        return "granted" if verdict.allows else "denied"

    def _linked(self, place: ClickPlace) -> Caller:
        if (caller := self._links.caller_of(place.workspace, place.actor)) is None:
            raise Forbidden(
                "the actor of the click is not linked to a user",
                reason="actor_not_linked",
                hint=f"link it: `bollard users link {place.person or 'CHANNEL:ID'} USER`",
                actor=place.person,
            )
        return caller

    async def _run(self, approval: Approval) -> RunRow:
        run = await asyncio.to_thread(self._store.run, approval.run_id)
        if run is None:
            raise no_interaction()
        return run

    # --- questions ---

    async def _answer(self, place: ClickPlace, click: Click, question_id: str) -> str:
        question = self._questions.find(question_id)
        if question is None:
            raise no_question()
        await self._check_place(place, click, question.interaction)
        if not await self._may_answer(place, question):
            raise Forbidden(
                "the question is for another person",
                reason="not_the_asked",
                hint="the person who started the run answers it",
            )
        await self._questions.answer(question.run_id, question_id, _answer_of(question, click), by=place.person)
        return "answered"

    async def _may_answer(self, place: ClickPlace, question: Question) -> bool:
        """The asked person may answer, on any linked account, and so may callers who may steer the run."""
        if place.actor == question.actor:
            return True
        caller = self._links.caller_of(place.workspace, place.actor)
        if caller is None:
            return False
        if self._audience.is_caller(caller, question.actor):
            return True
        run = await asyncio.to_thread(self._store.run, question.conversation_run)
        return run is not None and caller.may("runs.control") and await self._audience.may(caller, "steer", run)

    # --- where ---

    async def _check_place(self, place: ClickPlace, click: Click, route: InteractionRoute | None) -> None:
        """The id was issued to this channel, for this target and this message."""
        known = route is not None and hmac.compare_digest(route.id.encode(), click.interaction_id.encode())
        if route is None or not known or route.channel != place.channel:
            raise no_interaction()
        shown = await asyncio.to_thread(self._store.delivery, place.workspace, opened_delivery(route.id))
        messages = [] if shown is None else _messages(shown.messages)
        elsewhere = click.message is not None and any(messages) and click.message not in messages
        if route.target != place.target or elsewhere:
            raise Forbidden(
                "the click comes from another message than the one that shows the request",
                reason="interaction_elsewhere",
                hint="click in the original message: a forwarded one decides nothing",
            )


class StopRequests:
    """Stops runs for the people in their conversation."""

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        gates: FrontGates,
        agents: AgentRegistry,
        audience: Audience,
        links: ActorLinks,
        store: Store,
    ) -> None:
        self._dispatcher = dispatcher
        self._gates = gates
        self._agents = agents
        self._audience = audience
        self._links = links
        self._store = store

    async def stop(self, place: ClickPlace, run_id: str | None) -> str:
        """Stop a run that answers here; without an id the newest one. Returns its id. Raises `HostError`."""
        if run_id is None:
            run_id = self._newest_here(place)
        row = await asyncio.to_thread(self._store.run, run_id) if run_id else None
        if row is None or not _answers(_facts(row.facts), place):
            raise NotFound("there is no such run", reason="no_run", hint="`bollard runs` lists the newest")
        if not await self._may_stop(place, row):
            raise Forbidden(
                f"you may not steer or stop runs of agent {row.agent_id}",
                reason="not_a_steerer",
                hint="take part in its conversation, or ask the administrator of the agent (policy.audience.steer)",
                agent=row.agent_id,
            )
        if row.status in ENDED or not await self._dispatcher.stop(row.run_id):
            raise Conflict(
                f"the run has ended: {row.status}",
                reason="cancel_ended",
                hint="there is nothing to cancel",
                status=row.status,
            )
        return row.run_id

    def _newest_here(self, place: ClickPlace) -> str:
        return max((run_id for run_id, run in self._dispatcher.live.items() if _answers(run.facts, place)), default="")

    async def _may_stop(self, place: ClickPlace, row: RunRow) -> bool:
        """The actor of the run, unless the agent lists who may steer, and linked users as in the API."""
        agent = self._agents.get(row.agent_id, row.workspace)
        own = place.actor is not None and place.actor == _facts(row.facts).actor
        if own and agent is not None and self._gates.may_steer(agent, place.actor):
            return True
        caller = self._links.caller_of(place.workspace, place.actor)
        return caller is not None and caller.may("runs.control") and await self._audience.may(caller, "steer", row)


def _answers(facts: RunFacts, place: ClickPlace) -> bool:
    """Whether the run delivers its answers to this place."""
    goes_to = facts.deliver_to
    here = (place.workspace, place.channel, place.target)
    return goes_to is not None and (facts.workspace, goes_to.channel, goes_to.target) == here


def _answer_of(question: Question, click: Click) -> str:
    if click.button is None:
        return click.values.get(FORM_FIELD, "")
    number = int(click.button) if click.button.isascii() and click.button.isdigit() else 0
    if not 1 <= number <= len(question.choices):
        raise _unknown_button(click.button)
    return question.choices[number - 1]


def _unknown_button(button: str | None) -> InvalidRequest:
    return InvalidRequest(
        "the interaction has no such button",
        reason="unknown_button",
        hint="send the id of one of its buttons",
        field="data.button",
        button=button or "",
    )


def no_interaction() -> NotFound:
    """The same error for an unknown id and for one of another channel."""
    return NotFound(
        "there is no such interaction",
        reason="no_interaction",
        hint="send the id that interaction.requested has, through the channel that got it",
    )
