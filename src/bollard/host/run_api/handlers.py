"""The handlers of the run API by action. Handlers check nothing: the gate has checked the call."""

from bollard.host.clock import Clock
from bollard.host.knowledge.library import Library
from bollard.host.run_api.artifacts import Artifacts, Uploads
from bollard.host.run_api.events import Events
from bollard.host.run_api.gate import Handler
from bollard.host.run_api.history import History
from bollard.host.run_api.knowledge import Knowledge
from bollard.host.run_api.models import Models
from bollard.host.run_api.pages import Cursors
from bollard.host.run_api.reach import ArtifactReach
from bollard.host.run_api.state import State
from bollard.host.run_api.storage import Storage
from bollard.host.run_api.tools import Tools
from bollard.host.runs.live_run import LiveRun
from bollard.host.store.artifact_terms import ArtifactTerms
from bollard.host.store.blobs import BlobStore
from bollard.host.store.store import Store
from bollard.protocol import HostInfo, HostInfoQuery, JsonObject, limits


class HostFacts:
    """`host.info`: the version of the host and the limits of the run. Open to every run."""

    def __init__(self, host_version: str) -> None:
        self._host_version = host_version

    async def info(self, run: LiveRun, params: HostInfoQuery) -> HostInfo:
        del params
        granted = run.grant.limits
        values: JsonObject = {
            "calls_in_flight": granted.calls_in_flight,
            "calls_per_s": granted.calls_per_s,
            "call_bytes": granted.payload_bytes,
            "page_items": limits.PAGE_ITEMS,
            "page_bytes": limits.PAGE_BYTES,
            "search_top_k": limits.SEARCH_TOP_K,
            "read_bytes": limits.READ_BYTES,
            "result_bytes": limits.RESULT_BYTES,
            "state_value_bytes": limits.STATE_VALUE_BYTES,
            "state_scope_bytes": limits.STATE_SCOPE_BYTES,
            "run_output_mib": run.output_mib,
        }
        if granted.calls_per_run is not None:
            values["calls_per_run"] = granted.calls_per_run
        return HostInfo(host_version=self._host_version, protocol=limits.PROTOCOL_VERSION, limits=values)


def data_handlers(
    store: Store, blobs: BlobStore, clock: Clock, terms: ArtifactTerms, cursor_secret: bytes
) -> dict[str, Handler]:
    """The actions that read and write stored data."""
    cursors, reach = Cursors(cursor_secret), ArtifactReach(store, clock)
    history, events = History(store, cursors, reach.find), Events(store, cursors, reach.find)
    artifacts, uploads = Artifacts(reach.find, blobs), Uploads(blobs, reach.find, terms=terms)
    state, storage = State(store, clock, cursors), Storage(store, blobs, cursors)
    return {
        "history.page": history.page,
        "history.search": history.search,
        "events.get": events.get,
        "events.page": events.page,
        "artifacts.metadata": artifacts.metadata,
        "artifacts.read": artifacts.read,
        "artifacts.begin": uploads.begin,
        "artifacts.append": uploads.append,
        "artifacts.finish": uploads.finish,
        "state.get": state.get,
        "state.set": state.set,
        "state.delete": state.delete,
        "state.list": state.keys,
        "storage.get": storage.get,
        "storage.set": storage.set,
        "storage.delete": storage.delete,
        "storage.list": storage.keys,
        "tools.detail": Tools().detail,
    }


def knowledge_handlers(library: Library, models: Models | None) -> dict[str, Handler]:
    knowledge = Knowledge(library, models)
    return {"knowledge.list": knowledge.list, "knowledge.retrieve": knowledge.retrieve}


def model_handlers(models: Models) -> dict[str, Handler]:
    """All actions of models except the streamed `models.stream`."""
    return {"models.invoke": models.invoke, "models.rerank": models.rerank, "models.embed": models.embed}
