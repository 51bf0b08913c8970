"""Collects the facts of `bollard doctor`: settings, files, the database, the machine, and a running host."""

import asyncio
import errno
import os
import resource
import socket
import stat
import sys
import time
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from bollard.cli.client.credentials import credentials_path
from bollard.cli.client.documents import AGENTS, Resource
from bollard.cli.client.host_client import HostClient, find_host
from bollard.cli.errors import CliError
from bollard.cli.operate.doctor_checks import (
    AgentFacts,
    DataFacts,
    Facts,
    HostFacts,
    PluginFacts,
    PortFacts,
    SandboxFacts,
    SettingsFacts,
    StoreFacts,
    WorkerFacts,
)
from bollard.confine.order import Demand
from bollard.confine.probe import Findings, choose_confinement
from bollard.confine.probe import probe as probe_confinement
from bollard.confine.worker_level import choose_level
from bollard.host.backup.archived_files import public_keys
from bollard.host.backup.log_check import look_at_tail
from bollard.host.backup.table_source import open_snapshot
from bollard.host.errors import HostError, SettingsError
from bollard.host.settings import Settings, read_settings
from bollard.host.store.migrations import REVISIONS
from bollard.host.workers.bounds import group_bounds, workspace_limits

_OTHERS: Final = 0o077
_LISTENING: Final = "0A"
_TCP_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_OFFERED: Final = Resource(path="/api/v1/models", key="model_id")
_PLUGINS: Final = Resource(path="/api/v1/plugins", key="plugin_id")
_ALIAS: Final = "default"
_DEMO: Final = "demo"


def probe(environment: Mapping[str, str], asked: Mapping[str, Any], token: str | None) -> Facts:
    """Collect all facts; unavailable ones are left out. Changes nothing."""
    settings, read = _settings(environment, asked)
    holder = lock_holder(settings.data / "lock")
    host = None if read.problem else asyncio.run(_host(environment, settings, token))
    refused = listening_problem(settings.host, settings.port) if read.problem is None else None
    taken = refused == errno.EADDRINUSE
    name, pid = (port_owner(settings.port) if taken else None) or (None, None)
    findings = probe_confinement()
    return Facts(
        settings=read,
        data=_data(settings.data, holder, credentials_path(environment)),
        port=PortFacts(
            taken=taken,
            by=name,
            pid=pid,
            is_host=host is not None,
            refused=None if taken or refused is None else OSError(refused, os.strerror(refused)),
        ),
        store=_store(settings),
        sandbox=sandbox_facts(settings.sandbox, findings),
        workers=worker_facts(settings, findings),
        now_ms=time.time_ns() // 1_000_000,
        files=file_limit(),
        host=host,
        drift_s=_drift(settings.data / "lock", holder),
    )


def _settings(environment: Mapping[str, str], asked: Mapping[str, Any]) -> tuple[Settings, SettingsFacts]:
    """The settings. If they are invalid, only the data directory and the database are read."""
    try:
        settings, problem = read_settings(environment, Path(), asked), None
    except SettingsError as error:
        problem = error
        settings = _store_settings(environment, asked)
    facts = SettingsFacts(host=settings.host, port=settings.port, connections=settings.connections)
    if problem is None:
        return settings, facts
    configured = str(_configured(environment, asked, "host") or settings.host)
    field = problem.details.get("field")
    return settings, replace(facts, host=configured, problem=problem, field=field if isinstance(field, str) else None)


def _store_settings(environment: Mapping[str, str], asked: Mapping[str, Any]) -> Settings:
    data = _configured(environment, asked, "data")
    database = _configured(environment, asked, "database")
    return Settings(data=Path(str(data)) if data else Path("data"), database=str(database or ""))


