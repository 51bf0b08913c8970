"""Models as what a workspace offers: `model:ID`. An agent that selects one may ask it; nobody calls it as a tool."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from bollard.host.capabilities.capability import NO_FLOW, Capability
from bollard.host.capabilities.sources import Order, Returned
from bollard.host.errors import ToolFailed
from bollard.host.models.book import KnownModel, ModelBook
from bollard.host.models.specs import model_to_wire, provider_of
from bollard.trust import canonical_sha256

__all__ = ["ModelSource"]


class ModelSource:
    """Implements `Source` and `Adapter`. One per host."""

    def __init__(self, book: ModelBook) -> None:
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

    async def invoke(self, order: Order) -> Returned:
        raise ToolFailed(f"{order.capability.id} is a model and no tool", hint="ask it with models.invoke")


def _capability(known: KnownModel) -> Capability:
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
