"""The sandbox of the plugins' workers and of MCP servers: the level of this machine, the consent, and the network."""

import asyncio
import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from secrets import token_urlsafe
from types import MappingProxyType
from typing import Final

from bollard.confine.cgroup import GroupLimits, SharedGroup
from bollard.confine.launch import Launch, LaunchNeeds
from bollard.confine.launch_order import HOME, TEMPORARY
from bollard.confine.limits import LAUNCH_GROUP_BYTES, LAUNCH_PROCESSORS
from bollard.confine.worker_level import WorkerLevel
from bollard.host.egress.connection_log import ProxyClient
from bollard.host.egress.network_consent import NetworkConsent
from bollard.host.egress.worker_proxy import USER, Refused, WorkerProxy, forget
from bollard.host.errors import SandboxUnavailable
from bollard.host.limits import MIB, WORKER_ORPHAN_S
from bollard.host.reason import Why
from bollard.host.workers.boundary import PluginSource
from bollard.host.workers.missing_permission import explain_lack, find_lack
from bollard.protocol import CHANNEL_FD_VARIABLE, PluginSandbox

_CERTIFICATES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables whose files a worker may read."""
_TOKEN_BYTES: Final = 24
"""Random bytes of the password of a proxy."""
_NO_VALUES: Final[Mapping[str, str]] = MappingProxyType({})
_CREDENTIALS: Final = (
    ".aws",
    ".azure",
    ".config/bollard",
    ".config/gcloud",
    ".config/gh",
    ".docker",
    ".git-credentials",
    ".gnupg",
    ".kube",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".ssh",
)
"""What holds credentials in the home of the host's user."""
_OWN_PLACES: Final = (HOME, TEMPORARY, "/dev", "/proc", "/sys")
"""Places where a path that is missing for a sandbox needs no permission."""
_PROXY_VARIABLES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")


class WorkerSandbox:
    """Confines workers and MCP servers. One per host."""

    def __init__(
        self,
        level: WorkerLevel,
        proxy: WorkerProxy,
        roots: Iterable[Path],
        data: Path,
        workspace: GroupLimits,
        withheld: Iterable[Path] = (),
    ) -> None:
        """`roots` are the folders below which plugins may have files. `data` is hidden, wherever it is. `workspace` are
        the limits of everything confined in one workspace together. `withheld` are other files of the host that nothing
        gets, such as its TLS key."""
        self.level = level
        self.workspace_limits = workspace
        self._groups: dict[str, SharedGroup] = {}
        self._proxy = proxy
        self._roots = tuple(roots)
        self._data = data.resolve()
        credentials = (Path(os.path.expanduser(f"~/{name}")) for name in _CREDENTIALS)
        self._withheld = (self._data, *(each.resolve() for each in (*withheld, *credentials)))

    async def confine(
        self, source: PluginSource, sandbox: PluginSandbox, client: ProxyClient, argv: Sequence[str]
    ) -> "ConfinedWorker | None":
        """Prepare a worker; `None` if workers are not confined. Raises `ConfineError` and `SandboxUnavailable`."""
        if self.level.name == "none":
            return None
        allowed = self.allowed(sandbox)
        folder = source.path if source.path.is_dir() else source.path.parent
        needs = self._needs(
            allowed,
            client.workspace,
            read=(str(source.path.resolve()),),
            network=sandbox.network != "none",
            descriptor_variable=CHANNEL_FD_VARIABLE,
            grace_s=WORKER_ORPHAN_S,
        )
        cwd = str(folder.resolve()) if source.path.is_dir() else "/"
        return await self._launch(argv, cwd, needs, client, NetworkConsent.of(sandbox.network))

    async def confine_server(
        self,
        sandbox: PluginSandbox,
        client: ProxyClient,
        argv: Sequence[str],
        *,
        folder: Path,
        read: Sequence[str],
        refused: Refused,
    ) -> "ConfinedWorker | None":
        """Prepare an MCP server with a folder of its own, which is also its home; `None` if it is not confined. It
        always has a proxy, so that `refused` gets each place that lacks consent. `sandbox` is what `allowed` returned.
        Raises `ConfineError`."""
        if self.level.name == "none":
            return None
        needs = self._needs(sandbox, client.workspace, read=read, write=(str(folder),), network=True)
        return await self._launch(argv, str(folder), needs, client, NetworkConsent.of(sandbox.network), refused)

    def allowed(self, sandbox: PluginSandbox) -> PluginSandbox:
        """The same with paths without links. A program with write access can make links, so this is resolved once for
        each start, and no link is followed afterwards. Raises `SandboxUnavailable`."""
        read, write = (tuple(map(_without_links, paths)) for paths in (sandbox.read, sandbox.write))
        for path in (*read, *write):
            if not self.allows(Path(path)):
                raise SandboxUnavailable(
                    f"the plugin needs {path}, which is below none of the roots that the operator allows",
                    reason="plugin_path_denied",
                    hint=f"an operator can allow it: add {path} to sandbox_roots, and restart the host",
                    path=path,
                )
        return sandbox.model_copy(update={"read": read, "write": write})

    def denied(self, sandbox: PluginSandbox) -> str | None:
        """The first path that `allowed` refuses."""
        paths = map(_without_links, (*sandbox.read, *sandbox.write))
        return next((path for path in paths if not self.allows(Path(path))), None)

    def allows(self, path: Path) -> bool:
        """Whether a path without links is below a root, and neither belongs to the host nor holds credentials."""
        return any(path.is_relative_to(root.resolve()) for root in self._roots) and not self.withholds(path)

    def withholds(self, path: Path) -> bool:
        """Whether a path without links is in, or has beneath it, what no sandbox shows: the data directory, settings,
        keys and credentials."""
        return any(path.is_relative_to(each) or each.is_relative_to(path) for each in self._withheld)

    def _needs(
        self,
        sandbox: PluginSandbox,
        workspace: str,
        *,
        read: Sequence[str],
        write: Sequence[str] = (),
        network: bool,
        descriptor_variable: str = "",
        grace_s: float = 0.0,
    ) -> LaunchNeeds:
        return LaunchNeeds(
            read=(*read, *_certificates()),
            write=tuple(write),
            exact_read=sandbox.read,
            exact_write=sandbox.write,
            hidden=(str(self._data),),
            memory_bytes=LAUNCH_GROUP_BYTES if sandbox.memory_mib is None else sandbox.memory_mib * MIB,
            processors=LAUNCH_PROCESSORS if sandbox.cpu is None else sandbox.cpu,
            shared_group=self._groups.setdefault(workspace, SharedGroup(self.workspace_limits)),
            network=network and (self.level.namespaces or self.level.limits_ports),
            descriptor_variable=descriptor_variable,
            grace_s=grace_s,
        )

    async def _launch(
        self,
        argv: Sequence[str],
        cwd: str,
        needs: LaunchNeeds,
        client: ProxyClient,
        network: NetworkConsent,
        refused: Refused = forget,
    ) -> "ConfinedWorker":
        launch = await asyncio.to_thread(Launch, self.level, argv, cwd=cwd, needs=needs)
        return ConfinedWorker(launch, self._proxy, client, network, refused)


