"""`ctx.api`: every call of the run API, by family. What each family can do is in the `api_*` modules."""

from functools import cached_property

from bollard.sdk.api_models import KnowledgeApi, ModelsApi, ToolsApi
from bollard.sdk.api_records import AgentsApi, EventsApi, HistoryApi, HostApi, PlatformApi, SteeringApi
from bollard.sdk.api_stores import ArtifactsApi, FilesApi, StateApi, StorageApi
from bollard.sdk.calls import ApiCaller

__all__ = ["ApiCaller", "RunApi"]


class RunApi:
    """The host, as one run may use it. Every call raises `AgentAPIException` when the host says no."""

    # Families are made when they are first used: most runs use one or two of them.

    def __init__(self, caller: ApiCaller) -> None:
        self._caller = caller

    @cached_property
    def models(self) -> ModelsApi:
        return ModelsApi(self._caller)

    @cached_property
    def tools(self) -> ToolsApi:
        return ToolsApi(self._caller)

    @cached_property
    def knowledge(self) -> KnowledgeApi:
        return KnowledgeApi(self._caller)

    @cached_property
    def history(self) -> HistoryApi:
        return HistoryApi(self._caller)

    @cached_property
    def events(self) -> EventsApi:
        return EventsApi(self._caller)

    @cached_property
    def steering(self) -> SteeringApi:
        return SteeringApi(self._caller)

    @cached_property
    def artifacts(self) -> ArtifactsApi:
        return ArtifactsApi(self._caller)

    @cached_property
    def state(self) -> StateApi:
        return StateApi(self._caller)

    @cached_property
    def storage(self) -> StorageApi:
        return StorageApi(self._caller)

    @cached_property
    def files(self) -> FilesApi:
        return FilesApi(self._caller)

    @cached_property
    def agents(self) -> AgentsApi:
        return AgentsApi(self._caller)

    @cached_property
    def platform(self) -> PlatformApi:
        return PlatformApi(self._caller)

    @cached_property
    def host(self) -> HostApi:
        return HostApi(self._caller)
