"""The built-in tools that preview and create schedules."""

from typing import Final, cast

from bollard.host.capabilities.sources import CallOrder, CallResult
from bollard.host.errors import Conflict, InvalidRequest
from bollard.host.tools.ports import Schedules, problem, string, text
from bollard.protocol import JsonObject

_TIMING: Final = ("cron", "every_s", "at", "zone", "start", "until")


class ScheduleTools:
    """`schedule_preview` and `schedule_create`. A schedule that cannot be saved is a result for the model to read."""

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules

    async def preview(self, order: CallOrder) -> CallResult:
        try:
            instants = self._schedules.preview(_timing(order))
        except InvalidRequest as error:
            return problem(error.message, error.hint)
        return text("\n".join(instants) or "there is no further tick", {"next": [*instants]})

    async def create(self, order: CallOrder) -> CallResult:
        schedule_id = string(order.arguments, "schedule_id")
        body: JsonObject = {**_timing(order), "text": string(order.arguments, "text")}
        instants = cast("list[str]", order.arguments["next"])
        try:
            await self._schedules.propose(order.context, schedule_id, body, instants)
        except (InvalidRequest, Conflict) as error:
            return problem(error.message, error.hint)
        return text(f"the schedule {schedule_id} is saved", {"schedule_id": schedule_id})


def _timing(order: CallOrder) -> JsonObject:
    return {name: order.arguments[name] for name in _TIMING if name in order.arguments}
