"""The library of a host, put together. The one place that knows which engine there is, and imports it when it is first
needed: most hosts have no knowledge base, and none has to pay for one that nobody asks."""

import importlib
from typing import cast

from bollard.host.clock import Clock
from bollard.host.knowledge.boundary import KnowledgeEngine
from bollard.host.knowledge.incoming import Incoming
from bollard.host.knowledge.keeping import BaseBook
from bollard.host.knowledge.library import Library
from bollard.host.log.journal import Journal
from bollard.host.settings import Settings
from bollard.wire.knowledge_frames import UNFINISHED

__all__ = ["open_library"]


def open_library(settings: Settings, journal: Journal, clock: Clock) -> Library:
    """Built, and not filled yet."""

    def engine() -> KnowledgeEngine:
        module = importlib.import_module("bollard.host.knowledge.engine")
        return cast("KnowledgeEngine", module.ProcessEngine(data=settings.data, database=settings.database))

    return Library(
        BaseBook(journal, clock),
        journal,
        clock,
        engine,
        undone=(settings.data / UNFINISHED).exists,
        incoming=Incoming(settings.data),
    )
