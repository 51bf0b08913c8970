"""`/schedules`: save schedules, preview their instants, and fire them."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.errors import HostError
from bollard.host.http.answers import JsonAnswer, read_body
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.events.reception import single_answer
from bollard.host.http.openapi.schemas import ACCEPTED, ANY, TEXT, TIME, array_of, choice, fields, maybe, named
from bollard.host.http.operations import Answer
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import answer_body, operation
from bollard.host.http.resources.runs import EVENT_ERRORS
from bollard.host.http.resources.saved_routes import SavedResource, SavedRoutes, shown_as
from bollard.host.http.revisions import tag_of
from bollard.host.identity.caller import Caller
from bollard.host.log.saved_resources import Saved
from bollard.host.schedules.parts import ScheduleParts
from bollard.host.schedules.repository import SCHEDULE
from bollard.host.schedules.schedule import Schedule, ScheduleTiming
from bollard.protocol import JsonObject

_BODY: Final[JsonObject] = {
    "cron": "0 9 * * 1-5",
    "zone": "Asia/Shanghai",
    "agent_id": "polly",
    "text": "Summarise the news.",
}
_NEXT: Final = [f"2026-11-{day}T09:00:00+08:00" for day in (19, 20, 23, 24, 25)]
_REASON: Final = fields(code=TEXT, message=TEXT, hint=TEXT)
_STATE: Final[JsonObject] = {
    "last": named(
        "LastTick",
        fields(
            planned_at=TEXT,
            event_id=TEXT,
            run_id=maybe(TEXT),
            outcome=choice("started", "missed", "not_started"),
            reason=maybe(_REASON),
        ),
    ),
    "problem": named(
        "DispatchProblem", fields(planned_at=TEXT, code=TEXT, message=TEXT, hint=TEXT, details=ANY, retry_at=TIME)
    ),
}
_SHOWN_ONLY: Final = ("next", *_STATE)
"""Fields of an answer that are not part of a schedule. A body may have them, so that an answer can be saved again."""
_ONE: Final = "/api/v1/schedules/{schedule_id}"
_SCHEDULE: Final = SavedResource(
    kind=SCHEDULE,
    path="/api/v1/schedules",
    id="schedule_id",
    names=("Schedule", "Schedules"),
    right="schedules",
    body=Schedule,
    body_example=_BODY,
    shown=shown_as(
        "Schedule", Schedule, {"schedule_id": "news", **_BODY, "effective_from": 1794735485, "next": [*_NEXT]}, _STATE
    ),
    summaries={"list": "List the schedules of the workspace, with their next instants."},
    descriptions={
        "get": "`next` has the next instants. `last` is the outcome of the last tick. `problem` is why a due tick has "
        "not started yet.",
        "save": "One of `cron`, `every_s` and `at` says when the schedule fires. A new rule, and the end of a pause, "
        "are effective from now on. `effective_from` and `proposed_by` are set by the host.",
    },
    links={"fireSchedule": "Fire the schedule now."},
)


class Schedules(SavedRoutes[Schedule]):
    """The schedules of a workspace."""

    resource = _SCHEDULE

    def __init__(self, parts: ScheduleParts, pages: Pages) -> None:
        super().__init__(parts.repository, pages)
        self._parts = parts

    async def save(
        self, caller: Caller, resource_id: str, body: JsonObject, edited: int | None
    ) -> tuple[Saved[Schedule], JsonObject]:
        own = {name: value for name, value in body.items() if name not in _SHOWN_ONLY}
        repository = self._parts.repository
        return await repository.save(own, caller.workspace, resource_id, by=caller.name, edited=edited), {}

    def show_item(self, saved: Saved[Schedule]) -> JsonObject:
        schedule = saved.value
        try:
            instants = [] if schedule.paused else schedule.upcoming(self._parts.clock.now_ms(), schedule.since_ms)
        except HostError:  # its time zone is not on this machine
            instants = list[str]()
        return {**super().show_item(saved), "next": [*instants]}

    async def show(self, saved: Saved[Schedule]) -> JsonObject:
        shown = self.show_item(saved)
        if (last := await self._parts.last(saved)) is not None:
            shown["last"] = last
        problem = self._parts.ticker.problem(saved.workspace, saved.id)
        return shown if problem is None else {**shown, "problem": problem.to_wire()}

    def response(self, request: Request, saved: Saved[Schedule], body: JsonObject) -> Response:
        del request
        # The next instants change without a new revision, so no reader gets a 304.
        return JsonAnswer(body, headers={"etag": tag_of(saved.revision)})

    @operation(
        "POST /api/v1/schedules/preview",
        name="previewSchedule",
        summary="Show the next instants of a schedule without saving it.",
        right="schedules.read",
        body=ScheduleTiming,
        body_example={"cron": "0 9 * * 1-5", "zone": "Asia/Shanghai"},
        answers={200: answer_body("SchedulePreview", {"next": [*_NEXT]}, next=array_of(TEXT)).answer("The instants.")},
    )
    async def preview(self, request: Request) -> Response:
        instants = self._parts.proposals.preview(await read_body(request))
        return JsonAnswer({"next": [*instants]})

    @operation(
        f"POST {_ONE}/fire",
        name="fireSchedule",
        summary="Fire a schedule now, also a paused one.",
        description="The event has an id of its own: the ticks of the schedule do not change.",
        right="schedules.write",
        answers={
            202: Answer(
                summary="The event is on disk, with its run.",
                schema=ACCEPTED,
                example={"event_id": "evt_01", "run_id": "run_01", "first": True},
            )
        },
        errors=EVENT_ERRORS,
    )
    async def fire(self, request: Request) -> Response:
        saved = self._parts.repository.get(caller_of(request).workspace, request.path_params["schedule_id"])
        return single_answer(await self._parts.fire(saved))
