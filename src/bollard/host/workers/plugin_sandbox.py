"""The sandbox of a plugin whose worker no host starts: of `bollard plugin run` and `check`, and of a remote runtime.

Its network has the same door as on a host. The person who starts it consents to the names of its manifest, and the
environment has the settings of the rules for addresses.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from bollard.confine.errors import ConfineError
from bollard.confine.plugin_launch import launch_plugin
from bollard.confine.worker_level import WorkerLevel
from bollard.host.egress.client import EgressClient
from bollard.host.egress.connection_log import ConnectionLog, ConnectionSum, ProxyClient
from bollard.host.egress.network_consent import NetworkConsent
from bollard.host.egress.worker_proxy import WorkerProxy, forget
from bollard.host.errors import SettingsError, caused_by
from bollard.host.settings import read_settings
from bollard.host.telemetry.counts import ProxyCounts
from bollard.host.workers.sandbox import ConfinedWorker
from bollard.manifest.text import DeclaredWorker

_SETTINGS: Final = ("EGRESS_ALLOW", "PROXY", "PROXY_LOGIN", "NO_PROXY", "PROXY_RESOLVES")


async def confine_plugin(
    level: WorkerLevel,
    argv: Sequence[str],
    *,
    code: Path,
    declared: DeclaredWorker,
    environment: Mapping[str, str],
    descriptor_variable: str,
    note: Callable[[ConnectionSum], None],
) -> ConfinedWorker | None:
    """Prepare the process of a plugin; `None` if nothing is confined. `note` gets its connections. Raises
    `ConfineError`."""
    sandbox = declared.sandbox
    proxy = _open_proxy(environment, note)
    launch = await asyncio.to_thread(
        launch_plugin,
        level,
        argv,
        code=code,
        sandbox=sandbox,
        environment=environment,
        descriptor_variable=descriptor_variable,
    )
    if launch is None:
        return None
    client = ProxyClient(workspace="", plugin=declared.plugin_id or code.name)
    return ConfinedWorker(launch, proxy, client, NetworkConsent.of(sandbox.network), forget)


def connection_sentence(found: ConnectionSum) -> str:
    """Say how the connections of a sum ended."""
    times = "" if found.count == 1 else f", {found.count} times"
    sizes = f"{found.sent} bytes sent, {found.received} received"
    return f"connection to {found.host}:{found.port}: {found.outcome}{times}, {sizes}"


def _open_proxy(environment: Mapping[str, str], note: Callable[[ConnectionSum], None]) -> WorkerProxy:
    """Raises `ConfineError`."""
    named = {f"BOLLARD_{name}": value for name in _SETTINGS if (value := environment.get(f"BOLLARD_{name}"))}
    try:
        egress = EgressClient.of_settings(read_settings(named, Path(), {}))
    except SettingsError as error:
        raise ConfineError(error.message, hint=error.hint or "", details=caused_by(error)) from error
    return WorkerProxy(egress, ConnectionLog(note, ProxyCounts()))
