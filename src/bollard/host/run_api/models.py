"""The model calls of the run API, and the accounting of all other model calls. The implementation is imported on the
first call, because most hosts are idle and their memory is measured."""

import importlib
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import msgspec

from bollard.host.actions.budgets import Budgets
from bollard.host.clock import Clock
from bollard.host.models.calls import CallTarget, ModelCaller, ModelGateway
from bollard.host.run_api.gate import Emit
from bollard.host.run_api.reach import FetchContent, FindArtifact, as_stored
from bollard.host.runs.live_run import LiveRun
from bollard.host.store.blobs import BlobStore
from bollard.host.telemetry.counts import ModelCounts
from bollard.host.telemetry.tracer import Tracer
from bollard.protocol import Embeddings, Message, ModelsEmbed, ModelsInvoke, ModelsRerank, RerankResult

if TYPE_CHECKING:
    from bollard.host.run_api.model_calls import ModelCalls


class ModelPorts(msgspec.Struct, frozen=True, kw_only=True):
    """The dependencies of model calls."""

    gateway: ModelGateway
    budgets: Budgets
    clock: Clock
    counts: ModelCounts
    tracer: Tracer
    find: FindArtifact
    blobs: BlobStore
    fetch: FetchContent = as_stored


class Models:
    """Accounts for the calls of the model gateway."""

    def __init__(self, ports: ModelPorts) -> None:
        self._ports = ports
        self._loaded: ModelCalls | None = None
        ports.gateway.connect(self)

    @property
    def _calls(self) -> "ModelCalls":
        if self._loaded is None:
            module = importlib.import_module("bollard.host.run_api.model_calls")
            made: ModelCalls = module.ModelCalls(self._ports)
            self._loaded = made
        return self._loaded

    async def invoke(self, run: LiveRun, params: ModelsInvoke) -> Message:
        return await self._calls.invoke(run, params)

    async def stream(self, run: LiveRun, params: ModelsInvoke, emit: Emit) -> None:
        await self._calls.stream(run, params, emit)

    async def rerank(self, run: LiveRun, params: ModelsRerank) -> RerankResult:
        return await self._calls.rerank(run, params)

    async def embed(self, run: LiveRun, params: ModelsEmbed) -> Embeddings:
        return await self._calls.embed(run, params)

    def asked(
        self, asker: ModelCaller, model_id: str, tokens: int, most: int
    ) -> AbstractAsyncContextManager[CallTarget]:
        return self._calls.asked(asker, model_id, tokens, most)
