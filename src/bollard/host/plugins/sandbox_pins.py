"""What plugins from the settings may use: what their manifests asked for when the host started. Nobody consents to a
manifest that changes later, so it takes effect with the next start of the host (ADR 0125)."""

from pathlib import Path

from bollard.host.plugins.sandbox_access import sandbox_lines
from bollard.protocol import PluginSandbox


class SandboxPins:
    """The agreed needs, by the path of the plugin. One per host."""

    def __init__(self) -> None:
        self._agreed: dict[Path, PluginSandbox] = {}

    def agree(self, path: Path, sandbox: PluginSandbox) -> None:
        """The operator started the host with this manifest."""
        self._agreed[path] = sandbox

    def narrow(self, path: Path, sandbox: PluginSandbox) -> tuple[PluginSandbox, list[str]]:
        """What a worker gets whose manifest asks for `sandbox` now, and what that asks for beyond the agreed needs. The
        first needs of a plugin whose manifest was unreadable at the start are agreed to."""
        agreed = self._agreed.setdefault(path, sandbox)
        beyond = [*sandbox_lines(sandbox, agreed)]
        return (agreed, beyond) if beyond else (sandbox, [])
