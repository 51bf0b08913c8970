"""The models of a host, put together: what is saved, what the environment names, and who asks them."""

from collections.abc import Mapping

import msgspec

from bollard.host.clock import Clock
from bollard.host.log.journal import Journal
from bollard.host.log.saved_changes import SavedChanges
from bollard.host.models.book import ModelBook
from bollard.host.models.calling import ModelDesk
from bollard.host.models.environment import models_of_environment
from bollard.host.models.ledger import WorkspaceLedger
from bollard.host.models.source import ModelSource
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.vault import Vault

__all__ = ["OpenedModels", "open_models"]


class OpenedModels(msgspec.Struct, frozen=True, kw_only=True):
    """What has a life of its own among them."""

    book: ModelBook
    desk: ModelDesk
    source: ModelSource


def open_models(
    *,
    journal: Journal,
    clock: Clock,
    vault: Vault,
    redactor: Redactor,
    environment: Mapping[str, str],
    default_model: str,
    workspace: str,
) -> OpenedModels:
    """Keys of the environment are kept out of sight, in the log of the host and in its first `workspace`, from here on;
    in others from their first use. Raises `SettingsError`."""
    named = models_of_environment(environment)
    for each in named:
        if each.key is not None:
            redactor.hold(workspace, each.key)
    book = ModelBook(SavedChanges(journal, clock), environment=named, default_model=default_model)
    desk = ModelDesk(book, vault, redactor, clock, ledger=WorkspaceLedger(journal, clock))
    return OpenedModels(book=book, desk=desk, source=ModelSource(book))
