"""Models as capabilities of a workspace (`model:ID`), and the wiring of the models of a host. A model is not a tool."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from bollard.host.capabilities.capability import NO_FLOW, Capability
from bollard.host.capabilities.sources import CallOrder, CallResult
from bollard.host.clock import Clock
from bollard.host.egress.client import EgressClient
from bollard.host.errors import ToolFailed
from bollard.host.log.journal import Journal
from bollard.host.log.saved_resources import SavedChanges
from bollard.host.models.calls import ModelGateway
from bollard.host.models.pricing import WorkspaceLedger
from bollard.host.models.registry import MissingDefault, ModelRegistry, RegisteredModel, models_of_environment
from bollard.host.models.specs import provider_of
from bollard.host.reason import Why
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.vault import Vault
from bollard.trust import canonical_sha256


class ModelSource:
    """Implements `CapabilitySource` and `Adapter`."""

    def __init__(self, book: ModelRegistry) -> None:
        self._book = book
        self._made: dict[str, tuple[int, list[Capability]]] = {}
        """By workspace: the registry revision and the capabilities built from it."""

    @property
    def adapter(self) -> "ModelSource":
        return self

    @property
    def revision(self) -> int:
        return self._book.revision

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        made = self._made.get(workspace)
        if made is None or made[0] != self._book.revision:
            missing = self._book.missing_default(workspace)
            offered = [_capability(known, missing) for known in self._book.offered(workspace)]
            made = self._made[workspace] = (self._book.revision, offered)
        return made[1]

    def absent(self, workspace: str) -> Mapping[str, Why]:
        del workspace
        return MappingProxyType({})

    async def invoke(self, order: CallOrder) -> CallResult:
        raise ToolFailed(
            f"{order.capability.id} is a model, not a tool",
            hint="call it with models.invoke",
            reason="model_is_no_tool",
            capability=order.capability.id,
        )


def _capability(known: RegisteredModel, missing_default: MissingDefault | None) -> Capability:
    spec = known.spec
    about: dict[str, str | int | bool] = {"model_type": spec.served_type, "provider": provider_of(spec)}
    if spec.context_window is not None:
        about["context_window"] = spec.context_window
    if spec.vision:
        about["vision"] = True
    if known.alias_of is not None and missing_default is not None:
        about["missing_default"] = missing_default.command
    return Capability(
        id=f"model:{spec.model_id}",
        name=spec.model_id,
        kind="model",
        description=f"A model of type {spec.served_type}: {spec.model} at {provider_of(spec)}.",
        input_schema={},
        risk="low",
        flow=NO_FLOW,
        effects="none",
        approval="never",
        source="models",
        version=canonical_sha256(spec.to_wire()),
        about=about,
    )


# --- wiring ---


class ModelParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a host that deal with models."""

    book: ModelRegistry
    gateway: ModelGateway
    source: ModelSource


def open_models(
    *,
    journal: Journal,
    clock: Clock,
    vault: Vault,
    redactor: Redactor,
    egress: EgressClient,
    environment: Mapping[str, str],
    default_model: str,
    workspace: str,
) -> ModelParts:
    """Keys of the environment are redacted from now on in the host's log and in `workspace`; in other workspaces from
    their first use. Raises `SettingsError`."""
    named = models_of_environment(environment)
    for each in named:
        if each.key is not None:
            redactor.hold(workspace, each.key)
    book = ModelRegistry(SavedChanges(journal, clock), environment=named, default_model=default_model, egress=egress)
    gateway = ModelGateway(book, vault, redactor, clock, egress=egress, ledger=WorkspaceLedger(journal, clock))
    return ModelParts(book=book, gateway=gateway, source=ModelSource(book))
