"""Compares what two versions of a plugin need beyond nothing (`spec.sandbox`), and checks paths against the roots that
the operator allows. It confines nothing."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from bollard.host.egress.network_consent import NetworkConsent
from bollard.host.errors import InvalidRequest
from bollard.protocol import PluginSandbox


def sandbox_lines(sandbox: PluginSandbox, before: PluginSandbox) -> Iterator[str]:
    """What `sandbox` needs beyond `before`, as lines such as `network api.example.org`."""
    yield from (f"network {name}" for name in _network(sandbox).beyond(_network(before)))
    yield from (f"read {path}" for path in _beyond(sandbox.read, (*before.read, *before.write)))
    yield from (f"write {path}" for path in _beyond(sandbox.write, before.write))
    if sandbox.memory_mib is not None and sandbox.memory_mib > (before.memory_mib or 0):
        yield f"memory_mib {sandbox.memory_mib}"
    if sandbox.cpu is not None and sandbox.cpu > (before.cpu or 0):
        yield f"cpu {sandbox.cpu:g}"


def _network(sandbox: PluginSandbox) -> NetworkConsent:
    return NetworkConsent.of(sandbox.network)


def _beyond(paths: Iterable[str], covering: Iterable[str]) -> list[str]:
    allowed = [Path(each) for each in covering]
    return sorted({path for path in paths if not any(Path(path).is_relative_to(each) for each in allowed)})


def check_roots(plugin: str, sandbox: PluginSandbox, roots: Iterable[Path]) -> None:
    """Raise `InvalidRequest` unless every path is below a root after links are resolved. A worker with write access can
    make links, so the paths are checked again at each start."""
    allowed = [root.resolve() for root in roots]
    for path in (*sandbox.read, *sandbox.write):
        if not any(Path(path).resolve().is_relative_to(root) for root in allowed):
            raise InvalidRequest(
                f"the plugin {plugin} needs {path}, which is below none of the roots that the operator allows",
                reason="plugin_path_denied",
                hint=f"an operator can allow it: add {path} to sandbox_roots, and restart the host",
                field="spec.sandbox",
                plugin=plugin,
                path=path,
            )
