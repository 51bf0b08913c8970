"""A source in memory: a test adds its capabilities, and the source records its calls."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.sources import Adapter, CallOrder, CallResult
from bollard.host.reason import Why

Act = Callable[[CallOrder], Awaitable[CallResult]]


async def _nothing(order: CallOrder) -> CallResult:
    return CallResult(content=({"type": "text", "text": order.capability.name},))


class MemorySource:
    """Implements `Source` and `Adapter`; every workspace sees the same, unless it is put for one."""

    def __init__(self, capabilities: Iterable[Capability] = (), act: Act = _nothing) -> None:
        self._offered: dict[str | None, dict[str, Capability]] = {None: {each.id: each for each in capabilities}}
        self._absent: dict[str, str] = {}
        self._act = act
        self.revision = 0
        self.orders: list[CallOrder] = []
        """The calls, in order."""

    @property
    def adapter(self) -> Adapter:
        return self

    def put(self, capability: Capability, workspace: str | None = None) -> None:
        """Offer this; it replaces one of the same id, and removes the reason of its absence."""
        self._offered.setdefault(workspace, {})[capability.id] = capability
        self._absent.pop(capability.id, None)
        self.revision += 1

    def lose(self, capability_id: str, why: str) -> None:
        """Stop offering this. An id that ends in `/` stands for all ids with that prefix."""
        for offered in self._offered.values():
            for gone in [each for each in offered if _meant(capability_id, each)]:
                del offered[gone]
        self._absent[capability_id] = why
        self.revision += 1

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        return [*({**self._offered[None], **self._offered.get(workspace, {})}.values())]

    def absent(self, workspace: str) -> Mapping[str, Why]:
        del workspace
        return {name: Why(reason) for name, reason in self._absent.items()}

    async def invoke(self, order: CallOrder) -> CallResult:
        self.orders.append(order)
        return await self._act(order)


def _meant(said: str, capability_id: str) -> bool:
    return capability_id == said or (said.endswith("/") and capability_id.startswith(said))
