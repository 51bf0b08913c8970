"""`/runs/{id}/…`: cancel and steer a run, show and explain its grant, and revoke permissions."""

import asyncio
from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.core import Core
from bollard.host.errors import Conflict, HostError, InvalidRequest
from bollard.host.events.acceptance import Accepted
from bollard.host.grants.explanation import Explanation
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of, speaker
from bollard.host.http.bodies import RevokeGrant, SteerRun, chosen_id, message_event, parsed, source_of
from bollard.host.http.events.incoming import read_message
from bollard.host.http.events.message_inputs import MessageInputs
from bollard.host.http.events.payloads import Payloads
from bollard.host.http.idempotency import KEY_HEADER, key_of, refuse_other
from bollard.host.http.openapi.examples import ACCEPTED_EXAMPLE, EXPLAINED_EXAMPLE, GRANT_EXAMPLE
from bollard.host.http.openapi.schemas import ACCEPTED, ANY, DECIDED_BY, FLAG, TEXT, array_of, fields, named
from bollard.host.http.operations import Answer, QueryField
from bollard.host.http.resources.declaration import DeclaredResource, answer, operation
from bollard.host.http.resources.run_rows import RunRows, accepted_body
from bollard.host.http.resources.runs import EVENT_ERRORS
from bollard.host.identity.caller import Caller
from bollard.host.recovery import facts_of
from bollard.host.runs.control import RunControl
from bollard.host.runs.live_run import LiveRun
from bollard.host.scope import Scope
from bollard.host.store.rows import RunRow
from bollard.host.store.store import Store
from bollard.host.texts import LOCALES
from bollard.protocol import TERMINAL_STATUSES, JsonObject

_EXPLAINED: Final = named(
    "Explained", fields({"thing": TEXT, "code": TEXT}, action=TEXT, allowed=FLAG, reasons=array_of(DECIDED_BY))
)


_RUN: Final = "/api/v1/runs/{run_id}"
_ACCEPTED: Final = Answer(
    summary="The message is on disk.",
    schema=ACCEPTED,
    example={**ACCEPTED_EXAMPLE, "steering": {"status": "queued", "claimed_by_run_id": "run_01"}},
)