class ConfinedWorker:
    """One worker or server in its sandbox: its command line, its network, and its end."""

    def __init__(
        self, launch: Launch, proxy: WorkerProxy, client: ProxyClient, network: NetworkConsent, refused: Refused
    ) -> None:
        self._launch = launch
        self._proxy = proxy
        # Any process of the machine reaches a listener that is not in a network of its own.
        self._token = None if launch.listener is None else token_urlsafe(_TOKEN_BYTES)
        self._client = client
        self._network = network
        self._refused = refused
        self._serving: asyncio.Task[None] | None = None

    @property
    def argv(self) -> list[str]:
        return self._launch.argv

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The descriptors that the process inherits besides its connection."""
        return self._launch.descriptors

    def environment(
        self, given: Mapping[str, str], home: str = "", values: Mapping[str, str] = _NO_VALUES
    ) -> dict[str, str]:
        """Order the variables of the worker: its own home, unless `home` names another, and its proxy if it has a
        network; `values` win over these. Returns those of its launcher. Raises `OverLimit`."""
        proxy: dict[str, str] = {}
        if (address := self._launch.proxy_address) is not None:
            credentials = "" if self._token is None else f"{USER}:{self._token}@"
            url = f"http://{credentials}{address[0]}:{address[1]}"
            proxy = {**dict.fromkeys(_PROXY_VARIABLES, url), "NODE_USE_ENV_PROXY": "1"}
        return self._launch.environment({**given, **proxy}, home, values)

    async def start(self) -> None:
        """The process was started: serve its network. Raises `JailBroken`."""
        await self._launch.receive_listener()
        self._launch.release()
        if (listener := self._launch.listener) is not None:
            serving = self._proxy.serve(listener, self._client, self._network, token=self._token, refused=self._refused)
            self._serving = asyncio.create_task(serving)

    def reads(self, path: str) -> bool:
        """Whether it has a path of the machine."""
        return self._launch.reads(path)

    def writes(self, path: str) -> bool:
        """Whether it may write to a path of the machine."""
        return self._launch.writes(path)

    def find_program(self, leader: int) -> int:
        """The pid of the worker, given that of the started process."""
        return self._launch.find_program(leader)

    @property
    def memory_kills(self) -> int:
        """How many of its processes were killed because its memory was used up."""
        return self._launch.memory_kills

    def explain(self, lines: Sequence[str]) -> Why | None:
        """The permission whose lack explains these lines of an error. It does not look whether a path exists on the
        machine: the plugin would learn that from its error."""
        lack = find_lack((), lines, self._hides, lambda path: self.reads(path) and not self.writes(path))
        return None if lack is None else explain_lack(lack)

    def _hides(self, path: str) -> bool:
        is_own = any(Path(path).is_relative_to(place) for place in _OWN_PLACES)
        return not is_own and not self.reads(path)

    async def close(self) -> None:
        """End its network and everything that is left of it."""
        if self._serving is not None:
            self._serving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._serving
        await self._launch.close()


def _certificates() -> tuple[str, ...]:
    """The certificates that the operator names."""
    named = (os.environ.get(name) for name in _CERTIFICATES)
    return tuple(path for path in named if path)


def _without_links(path: str) -> str:
    return str(Path(path).resolve())
