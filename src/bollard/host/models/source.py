"""Models as what a workspace offers: `model:ID`. An agent that selects one may ask it; nobody calls it as a tool."""

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
from bollard.host.models.registry import ModelRegistry, RegisteredModel, models_of_environment
from bollard.host.models.specs import model_to_wire, provider_of
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.vault import Vault
from bollard.trust import canonical_sha256


class ModelSource:
    """Implements `CapabilitySource` and `Adapter`."""

    def __init__(self, book: ModelRegistry) -> None:
        self._book = book
        self._made: dict[str, tuple[int, list[Capability]]] = {}
        """By workspace, at which change of the book it was made."""

    @property
    def adapter(self) -> "ModelSource":
        return self

    @property
    def revision(self) -> int:
        return self._book.revision

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        made = self._made.get(workspace)
        if made is None or made[0] != self._book.revision:
            offered = [_capability(known) for known in self._book.offered(workspace)]
            made = self._made[workspace] = (self._book.revision, offered)
        return made[1]

    def absent(self, workspace: str) -> Mapping[str, str]:
        del workspace
        return MappingProxyType({})

    async def invoke(self, order: CallOrder) -> CallResult:
        raise ToolFailed(f"{order.capability.id} is a model and no tool", hint="ask it with models.invoke")


def _capability(known: RegisteredModel) -> Capability:
    spec = known.spec
    about: dict[str, str | int | bool] = {"model_type": spec.model_type, "provider": provider_of(spec)}
    if spec.context_window is not None:
        about["context_window"] = spec.context_window
    if spec.vision:
        about["vision"] = True
    return Capability(
        id=f"model:{spec.model_id}",
        name=spec.model_id,
        kind="model",
        description=f"A model of type {spec.model_type}: {spec.model} at {provider_of(spec)}.",
        input_schema={},
        risk="low",
        flow=NO_FLOW,
        effects="none",
        approval="never",
        source="models",
        version=canonical_sha256(model_to_wire(spec)),
        about=about,
    )


# The models of a host, put together: what is saved, what the environment names, and who asks them.


class ModelParts(msgspec.Struct, frozen=True, kw_only=True):
    """What has a life of its own among them."""

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
    """Keys of the environment are kept out of sight, in the log of the host and in its first `workspace`, from here on;
    in others from their first use. Raises `SettingsError`."""
    named = models_of_environment(environment)
    for each in named:
        if each.key is not None:
            redactor.hold(workspace, each.key)
    book = ModelRegistry(SavedChanges(journal, clock), environment=named, default_model=default_model, egress=egress)
    gateway = ModelGateway(book, vault, redactor, clock, judge=egress.judge, ledger=WorkspaceLedger(journal, clock))
    return ModelParts(book=book, gateway=gateway, source=ModelSource(book))
