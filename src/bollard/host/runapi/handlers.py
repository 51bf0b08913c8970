"""Every action of the run API that this host answers, by name. Gates are not here: a handler is past them."""

from bollard.host.clock import Clock
from bollard.host.knowledge.library import Library
from bollard.host.runapi.artifacts import Artifacts
from bollard.host.runapi.cursors import Cursors
from bollard.host.runapi.events import Events
from bollard.host.runapi.files import Files
from bollard.host.runapi.gate import Handler
from bollard.host.runapi.history import History
from bollard.host.runapi.host_info import HostFacts
from bollard.host.runapi.knowledge import Knowledge
from bollard.host.runapi.models import Models
from bollard.host.runapi.reach import ArtifactReach
from bollard.host.runapi.state import State
from bollard.host.runapi.storage import Storage
from bollard.host.runapi.tools import Tools
from bollard.host.runapi.uploads import Uploads
from bollard.host.store.artifact_terms import ANY_TERMS, ArtifactTerms
from bollard.host.store.blobs import BlobStore
from bollard.host.store.boundary import Store

__all__ = ["handlers"]


def handlers(
    *,
    store: Store,
    blobs: BlobStore,
    clock: Clock,
    cursor_secret: bytes,
    host_version: str,
    steering_pull: Handler,
    agents_call: Handler,
    tools_call: Handler,
    platform_request: Handler,
    models: Models | None = None,
    library: Library | None = None,
    terms: ArtifactTerms = ANY_TERMS,
) -> dict[str, Handler]:
    """The run API over these parts."""
    cursors, reach = Cursors(cursor_secret), ArtifactReach(store, clock)
    history, events = History(store, cursors, reach.find), Events(store, cursors, reach.find)
    artifacts, uploads = Artifacts(reach.find, blobs), Uploads(blobs, reach.find, terms=terms)
    state, storage = State(store, clock, cursors), Storage(store, blobs, cursors)
    return {
        "history.page": history.page,
        "history.search": history.search,
        "events.get": events.get,
        "events.page": events.page,
        "steering.pull": steering_pull,
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
        "files.get": Files(store, blobs, library).get,
        "tools.detail": Tools().detail,
        "tools.call": tools_call,
        "platform.request": platform_request,
        "agents.call": agents_call,
        "host.info": HostFacts(host_version).info,
        **({} if models is None else _of_models(models)),
        **({} if library is None else _knowledge(Knowledge(library, models))),
    }


def _knowledge(knowledge: Knowledge) -> dict[str, Handler]:
    return {"knowledge.list": knowledge.list, "knowledge.retrieve": knowledge.retrieve}


def _of_models(models: Models) -> dict[str, Handler]:
    """All but `models.stream`, which answers in pieces."""
    return {"models.invoke": models.invoke, "models.rerank": models.rerank, "models.embed": models.embed}
