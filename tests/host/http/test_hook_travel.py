"""Webhook routes leave with backups and exports, and come back from the log."""

from contextlib import closing
from pathlib import Path
from typing import Any

from tests.host.backup.conftest import believing
from tests.host.http.test_hooks import ISSUE, SECRET, deliveries, post, save
from tests.replacement import replace

from bollard.host.backup.backup import BackupSource, back_up
from bollard.host.backup.restore import restore
from bollard.host.backup.workspace_export import export_workspace
from bollard.host.backup.workspace_import import import_workspace
from bollard.host.clock import SystemClock
from bollard.host.log.rebuild import rebuild
from bollard.host.settings import Settings
from bollard.host.store.selection import choose_store


def left_behind(settings: Settings, start_host: Any, client_of: Any) -> tuple[Any, str]:
    """What a host with one route shows of it, when the host has stopped, and its token."""
    host = start_host(settings)
    client = client_of(host.port, host.token)
    save(client, "repo", agent=None, topics=["issues"])
    shown = client.get("/api/v1/hooks/repo").json
    host.stop()
    return shown, host.token


def test_a_route_comes_back_from_a_backup_and_from_the_log(
    tmp_path: Path, plugin: Path, start_host: Any, client_of: Any
) -> None:
    settings = Settings(data=tmp_path / "data", plugins=(plugin,), builtin_plugins=False, port=0, grace_s=0.5)
    shown, token = left_behind(settings, start_host, client_of)
    source, file = BackupSource(database="", data=settings.data), tmp_path / "backup.zip"
    back_up(source, file, with_keys=True, version="0.1.0", clock=SystemClock())
    assert SECRET.encode() not in file.read_bytes()
    restore(file, data=tmp_path / "restored", database="", trust=believing(file), clock=SystemClock())
    with closing(choose_store("", tmp_path / "restored", SystemClock())) as store:
        store.open()
        rebuild(store)
    host = start_host(replace(settings, data=tmp_path / "restored"))
    again = client_of(host.port, token)
    assert again.get("/api/v1/hooks/repo").json == shown
    assert post(again, "repo", ISSUE).status == 202
    host.stop()


def test_an_exported_route_is_closed_until_it_gets_a_secret(
    tmp_path: Path, plugin: Path, start_host: Any, client_of: Any
) -> None:
    settings = Settings(data=tmp_path / "data", plugins=(plugin,), builtin_plugins=False, port=0, grace_s=0.5)
    shown, _ = left_behind(settings, start_host, client_of)
    source, file = BackupSource(database="", data=settings.data), tmp_path / "workspace.zip"
    export_workspace(source, "default", file, version="0.1.0", clock=SystemClock())
    there = replace(settings, data=tmp_path / "there")
    empty = start_host(there)
    empty.stop()
    import_workspace(file, BackupSource(database="", data=there.data), trust=believing(file), clock=SystemClock())
    host = start_host(there)
    again = client_of(host.port, empty.token)
    assert again.get("/api/v1/hooks/repo").json == shown
    assert post(again, "repo", ISSUE).status == 401
    assert again.put("/api/v1/hooks/repo", {**shown, "secret": SECRET}).status == 200
    assert post(again, "repo", ISSUE).status == 202
    assert [each["outcome"] for each in deliveries(again, "repo")] == ["accepted"]
    host.stop()
