"""`/state/purge`: find state by its writer, and delete it. Values are not shown."""

from typing import Annotated, Final

from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from bollard.host.errors import InvalidRequest
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.bodies import parsed
from bollard.host.http.openapi.schemas import FLAG, NUMBER, TEXT, array_of, fields, named
from bollard.host.http.operations import Answer
from bollard.host.http.resources.declaration import DeclaredResource, operation
from bollard.host.limits import PURGED_STATE_LISTED
from bollard.host.log.removal import FoundState, StatePurge, StatePurger, WriterQuery
from bollard.host.scope import Actor
from bollard.protocol import Flag, JsonObject, Strict

Id = Annotated[str, Field(min_length=1, max_length=256)]
_WRITERS: Final = ("run_id", "agent_id", "actor", "source")
_VALUE: Final = named("PurgedState", fields(scope=TEXT, key=TEXT, run_id=TEXT))


class StateWriter(Strict):
    """Who spoke."""

    type: Id = "user"
    id: Id


class PurgeState(Strict):
    """`POST /api/v1/state/purge`: at least one field; the writer must match all given fields."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [{"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in _WRITERS]
        }
    )

    run_id: Id | None = None
    agent_id: Id | None = None
    actor: StateWriter | None = None
    source: Id | None = Field(default=None, description="The source of the events that the runs began with.")
    dry_run: Flag = False

    def query(self) -> WriterQuery:
        """Raises `InvalidRequest` for a filter without a writer, which would match everything."""
        if all(getattr(self, name) is None for name in _WRITERS):
            raise InvalidRequest(
                "the filter names no writer",
                reason="purge_filter",
                hint=f"name one of {', '.join(_WRITERS)}",
                field="body",
            )
        actor = None if self.actor is None else Actor(self.actor.type, self.actor.id)
        return WriterQuery(run_id=self.run_id, agent_id=self.agent_id, actor=actor, source=self.source)


class StateControl(DeclaredResource):
    """Finds and deletes state by its writer."""

    tag = "state"

    def __init__(self, purger: StatePurger) -> None:
        self._purger = purger

    @operation(
        "POST /api/v1/state/purge",
        name="purgeState",
        summary="Delete the state values whose last writer was a run, an agent, an actor or a source.",
        description="Every named field must match the run that wrote a value last, or a run that called "
        "it. Values that another writer has overwritten stay. With `dry_run` nothing is deleted. "
        f"`items` are the first {PURGED_STATE_LISTED} values that match; all are counted.",
        right="state.write",
        body=PurgeState,
        body_example={"source": "guestbook", "dry_run": True},
        answers={
            200: Answer(
                summary="The number of matching values, the effect, and the number of values with an unknown writer.",
                schema=fields(
                    dry_run=FLAG, matched=NUMBER, deleted=NUMBER, kept=NUMBER, unknown=NUMBER, items=array_of(_VALUE)
                ),
                example={
                    "dry_run": True,
                    "matched": 1,
                    "deleted": 0,
                    "kept": 0,
                    "unknown": 0,
                    "items": [{"scope": "conversation", "key": "mood", "run_id": "run_01"}],
                },
            )
        },
    )
    async def purge(self, request: Request) -> Response:
        asked = parsed(PurgeState, await read_body(request))
        query, caller = asked.query(), caller_of(request)
        purged = await self._purger.purge(caller.workspace, query, by=caller.name, dry_run=asked.dry_run)
        return JsonAnswer(_shown(purged, dry_run=asked.dry_run))


def _shown(purged: StatePurge, *, dry_run: bool) -> JsonObject:
    return {
        "dry_run": dry_run,
        "matched": purged.matched,
        "deleted": purged.deleted,
        "kept": purged.kept,
        "unknown": purged.unknown,
        "items": [_item(found) for found in purged.listed],
    }


def _item(found: FoundState) -> JsonObject:
    return {"scope": found.value.scope, "key": found.value.key, "run_id": found.run_id}