def _configured(environment: Mapping[str, str], asked: Mapping[str, Any], name: str) -> object:
    """One setting, unchecked, even if other settings are invalid."""
    try:
        file = tomllib.loads(Path("bollard.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        file = dict[str, Any]()
    return asked.get(name) or environment.get(f"BOLLARD_{name.upper()}") or file.get(name)


def _data(path: Path, holder: int | None, credentials: Path) -> DataFacts:
    near = path.absolute()
    while not _is_there(near) and near != near.parent:
        near = near.parent
    found, disk = near.stat(), os.statvfs(near)
    return DataFacts(
        path=str(path),
        there=near == path.absolute(),
        is_folder=stat.S_ISDIR(found.st_mode),
        writable=os.access(near, os.W_OK | os.X_OK, effective_ids=True),
        owner=found.st_uid,
        me=os.geteuid(),
        mode=stat.S_IMODE(found.st_mode),
        free_bytes=disk.f_bavail * disk.f_frsize,
        total_bytes=disk.f_blocks * disk.f_frsize,
        holder=holder,
        exposed=tuple(_exposed([*_key_files(path), credentials])),
    )


def _is_there(path: Path) -> bool:
    """Files in an unreadable folder count as absent; the folder is the problem then."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def _key_files(data: Path) -> list[Path]:
    try:
        return [file for file in sorted((data / "keys").iterdir()) if file.suffix != ".pub"]
    except OSError:
        return []


def _exposed(files: list[Path]) -> list[str]:
    """The files that other users can read or write."""
    found: list[str] = []
    for file in files:
        try:
            if file.is_file() and file.stat().st_mode & _OTHERS:
                found.append(str(file))
        except OSError:
            continue
    return found


def _store(settings: Settings) -> StoreFacts:
    name = "PostgreSQL" if settings.database else str(settings.data / "bollard.db")
    if not settings.database and not _is_there(settings.data / "bollard.db"):
        return StoreFacts(name=name, known=REVISIONS.known)
    try:
        snapshot = open_snapshot(settings.database, settings.data)
        try:
            revision = snapshot.revision
            if revision not in REVISIONS.known:
                return StoreFacts(name=name, revision=revision, known=REVISIONS.known)
            tail = look_at_tail(snapshot, _public_keys(settings.data))
        finally:
            snapshot.close()
    except HostError as error:
        return StoreFacts(name=name, problem=error, known=REVISIONS.known)
    return StoreFacts(
        name=name,
        revision=revision,
        known=REVISIONS.known,
        newest_ms=tail.newest_ms,
        fault=tail.fault,
        shares_role=bool(settings.database) and not settings.knowledge_database,
    )


def _public_keys(data: Path) -> dict[str, str]:
    try:
        return public_keys(data)
    except (HostError, OSError):
        return {}


def _drift(lock: Path, holder: int | None) -> float | None:
    """The host writes the lock file when it starts, so the file's time is the wall clock of that moment."""
    try:
        return None if holder is None else drift_of(holder, lock.stat().st_mtime)
    except OSError:
        return None


async def _host(environment: Mapping[str, str], settings: Settings, token: str | None) -> HostFacts | None:
    try:
        known = {**environment, "BOLLARD_PORT": str(settings.port), "BOLLARD_HOST": settings.host}
        client = find_host(None, token, known)
        health = cast("dict[str, Any]", await client.health())
    except CliError:
        return None
    if not isinstance(health.get("ready"), bool):  # another program that answers JSON
        return None
    reasons = cast("list[dict[str, Any]]", health.get("reasons") or [])
    models = await _models(client)
    return HostFacts(
        address=client.address,
        ready=bool(health["ready"]),
        version=health.get("version"),
        reasons=tuple({"problem": each.get("message"), **each.get("problem_details", {})} for each in reasons),
        plugins=await _plugins(client, health),
        agents=await _warned_agents(client),
        only_demo=models == frozenset({_DEMO, _ALIAS}),
    )


async def _plugins(client: HostClient, health: Mapping[str, Any]) -> tuple[PluginFacts, ...]:
    """The plugins by their ids; without a token that the host accepts, by their names."""
    try:
        found = [(str(each["plugin_id"]), each) for each in await _PLUGINS.all(client)]
    except CliError:
        found = [*cast("dict[str, dict[str, Any]]", health.get("plugins") or {}).items()]
    return tuple(PluginFacts(name=name, status=str(one["status"]), problem=_problem(one)) for name, one in found)


def _problem(plugin: Mapping[str, Any]) -> Mapping[str, object] | None:
    details = cast("Mapping[str, object]", plugin.get("problem_details") or {})
    return None if plugin["problem"] is None else {"problem": plugin["problem"], **details}


async def _warned_agents(client: HostClient) -> tuple[AgentFacts, ...] | None:
    """What the host warns about, agent by agent."""
    found: list[AgentFacts] = []
    try:
        for agent in await AGENTS.all(client):
            whole = cast("dict[str, Any]", await client.get(AGENTS.one(str(agent["agent_id"]))))
            found += [
                AgentFacts(
                    agent_id=str(agent["agent_id"]),
                    reason=each["reason"],
                    details=each["details"],
                    message=each["message"],
                    hint=each["hint"],
                )
                for each in whole.get("warnings", ())
            ]
    except CliError:
        return None
    return tuple(found)


async def _models(client: HostClient) -> frozenset[str]:
    """The models of the host and the alias of its default; empty if the request fails."""
    try:
        found = frozenset(str(item.get("model_id")) for item in await _OFFERED.all(client))
    except CliError:
        return frozenset()
    return found | {_ALIAS} if found else found


# --- the machine: locks, ports, clocks, confinement ---


def lock_holder(path: Path) -> int | None:
    """The process that locks a file, read from the kernel. Trying the lock could keep a host from starting."""
    try:
        number = path.stat().st_ino
        lines = Path("/proc/locks").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if "->" not in words and words[1] == "FLOCK" and words[5].rpartition(":")[2] == str(number):
            return int(words[4])
    return None


def listening_problem(host: str, port: int) -> int | None:
    """The error of listening on this address now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.errno or errno.EINVAL
    return None


def port_owner(port: int) -> tuple[str, int] | None:
    """The name and the id of the process that listens on a port, if this user may read them."""
    sockets = set(_listening(port))
    for folder in Path("/proc").iterdir():
        if not sockets or not folder.name.isdigit():
            continue
        with suppress(OSError):
            for descriptor in (folder / "fd").iterdir():
                if str(descriptor.readlink()) in sockets:
                    name = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
                    return name, int(folder.name)
    return None


def _listening(port: int) -> list[str]:
    found: list[str] = []
    for table in _TCP_TABLES:
        with suppress(OSError):
            for line in Path(table).read_text(encoding="utf-8").splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENING and int(words[1].rpartition(":")[2], 16) == port:
                    found.append(f"socket:[{words[9]}]")
    return found


def drift_of(pid: int, since_wall_s: float) -> float | None:
    """Difference between the wall clock and the steady clock since a process started at `since_wall_s`."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        started_s = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        steady_s = time.clock_gettime(time.CLOCK_BOOTTIME) - started_s
    except (OSError, ValueError, IndexError, AttributeError):
        return None
    return (time.time() - since_wall_s) - steady_s


def file_limit() -> int:
    """The limit of open files of a host that is started here; the host raises its soft limit to the hard one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return sys.maxsize if hard == resource.RLIM_INFINITY else hard


def worker_facts(settings: Settings, findings: Findings) -> WorkerFacts:
    """The confinement of workers, tried with real processes as a host does."""
    level = choose_level(settings.worker_sandbox, findings)
    return WorkerFacts(
        demand=level.demand,
        level=level.name,
        problem=level.problem,
        hint=level.hint,
        missing=level.missing,
        landlock=level.landlock,
        controllers=level.controllers,
        workspace=group_bounds(level, workspace_limits(settings)),
    )


def sandbox_facts(demand: Demand, findings: Findings) -> SandboxFacts:
    """The confinement of programs, likewise."""
    confinement = choose_confinement(demand, findings)
    return SandboxFacts(
        level=confinement.level,
        problem=confinement.problem,
        hint=confinement.hint,
        missing=confinement.missing,
        landlock=confinement.findings.landlock,
        user_namespaces=confinement.findings.namespaces,
        bubblewrap=bool(confinement.findings.bubblewrap),
    )
