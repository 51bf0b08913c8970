"""Where secrets go with a copy: sealed in a backup, of use only with its key, and in no export."""

import zipfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bollard.host.backup.archive_verification import ArchiveTrust, own_fingerprints
from bollard.host.backup.backup import BackupSource, back_up
from bollard.host.backup.restore import new_incarnation, restore
from bollard.host.backup.workspace_export import export_workspace
from bollard.host.clock import SystemClock
from bollard.host.log.entries import Entry
from bollard.host.log.journal import Journal
from bollard.host.log.journal_writers import WriterThread
from bollard.host.log.records import NewRecord, encode_data
from bollard.host.log.writer import Writer
from bollard.host.secrets.redactor import Redactor
from bollard.host.secrets.sealing import KEY_FILE, Sealer
from bollard.host.secrets.vault import Vault
from bollard.host.store.blobs import BlobStore
from bollard.host.store.selection import choose_store
from bollard.trust.keys import load_or_make_signing_key

VALUE = "the-value-that-travels"
CLOCK = SystemClock()


@asynccontextmanager
async def opened(data: Path) -> Any:
    """The vault of a data directory, and its journal."""
    store = choose_store("", data, CLOCK)
    store.open()
    key = load_or_make_signing_key(data / "keys/heads.ed25519")
    journal = Journal(
        WriterThread(Writer(store, BlobStore(data / "blobs"), CLOCK, incarnation=new_incarnation(CLOCK), key=key))
    )
    await journal.start()
    sealer = Sealer(data / "keys" / KEY_FILE)
    vault = Vault(journal=journal, clock=CLOCK, sealer=sealer, redactor=Redactor())
    await vault.load(store)
    try:
        yield vault, journal
    finally:
        await journal.close()
        store.close()


@pytest.fixture
async def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    async with opened(folder) as (vault, journal):
        await vault.set("default", "TOKEN", VALUE, by="ann")
        config = {"chosen": "secret:TOKEN", "own": "secret:agent/polly/own"}
        body = {"agent_id": "polly", "runner_id": "plugin:local/parrot/default", "config": config}
        saved = {"kind": "agent", "id": "polly", "action": "saved", "revision": 1, "by": "ann", "body": body}
        record = NewRecord(workspace="default", type="policy.changed", data=encode_data(saved), created_ms=1)
        await journal.commit(Entry(records=[record]))
    return folder


def members(archive: Path) -> bytes:
    with zipfile.ZipFile(archive) as files:
        return b"\n".join(files.read(name) for name in files.namelist())


@pytest.mark.parametrize("with_keys", [True, False])
async def test_a_backup_has_sealed_secrets_that_are_readable_only_with_keys(
    data: Path, tmp_path: Path, with_keys: bool
) -> None:
    archive, elsewhere = tmp_path / "copy.zip", tmp_path / "elsewhere"
    back_up(BackupSource(data=data, database=""), archive, version="1", clock=CLOCK, with_keys=with_keys)
    assert VALUE.encode() not in members(archive)
    trust = ArchiveTrust(fingerprints=own_fingerprints([data]))
    restore(archive, data=elsewhere, database="", trust=trust, clock=CLOCK)
    async with opened(elsewhere) as (vault, _):
        assert vault.is_readable("default", "TOKEN") is with_keys
        if with_keys:
            assert await vault.use("default", "TOKEN", purpose="p", by="b") == VALUE


async def test_an_export_has_the_names_of_secrets_and_no_values(data: Path, tmp_path: Path) -> None:
    archive = tmp_path / "default.zip"
    report = export_workspace(BackupSource(data=data, database=""), "default", archive, version="1", clock=CLOCK)
    content = members(archive)
    assert VALUE.encode() not in content
    assert b"secret:TOKEN" in content
    assert b"agent/polly/own" not in content
    assert report.agents == ("polly",)
