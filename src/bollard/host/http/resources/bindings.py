"""`/bindings`: which agent gets which events."""

from typing import Final

from bollard.host.agents.agent_repository import BINDING, BindingRepository
from bollard.host.agents.binding import Binding, SaveBinding
from bollard.host.http.queries import Pages
from bollard.host.http.resources.saved_routes import SavedResource, SavedRoutes, shown_as
from bollard.host.identity.caller import Caller
from bollard.host.log.saved_resources import Saved
from bollard.protocol import JsonObject

_BODY: Final[JsonObject] = {
    "agent_id": "polly",
    "scope": {"channel": "ci"},
    "filters": [{"field": "event_type", "values": ["build.failed"]}],
}
_BINDING: Final = SavedResource(
    kind=BINDING,
    path="/api/v1/bindings",
    id="binding_id",
    names=("Binding", "Bindings"),
    right="bindings",
    body=SaveBinding,
    body_example=_BODY,
    shown=shown_as("Binding", SaveBinding, {"binding_id": "builds", **_BODY}),
    descriptions={
        "save": "Of several bindings that match, the one with the more specific scope wins, then the one with more "
        "filters, then the one with the higher priority. Two bindings that match equally are refused."
    },
)


class Bindings(SavedRoutes[Binding]):
    """The bindings of a workspace."""

    resource = _BINDING

    def __init__(self, repository: BindingRepository, pages: Pages) -> None:
        super().__init__(repository, pages)
        self._repository: BindingRepository = repository

    async def save(
        self, caller: Caller, resource_id: str, body: JsonObject, edited: int | None
    ) -> tuple[Saved[Binding], JsonObject]:
        return await self._repository.save(body, caller.workspace, resource_id, by=caller.name, edited=edited), {}
