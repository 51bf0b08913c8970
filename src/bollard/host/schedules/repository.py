"""The saved schedules of every workspace."""

import contextlib
from collections.abc import Callable, Collection
from typing import Final

from bollard.host.clock import Clock
from bollard.host.errors import Conflict, NotFound
from bollard.host.log.saved_resources import Repository, ResourceKind, Saved, SavedChanges
from bollard.host.schedules.limits import PROPOSED_SCHEDULES, SCHEDULES_OF_WORKSPACE
from bollard.host.schedules.schedule import Schedule
from bollard.host.schedules.tick import tick_event
from bollard.protocol import JsonObject

SCHEDULE: Final = ResourceKind(kind="schedule", noun="schedule", listed_by="schedules", limit=SCHEDULES_OF_WORKSPACE)


class ScheduleRepository(Repository[Schedule]):
    """The saved schedules. `on_change` is called for each one that is loaded, saved or deleted."""

    def __init__(self, changes: SavedChanges, clock: Clock) -> None:
        super().__init__(SCHEDULE, changes, lambda body, _: Schedule.read(body), Schedule.to_wire)
        self._clock = clock
        self.on_change: Callable[[str, str], None] | None = None

    async def save(
        self, body: JsonObject, workspace: str, schedule_id: str, *, by: str, edited: int | None = None
    ) -> Saved[Schedule]:
        def make(before: Saved[Schedule] | None) -> Schedule:
            schedule = Schedule.read({**body, "schedule_id": schedule_id})
            schedule = schedule.checked(None if before is None else before.value, self._clock.now_ms())
            return _with_valid_event(schedule, workspace)

        return await self._save(workspace, schedule_id, make, by=by, edited=edited)

    async def propose(self, body: JsonObject, workspace: str, schedule_id: str, *, run_id: str, by: str) -> None:
        """Save a new schedule that a run created. Raises `Conflict` if the id is taken."""

        def make(before: Saved[Schedule] | None) -> Schedule:
            if before is not None:
                hint = "choose another id"
                raise Conflict("there is a schedule of this id", reason="schedule_exists", hint=hint, id=schedule_id)
            proposed = sum(each.value.proposed_by is not None for each in self.all(workspace))
            if proposed >= PROPOSED_SCHEDULES:
                raise Conflict(
                    f"agents have created {proposed} schedules already",
                    reason="proposed_schedule_limit",
                    hint="delete one that is not used",
                    limit=PROPOSED_SCHEDULES,
                )
            schedule = Schedule.read({**body, "schedule_id": schedule_id})
            schedule = schedule.checked(None, self._clock.now_ms(), proposed_by=run_id)
            return _with_valid_event(schedule, workspace)

        await self._save(workspace, schedule_id, make, by=by)

    async def delete_proposed(self, workspace: str, runs: Collection[str], *, by: str) -> int:
        """Delete the schedules that these runs created. Returns their number."""
        found = [saved.id for saved in self.all(workspace) if saved.value.proposed_by in runs]
        for schedule_id in found:
            with contextlib.suppress(NotFound):  # deleted meanwhile
                await self.delete(workspace, schedule_id, by=by)
        return len(found)

    def changed(self, before: Saved[Schedule] | None, after: Saved[Schedule] | None) -> None:
        saved = after or before
        if saved is not None and self.on_change is not None:
            self.on_change(saved.workspace, saved.id)


def _with_valid_event(schedule: Schedule, workspace: str) -> Schedule:
    """Raises `InvalidRequest` if the event of a tick would be refused."""
    tick_event(Saved(workspace=workspace, id=schedule.schedule_id, revision=0, value=schedule), 0, None)
    return schedule
