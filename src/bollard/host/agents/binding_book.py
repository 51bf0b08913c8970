"""The bindings this host knows, of every workspace, and the table that each workspace routes with."""

from bollard.host.agents.binding import Binding, BindingScope, check_new
from bollard.host.agents.routing import RoutingTable

__all__ = ["BindingBook"]


class BindingBook:
    """Filled by the store at start, changed when people save. Never holds two bindings that match equally."""

    def __init__(self) -> None:
        self._bindings: dict[str, dict[str, Binding]] = {}
        # Only equal scopes can clash, so a new binding is held against those alone.
        self._scopes: dict[tuple[str, BindingScope], dict[str, Binding]] = {}
        self._tables: dict[str, RoutingTable] = {}

    def check(self, binding: Binding) -> None:
        """Refuse a binding that `put` would refuse; for whoever writes it down first."""
        check_new(binding, self._scopes.get((binding.workspace, binding.scope), {}).values())

    def put(self, binding: Binding) -> None:
        """Take a binding, or a new version of one; raises `Conflict` and changes nothing when it clashes."""
        self.check(binding)
        self.remove(binding.binding_id, binding.workspace)
        self._bindings.setdefault(binding.workspace, {})[binding.binding_id] = binding
        self._scopes.setdefault((binding.workspace, binding.scope), {})[binding.binding_id] = binding

    def remove(self, binding_id: str, workspace: str = "default") -> bool:
        """Forget a binding; whether there was one."""
        self._tables.pop(workspace, None)
        binding = self._bindings.get(workspace, {}).pop(binding_id, None)
        if binding is None:
            return False
        beside = self._scopes[workspace, binding.scope]
        del beside[binding_id]
        if not beside:
            del self._scopes[workspace, binding.scope]
        return True

    def get(self, binding_id: str, workspace: str = "default") -> Binding | None:
        return self._bindings.get(workspace, {}).get(binding_id)

    def all(self, workspace: str = "default") -> list[Binding]:
        """By id."""
        return sorted(self._bindings.get(workspace, {}).values(), key=lambda binding: binding.binding_id)

    def table(self, workspace: str = "default") -> RoutingTable:
        """The table of the bindings as they are now; the same one until something changes."""
        found = self._tables.get(workspace)
        if found is None:
            found = RoutingTable(self._bindings.get(workspace, {}).values())
            if workspace in self._bindings:  # nothing is kept for a workspace that somebody only asked about
                self._tables[workspace] = found
        return found
