"""Knowledge bases as capabilities: `kb:ID`. A run asks those that it was granted over the run API; none is a tool."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from bollard.host.capabilities.capability import Capability
from bollard.host.capabilities.sources import Order, Returned
from bollard.host.errors import ToolFailed
from bollard.host.knowledge.bases import KnowledgeBase
from bollard.host.knowledge.keeping import BaseBook

__all__ = ["KB_TYPE", "PREFIX", "KnowledgeSource"]

PREFIX: Final = "kb:"
KB_TYPE: Final = "documents"


class KnowledgeSource:
    """Implements `Source` and `Adapter`. One per host."""

    def __init__(self, book: BaseBook, is_open: Callable[[str], bool] = lambda _: True) -> None:
        """`is_open` says whether a workspace is there."""
        self._book = book
        self._is_open = is_open

    @property
    def adapter(self) -> "KnowledgeSource":
        return self

    @property
    def revision(self) -> int:
        return self._book.revision

    def capabilities(self, workspace: str) -> Sequence[Capability]:
        if not self._is_open(workspace):
            return []
        return [_capability(saved.thing) for saved in self._book.all(workspace)]

    def absent(self, workspace: str) -> Mapping[str, str]:
        del workspace
        return {}

    async def invoke(self, order: Order) -> Returned:
        """Nothing leads here: a base is no tool."""
        raise ToolFailed(f"{order.capability.id} is no tool", hint="ask it with knowledge.retrieve")


def _capability(base: KnowledgeBase) -> Capability:
    return Capability(
        id=f"{PREFIX}{base.kb_id}",
        name=base.kb_id,
        kind="knowledge",
        description=base.description,
        input_schema={"type": "object"},
        risk="low",
        flow=base.brings,
        effects="none",
        source="workspace",
        about={"kb_name": base.name or base.kb_id, "kb_type": KB_TYPE},
    )
