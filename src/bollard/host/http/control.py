"""`/runs/{id}/…`: stop, steer, and what a run may do: its grant, the reasons, and taking something away."""

from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.core import Core
from bollard.host.errors import Conflict, HostError, InvalidRequest
from bollard.host.grants.explain import Explanation
from bollard.host.grants.words import LANGUAGES
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.requests import Actor, RevokeGrant, SteerRun, chosen_id, message_of, parsed
from bollard.host.http.run_rows import WORKSPACE, RunRows, accepted_body
from bollard.host.runs.control import RunControl
from bollard.host.runs.live import LiveRun
from bollard.host.store.rows import RunRow
from bollard.protocol import TERMINAL_STATUSES, JsonObject

__all__ = ["ADMIN", "Control"]

ADMIN: Final = "admin"
"""Who did it, in the log: the holder of the admin token."""


class Control:
    """What an operator may do with a run."""

    def __init__(self, *, core: Core, control: RunControl, rows: RunRows) -> None:
        self._dispatcher = core.dispatcher
        self._intake = core.intake
        self._maker = core.maker
        self._control = control
        self._rows = rows

    @property
    def _live(self) -> Mapping[str, LiveRun]:
        return self._dispatcher.live

    async def cancel(self, request: Request) -> Response:
        row = await self._rows.of(request)
        if not await self._dispatcher.cancel(row.run_id, "cancelled"):
            row = await self._rows.of(request)
            if row.status in TERMINAL_STATUSES:
                raise Conflict(f"the run has ended: {row.status}", hint="there is nothing to cancel", status=row.status)
            raise Conflict("the run is not on this host", hint="try again in a moment", status=row.status)
        return JsonAnswer({"run_id": row.run_id, "cancelling": True}, status_code=202)

    async def steer(self, request: Request) -> Response:
        """A message into the run's conversation. Which run takes it is decided as for every message there."""
        body = parsed(SteerRun, await read_body(request))
        row = await self._rows.of(request)
        run = self._steerable(row)
        event = message_of(
            body.input,
            body.actor or _starter(run),
            chosen_id(request, body.id) or self._maker.new_id(),
            bot=row.bot,
            conversation=row.conversation,
            thread=row.thread,
        )
        accepted = await self._intake.accept(event, WORKSPACE, row.agent_id)
        return JsonAnswer(accepted_body(accepted), status_code=202 if accepted.first else 200)

    def _steerable(self, row: RunRow) -> LiveRun:
        if row.conversation is None:
            raise _not_steered("the run has no conversation", "only a message of a conversation can steer", row)
        run = self._live.get(row.run_id)
        if run is None or run.ending:
            raise _not_steered("the run is not active", "say it to the agent instead: it gets a run of its own", row)
        if not run.grant.steerable or run.facts.external:
            hint = (
                "its runner must declare steering and a worker execute it; the agent's concurrency mode must be steer"
            )
            raise _not_steered("the run takes no messages", hint, row)
        return run

    async def grant(self, request: Request) -> Response:
        row = await self._rows.of(request)
        grant, revoked = await self._control.grant_of(row.run_id)
        body = {"grant": msgspec.json.decode(grant.json), "grant_sha256": grant.sha256, "revoked": revoked.data()}
        return JsonAnswer(body)

    async def explain(self, request: Request) -> Response:
        query = request.query_params
        action, thing, locale = query.get("action"), query.get("thing"), query.get("locale", "en_US")
        if thing is not None and action is None:
            raise InvalidRequest("thing is of no use without action", hint="name the action too", field="action")
        if locale not in LANGUAGES:
            raise InvalidRequest("there is no such locale", hint=f"use {' or '.join(LANGUAGES)}", field="locale")
        row = await self._rows.of(request)
        found = await self._control.explain(row.run_id, action, thing)
        return JsonAnswer({"items": [_explained(each, locale) for each in found]})

    async def revoke(self, request: Request) -> Response:
        body = parsed(RevokeGrant, await read_body(request))
        row = await self._rows.of(request)
        try:
            revoked = await self._control.revoke(
                row.run_id,
                operations=body.operations,
                resources=body.resources,
                everything=body.everything,
                by=ADMIN,
            )
        except Conflict as error:
            error.details["status"] = (await self._rows.of(request)).status
            raise
        return JsonAnswer({"run_id": row.run_id, "revoked": revoked.data()})


def _starter(run: LiveRun) -> Actor | None:
    """Who steers where nobody is named: whoever the run is of."""
    facts = run.facts
    return None if facts.actor_type is None else Actor(type=facts.actor_type, id=facts.actor_id)


def _not_steered(sentence: str, hint: str, row: RunRow) -> HostError:
    return Conflict(sentence, hint=hint, status=row.status)


def _explained(found: Explanation, locale: str) -> JsonObject:
    item: JsonObject = {"action": found.action, "allowed": found.allowed}
    if found.thing is not None:
        item["thing"] = found.thing
    if found.code is not None:
        item["code"] = found.code
    item["reasons"] = [{"layer": reason.layer, "text": reason.words(locale)} for reason in found.reasons]
    return item
