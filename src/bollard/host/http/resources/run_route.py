"""`/runs/{run_id}/route`: how the event of a run found its agent."""

import asyncio
from typing import Final, Literal, cast

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.agents.routing import BOT_DEFAULT, DIRECT
from bollard.host.events.intake import CALL, Intake
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.openapi.schemas import FLAG, TEXT, array_of, choice, fields, maybe
from bollard.host.http.operations import QueryField
from bollard.host.http.resources.declaration import DeclaredResource, answer_body, operation
from bollard.host.http.resources.events import step_body
from bollard.host.http.resources.run_rows import RunRows
from bollard.host.runs.event import NewEvent
from bollard.host.store.rows import RunRow
from bollard.host.store.store import Store
from bollard.host.texts import LOCALES, Locale
from bollard.protocol import JsonObject

Via = Literal["direct", "bot", "call", "binding"]
_PREFIXES: Final[dict[str, Via]] = {DIRECT: "direct", BOT_DEFAULT: "bot", CALL: "call"}
_ROUTE: Final = answer_body(
    "RunRoute",
    {
        "run_id": "run_01",
        "agent_id": "parrot",
        "binding_id": "direct:parrot",
        "via": "direct",
        "current": True,
        "steps": [{"key": "direct", "text": "The event names the agent parrot."}],
    },
    via=choice("direct", "bot", "call", "binding"),
    current=maybe(FLAG),
    steps=array_of(fields({"binding": TEXT}, key=TEXT, text=TEXT)),
)


class RunRoutes(DeclaredResource):
    """Explains routes, for callers who may see the run."""

    tag = "runs"

    def __init__(self, intake: Intake, store: Store, rows: RunRows) -> None:
        self._intake = intake
        self._store = store
        self._rows = rows

    @operation(
        "GET /api/v1/runs/{run_id}/route",
        name="getRunRoute",
        summary="Explain how the event of a run found its agent.",
        description="`via` says whether the event named the agent (`direct`), the bot has a default agent (`bot`), a "
        "run called it (`call`), or a `binding` matched. The steps apply the bindings of today; `current` says whether "
        "they lead to the same binding, and is null if the content of the event was dropped.",
        right="bindings.read",
        query=(QueryField(name="locale", summary="The language of the steps.", choices=LOCALES, default="en_US"),),
        answers={200: _ROUTE.answer("The route.")},
        errors=("not_found",),
    )
    async def get(self, request: Request) -> Response:
        row = await self._rows.of(request)
        locale = cast("Locale", request.query_params.get("locale", "en_US"))
        return JsonAnswer(_ROUTE.of(row, **await asyncio.to_thread(self._route, row, locale)))

    def _route(self, row: RunRow, locale: Locale) -> JsonObject:
        via = next((via for prefix, via in _PREFIXES.items() if row.binding_id.startswith(prefix)), "binding")
        if via == "call":
            return {"via": via, "current": True, "steps": []}
        event = self._event(row)
        if event is None:
            return {"via": via, "current": None, "steps": []}
        found = self._intake.resolution(event, row.agent_id if via == "direct" else None)
        steps = [step_body(step, locale) for step in found.steps]
        return {"via": via, "current": found.binding_id == row.binding_id, "steps": [*steps]}

    def _event(self, row: RunRow) -> NewEvent | None:
        stored = self._store.event(row.workspace, row.event_id)
        record = None if stored is None else next(iter(self._store.records(stored.record_id - 1, 1)), None)
        if record is None or record.data is None:
            return None
        _, event = NewEvent.from_record(record.data, row.workspace)
        return event