class Control(DeclaredResource):
    """Operations on active runs."""

    tag = "grants"

    def __init__(
        self, *, core: Core, control: RunControl, rows: RunRows, store: Store, inputs: MessageInputs, messages: Payloads
    ) -> None:
        self._dispatcher = core.dispatcher
        self._intake = core.intake
        self._maker = core.maker
        self._control = control
        self._rows = rows
        self._store = store
        self._inputs = inputs
        self._messages = messages

    @property
    def _live(self) -> Mapping[str, LiveRun]:
        return self._dispatcher.live

    @operation(
        f"POST {_RUN}/cancel",
        name="cancelRun",
        summary="Cancel a run.",
        tag="runs",
        description="The runner has 5 s to finish. The stream reports the end of the run. The cancel request is on "
        "disk before the answer, unless the store accepts no write for 2 s.",
        right="runs.control",
        answers={202: answer("The run is being cancelled.", run_id="run_01", cancelling=True)},
        errors=("not_found", "conflict"),
    )
    async def cancel(self, request: Request) -> Response:
        row = await self._rows.of(request)
        await self.stop(row, caller_of(request))
        return JsonAnswer({"run_id": row.run_id, "cancelling": True}, status_code=202)

    async def stop(self, row: RunRow, caller: Caller) -> None:
        """Raises `Conflict` if there is nothing to cancel, and `Forbidden` for callers who may not cancel."""
        await self._rows.check_steering(caller, row)
        if not await self._dispatcher.stop(row.run_id):
            row = await asyncio.to_thread(self._store.run, row.run_id) or row
            if row.status in TERMINAL_STATUSES:
                raise Conflict(
                    f"the run has ended: {row.status}",
                    reason="cancel_ended",
                    hint="there is nothing to cancel",
                    status=row.status,
                )
            raise Conflict(
                "the run is ending, or is not on this host",
                reason="run_not_here",
                hint="try again in a moment",
                status=row.status,
            )

    @operation(
        f"POST {_RUN}/steer",
        name="steerRun",
        summary="Send a message to an active run.",
        tag="runs",
        description="The run is chosen as for every message of the conversation: with `steering` the message went into "
        "the run that `claimed_by_run_id` names, without it the message got a run of its own.",
        right="runs.control",
        body=SteerRun,
        body_example={"input": {"text": "Shorter, please"}},
        repeat="own",
        answers={202: _ACCEPTED, 200: _ACCEPTED},
        errors=(*EVENT_ERRORS, "idempotency_mismatch"),
    )
    async def steer(self, request: Request) -> Response:
        """Send a message to the run's conversation. The run is chosen as for every message there."""
        body = parsed(SteerRun, await read_message(request, self._messages))
        row = await self._rows.of(request)
        chosen, repeats = chosen_id(key_of(request), body.id), KEY_HEADER in request.headers
        accepted = await self.say(row, body, caller_of(request), chosen, repeats=repeats)
        return JsonAnswer(accepted_body(accepted), status_code=202 if accepted.first else 200)

    async def say(self, row: RunRow, body: SteerRun, caller: Caller, chosen: str | None, *, repeats: bool) -> Accepted:
        """`repeats`: the id identifies the message, so a repeat must have the same content."""
        await self._rows.check_steering(caller, row)
        await self._rows.check_entering(caller, row)  # a sender becomes a participant of the whole conversation
        source = source_of(caller, chosen)
        named = chosen or self._maker.new_id()
        actor = speaker(caller, None if body.actor is None else body.actor.identity) or facts_of(row).actor
        event = message_event(
            body.input,
            Scope.of(row, actor),
            source,
            named,
            caller=caller.name,
            actor_name=None if body.actor is None else body.actor.name,
            taken=await self._inputs.take(
                body.input, row, caller.name, (row.workspace, source, named), fresh=chosen is None
            ),
        )
        # A repeated message gets its first outcome, even if the run has ended since.
        accepted = None if chosen is None else await self._intake.deduplication.find(event)
        if accepted is None:
            self._check_steerable(row)
            accepted = await self._intake.accept(event, row.agent_id)
        if repeats:
            await refuse_other(self._store, accepted, event, row.agent_id)
        return accepted

    def _check_steerable(self, row: RunRow) -> None:
        if row.conversation is None:
            raise _not_steered(
                "the run has no conversation",
                "steer_no_conversation",
                "only a message of a conversation can steer",
                row,
            )
        run = self._live.get(row.run_id)
        if run is None or run.ending:
            raise _not_steered(
                "the run is not active", "steer_inactive", "send it to the agent: it starts a new run", row
            )
        if not run.grant.steerable or run.facts.external:
            hint = "the runner must declare steering, a worker must execute the run, and its concurrency must be steer"
            raise _not_steered("the run takes no messages", "steer_unsupported", hint, row)

    @operation(
        f"GET {_RUN}/grant",
        name="getRunGrant",
        summary="Show the grant of a run and its revocations.",
        description="`grant_sha256` is the digest of `grant` as canonical JSON.",
        right="grants.read",
        answers={
            200: Answer(
                summary="The grant.", schema=fields(grant=ANY, grant_sha256=TEXT, revoked=ANY), example=GRANT_EXAMPLE
            )
        },
        errors=("not_found",),
    )
    async def grant(self, request: Request) -> Response:
        row = await self._rows.of(request)
        grant, revoked = await self._control.grant_of(row.run_id)
        body = {"grant": msgspec.json.decode(grant.json), "grant_sha256": grant.sha256, "revoked": revoked.data()}
        return JsonAnswer(body)

    @operation(
        f"GET {_RUN}/explain",
        name="explainRunGrant",
        summary="Explain why a run may or may not perform an action.",
        description="For an allowed action, the answer has every layer that allows it; for a denied one, the layers "
        "that deny it.",
        right="grants.read",
        query=(
            QueryField(
                name="action", summary="One action of the run API; all of them if absent.", example="history.page"
            ),
            QueryField(name="thing", summary="The resource of the action.", example="support-7"),
            QueryField(name="locale", summary="The language of the reasons.", choices=LOCALES, default="en_US"),
        ),
        answers={
            200: Answer(
                summary="The reasons.",
                schema=fields(items=array_of(_EXPLAINED)),
                example={"items": [EXPLAINED_EXAMPLE]},
            )
        },
        errors=("not_found",),
    )
    async def explain(self, request: Request) -> Response:
        query = request.query_params
        action, thing, locale = query.get("action"), query.get("thing"), query.get("locale", "en_US")
        if thing is not None and action is None:
            raise InvalidRequest(
                "thing needs an action", reason="thing_without_action", hint="name the action too", field="action"
            )
        row = await self._rows.of(request)
        found = await self._control.explain(row.run_id, action, thing)
        return JsonAnswer({"items": [_explained(each, locale) for each in found]})

    @operation(
        f"POST {_RUN}/revoke",
        name="revokeRunGrant",
        summary="Revoke permissions of an active run.",
        description="`operations`, `resources` by kind, or `everything`, which also stops the run. The next call of "
        "the run is refused. A revocation is final.",
        right="grants.revoke",
        body=RevokeGrant,
        body_example={"operations": ["history.page"]},
        answers={
            200: Answer(
                summary="All revocations of the run.",
                schema=fields(run_id=TEXT, revoked=ANY),
                example={"run_id": "run_01", "revoked": {"operations": ["history.page"]}},
            )
        },
        errors=("not_found", "conflict"),
    )
    async def revoke(self, request: Request) -> Response:
        body = parsed(RevokeGrant, await read_body(request))
        row = await self._rows.of(request)
        try:
            revoked = await self._control.revoke(
                row.run_id,
                operations=body.operations,
                resources=body.resources,
                everything=body.everything,
                by=caller_of(request).name,
            )
        except Conflict as error:
            error.details["status"] = (await self._rows.of(request)).status
            raise
        return JsonAnswer({"run_id": row.run_id, "revoked": revoked.data()})


def _not_steered(sentence: str, reason: str, hint: str, row: RunRow) -> HostError:
    return Conflict(sentence, reason=reason, hint=hint, status=row.status)


def _explained(found: Explanation, locale: str) -> JsonObject:
    item: JsonObject = {"action": found.action, "allowed": found.allowed}
    if found.thing is not None:
        item["thing"] = found.thing
    if found.code is not None:
        item["code"] = found.code
    item["reasons"] = [reason.to_wire(locale) for reason in found.reasons]
    return item
