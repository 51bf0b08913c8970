"""What the assembling of a context needs to know of the configuration. The configuration itself is `agent_config`."""

from typing import Protocol

from bollard.sdk import JsonObject

__all__ = ["ContextSettings"]


class ContextSettings(Protocol):
    """The fields of the agent's configuration that are read here."""

    @property
    def prompt(self) -> str: ...
    @property
    def models(self) -> tuple[str, ...]:
        """In the order in which they are asked; at least one."""
        ...

    @property
    def knowledge_bases(self) -> tuple[str, ...]: ...
    @property
    def rerank_model(self) -> str | None: ...
    @property
    def retrieval_top_k(self) -> int:
        """Pieces that are asked of each base, and pieces of all of them that a model is shown."""
        ...

    @property
    def max_tokens(self) -> int | None:
        """Longest answer, in tokens: kept free in the context window."""
        ...

    @property
    def context_window(self) -> int:
        """Tokens that a model takes whose window nobody knows."""
        ...

    @property
    def compaction(self) -> bool: ...
    @property
    def compaction_at(self) -> float:
        """The share of the budget from which older messages are summarised."""
        ...

    @property
    def compaction_keep(self) -> float:
        """The share of the budget that the newest messages keep to themselves."""
        ...

    @property
    def output_schema(self) -> JsonObject | None: ...
