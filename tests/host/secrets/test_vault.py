"""The vault over every store: sealed on disk, written down before it hands anything out, and honest without its key."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.doubles.manual_clock import ManualClock
from tests.replacement import replace

from bollard.host.agents.agent import Agent
from bollard.host.errors import AuditUnavailable, Conflict, InvalidRequest, NotFound, Overloaded, StorageUnavailable
from bollard.host.limits import AUDIT_S
from bollard.host.log.journal import Journal
from bollard.host.runs.start_request import ConfigSecrets
from bollard.host.secrets.redactor import MARK, Redactor
from bollard.host.secrets.sealing import KEY_FILE, Sealer, Unsealable
from bollard.host.secrets.vault import Vault
from bollard.host.store.store import Store
from bollard.protocol import FormItem

OpenJournal = Callable[..., Journal]


class Room:
    """A vault over a store; opened again, another one over the same."""

    def __init__(self, store: Store, journal: Journal, clock: ManualClock, folder: Path) -> None:
        self.store = store
        self.journal = journal
        self.clock = clock
        self.key_file = folder / KEY_FILE

    async def open(self, redactor: Redactor | None = None) -> tuple[Vault, Redactor]:
        redactor = redactor or Redactor()
        vault = Vault(journal=self.journal, clock=self.clock, sealer=Sealer(self.key_file), redactor=redactor)
        await vault.load(self.store)
        return vault, redactor

    def records(self, kind: str) -> list[Any]:
        rows = self.store.records(0, 1000)
        return [msgspec.json.decode(row.data) for row in rows if row.type == kind and row.data is not None]


@pytest.fixture
async def room(store: Store, open_journal: OpenJournal, clock: ManualClock, tmp_path: Path) -> Room:
    return Room(store, open_journal(store), clock, tmp_path / "keys")


async def test_a_secret_survives_a_restart_sealed_and_its_use_is_recorded_first(room: Room) -> None:
    vault, _ = await room.open()
    await vault.set("default", "TOKEN", "value-of-the-token", by="user:ann")
    again, redactor = await room.open()
    assert redactor.text("default", "value-of-the-token") == MARK
    assert await again.use("default", "TOKEN", purpose="agent:polly", by="run:1") == "value-of-the-token"
    (used,) = room.records("secret.used")
    fingerprint = await again.fingerprints.of("default", "value-of-the-token")
    assert used == {"name": "TOKEN", "revision": 1, "purpose": "agent:polly", "by": "run:1", "fingerprint": fingerprint}
    assert again.last_used_ms("default", "TOKEN") == room.clock.now_ms()
    (row,) = room.store.all_kept("secret")
    assert b"value-of" not in row.body
    assert room.key_file.stat().st_mode & 0o077 == 0


async def test_a_secret_belongs_to_its_workspace_and_is_deleted_for_good(room: Room) -> None:
    vault, _ = await room.open()
    await vault.set("default", "TOKEN", "value-of-the-token", by="ann")
    with pytest.raises(NotFound):
        await vault.use("other", "TOKEN", purpose="p", by="b")
    await vault.delete("default", "TOKEN", by="ann")
    again, _ = await room.open()
    for each in (vault, again):
        with pytest.raises(NotFound):
            await each.use("default", "TOKEN", purpose="p", by="b")
    assert room.store.all_kept("secret") == []
    with pytest.raises(InvalidRequest):
        await vault.set("default", "agent/polly/key", "value-of-the-token", by="ann")


async def test_a_secret_without_its_key_gives_a_reason_and_can_be_set_again(room: Room) -> None:
    vault, _ = await room.open()
    await vault.set("default", "TOKEN", "value-of-the-token", by="ann")
    room.key_file.unlink()
    lost, redactor = await room.open()
    assert not lost.is_readable("default", "TOKEN")
    assert not redactor.everywhere.active
    with pytest.raises(Conflict) as refused:
        await lost.use("default", "TOKEN", purpose="p", by="b")
    assert KEY_FILE in refused.value.hint
    await lost.set("default", "TOKEN", "another-value", by="ann")
    assert lost.is_readable("default", "TOKEN")


async def test_a_secret_is_not_handed_out_without_its_record_in_time(
    gate: Any, loop_time: Any, open_journal: OpenJournal, clock: ManualClock, tmp_path: Path
) -> None:
    room = Room(gate.store, open_journal(gate.store), clock, tmp_path / "keys")
    vault, _ = await room.open()
    await vault.set("default", "TOKEN", "value-of-the-token", by="ann")
    await vault.fingerprints.of("default", "x")  # its key is there
    gate.shut()
    asking = asyncio.create_task(vault.use("default", "TOKEN", purpose="p", by="b"))
    await gate.arrival()
    loop_time.advance(AUDIT_S + 1)
    with pytest.raises(AuditUnavailable) as refused:
        await asking
    assert refused.value.hint
    gate.broken = StorageUnavailable("away", reason="test", hint="")
    gate.lift()
    with pytest.raises(AuditUnavailable):
        await vault.use("default", "TOKEN", purpose="p", by="b")
    assert vault.last_used_ms("default", "TOKEN") is None
    gate.broken = None


async def test_fingerprints_survive_a_restart_and_change_with_their_key(room: Room) -> None:
    vault, _ = await room.open()
    first = await vault.fingerprints.of("default", "a value")
    again, _ = await room.open()
    assert await again.fingerprints.of("default", "a value") == first
    assert await again.fingerprints.of("other", "a value") != first
    await again.fingerprints.forget("default")
    anew, _ = await room.open()
    assert await anew.fingerprints.of("default", "a value") != first


def test_sealed_content_opens_only_unchanged_and_under_its_own_name(tmp_path: Path) -> None:
    sealer = Sealer(tmp_path / KEY_FILE)
    sealed = sealer.seal("secret/default/a", b"content")
    assert sealer.open("secret/default/a", sealed) == b"content"
    assert sealer.seal("secret/default/a", b"content") != sealed
    with pytest.raises(Unsealable):
        sealer.open("secret/default/b", sealed)
    for at in range(len(sealed)):
        changed = sealed[:at] + bytes([sealed[at] ^ 1]) + sealed[at + 1 :]
        with pytest.raises(Unsealable):
            sealer.open("secret/default/a", changed)
    for cut in range(len(sealed)):
        with pytest.raises(Unsealable):
            sealer.open("secret/default/a", sealed[:cut])
    with pytest.raises(Unsealable):
        Sealer(tmp_path / "another" / KEY_FILE).open("secret/default/a", sealed)


async def test_a_plain_value_of_an_earlier_configuration_is_used_and_hidden(room: Room) -> None:
    vault, redactor = await room.open()
    form = (FormItem(name="key", type="secret", label={"en_US": "Key"}),)
    old = Agent(
        agent_id="polly", runner_id="plugin:a/b/c", runner_name="c", plugin="a/b", label={"en_US": "Polly"}, form=form
    )
    secrets = ConfigSecrets(vault, redactor)
    assert not secrets.to_fill(replace(old, config={"key": "kept-in-plain"}))
    assert redactor.text("default", "it is kept-in-plain") == f"it is {MARK}"
    assert secrets.to_fill(replace(old, config={"key": "secret:TOKEN"}))
    assert not secrets.to_fill(old)


async def test_repeated_changes_of_a_secret_use_limited_memory_and_keep_the_others_hidden(room: Room) -> None:
    vault, redactor = await room.open(Redactor(former_characters=100))
    await vault.set("default", "STEADY", "the-steady-one", by="user:ann")
    await vault.set("default", "TWIN", "the-steady-one", by="user:ann")
    for number in range(12):
        await vault.set("default", "TURNED", f"{number:04}-" + "x" * 40, by="user:ann")
    await vault.delete("default", "TWIN", by="user:ann")

    for scrubber in (redactor.scrubber("default"), redactor.everywhere):
        assert not any(needle.startswith("0000-") for needle in scrubber.matcher.literal.needles)
        for hidden in ("the-steady-one", "0011-" + "x" * 40, "0010-" + "x" * 40):
            assert scrubber.text(f"a {hidden} b") == f"a {MARK} b"


async def test_a_workspace_has_a_limit_of_secrets(room: Room) -> None:
    vault, _ = await room.open()
    for number in range(8):
        await vault.set("default", f"S{number}", f"{number}" + "x" * 8191, by="user:ann")
    with pytest.raises(Overloaded) as refused:
        await vault.set("default", "MORE", "one-more-value", by="user:ann")
    assert refused.value.hint
    await vault.set("default", "S0", "shorter-value", by="user:ann")
    await vault.set("default", "MORE", "one-more-value", by="user:ann")
    await vault.set("second", "MORE", "another-value", by="user:ann")
