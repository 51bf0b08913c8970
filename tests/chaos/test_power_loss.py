"""R01: the power fails at any instant, and the disk keeps any part of the unflushed data. Acknowledged records stay.

A library between the host and its disk records every write, name and flush. From that, images of the disk are made as a
power loss could have left them: all flushed data, and a part of the rest that the seed chooses.
"""

import asyncio
import contextlib
import json
import os
import random
import shutil
import sqlite3
import struct
import subprocess
import sys
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath

import pytest
from tests.simulation.ledger import all_records, chain_problems, ledger_of

from bollard.host.clock import SystemClock
from bollard.host.errors import HostError
from bollard.host.log.rebuild import rebuild
from bollard.host.store.selection import choose_store
from bollard.trust.keys import load_or_make_signing_key

SECTOR = 512
"""Bytes that a disk writes whole or not at all."""
IMAGES = 12
"""Images of one recorded host, in the short form."""
SHOWN_EARLY = {"message.delta", "run.started", "tool.call.started", "tool.call.completed"}
"""Records that a reader may see before they are on disk: their loss breaks no promise."""
_ENTRY = struct.Struct("=IIIIQQQ")


@dataclass(frozen=True)
class Op:
    """One entry of the shim's log; `end` is where the log stood behind it."""

    kind: str
    thread: int
    path: str
    other: str
    inode: int
    offset: int
    data: bytes
    end: int


def read_ops(log: Path) -> list[Op]:
    content, at, found = log.read_bytes(), 0, []
    while at + _ENTRY.size <= len(content):
        kind, thread, path_bytes, other_bytes, inode, offset, data_bytes = _ENTRY.unpack_from(content, at)
        path_at = at + _ENTRY.size
        other_at = path_at + path_bytes
        data_at = other_at + other_bytes
        at = data_at + data_bytes
        if at > len(content):
            break
        path, other = content[path_at:other_at].decode().rstrip("/"), content[other_at:data_at].decode().rstrip("/")
        found.append(Op(chr(kind), thread, path, other, inode, offset, content[data_at:at], at))
    return found


@dataclass
class File:
    """The part of a file that is certainly on disk, and the part that may be."""

    inode: int
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Op] = field(default_factory=list)


@dataclass
class Folder:
    """The names of a folder that are surely on disk, and the changes that may be."""

    names: dict[str, "File | Folder"] = field(default_factory=dict)
    pending: list[dict[str, "File | Folder | None"]] = field(default_factory=list)
    """Each change with all names that it concerns: a move inside the folder happens whole or not at all."""


class Disk:
    """Follows the log. A flush of a file keeps its bytes, a flush of a folder keeps its names, nothing else does."""

    def __init__(self, root: Path, *, flushes: bool = True) -> None:
        self._flushes = flushes
        self.root = Folder()
        self._now: dict[str, File | Folder] = {str(root): self.root}
        """The content that a program sees under each path, durable or not."""
        self._begun: dict[int, int] = {}

    def follow(self, op: Op) -> None:
        match op.kind:
            case "w" | "t":
                if isinstance(file := self._now.get(op.path), File):
                    file.pending.append(op)
            case "c":
                known = self._now.get(op.path)
                if not isinstance(known, File) or known.inode != op.inode:
                    self._name(op.path, File(op.inode))
            case "m":
                self._name(op.path, Folder())
            case "l":
                self._name(op.other, self._now[op.path])
            case "r" if PurePosixPath(op.path).parent == PurePosixPath(op.other).parent:
                self._name(op.other, self._now[op.path], gone=op.path)
            case "r":
                self._name(op.other, self._now[op.path])
                self._name(op.path, None)
            case "u":
                self._name(op.path, None)
            case "b":
                self._begun[op.thread] = len(getattr(self._now.get(op.path), "pending", ()))
            case "e" if self._flushes:
                self._flush(self._now.get(op.path), self._begun[op.thread])

    def _name(self, path: str, thing: File | Folder | None, gone: str | None = None) -> None:
        place = PurePosixPath(path)
        folder = self._now[str(place.parent)]
        assert isinstance(folder, Folder)
        change = {place.name: thing}
        if gone is not None:
            change[PurePosixPath(gone).name] = None
            self._now.pop(gone)
        folder.pending.append(change)
        if thing is None:
            self._now.pop(path, None)
        else:
            self._now[path] = thing

    @staticmethod
    def _flush(thing: File | Folder | None, count: int) -> None:
        match thing:
            case File():
                _apply(thing.durable, thing.pending[:count])
                del thing.pending[:count]
            case Folder():
                _rename(thing.names, thing.pending[:count])
                del thing.pending[:count]

    def after_a_power_loss(self, dice: random.Random | None, target: Path) -> None:
        """Write the folder as a power loss may leave it; without dice, only the flushed data."""
        _lay_out(self.root, dice, target)


def _apply(content: bytearray, ops: list[Op]) -> None:
    for op in ops:
        if op.kind == "t":
            del content[op.offset :]
            content.extend(bytes(op.offset - len(content)))
        else:
            content.extend(bytes(max(0, op.offset - len(content))))
            content[op.offset : op.offset + len(op.data)] = op.data


def _rename(names: dict[str, File | Folder], changes: list[dict[str, File | Folder | None]]) -> None:
    for change in changes:
        for name, thing in change.items():
            names.pop(name, None)
            if thing is not None:
                names[name] = thing


def _some(dice: random.Random | None, pending: list) -> list:
    """The part of unflushed changes that a power loss leaves: all, none, the first few, or any of them."""
    match "none" if dice is None else dice.choice(["all", "none", "first", "any"]):
        case "all":
            return pending
        case "first":
            return pending[: dice.randint(0, len(pending))]
        case "any":
            share = dice.random()
            return [change for change in pending if dice.random() < share]
        case _:
            return []


def _torn(dice: random.Random | None, ops: list[Op]) -> list[Op]:
    """The last of some writes, cut between two sectors."""
    if dice is None or not ops or ops[-1].kind != "w" or dice.random() < 0.5:
        return ops
    cut = dice.randrange(0, len(ops[-1].data) + 1, SECTOR)
    return [*ops[:-1], Op(**{**vars(ops[-1]), "data": ops[-1].data[:cut]})]


def _lay_out(folder: Folder, dice: random.Random | None, target: Path) -> None:
    target.mkdir(mode=0o700)
    names = dict(folder.names)
    _rename(names, _some(dice, folder.pending))
    for name, thing in names.items():
        if isinstance(thing, Folder):
            _lay_out(thing, dice, target / name)
        else:
            content = bytearray(thing.durable)
            _apply(content, _torn(dice, _some(dice, thing.pending)))
            (target / name).write_bytes(content)
            (target / name).chmod(0o600)


@dataclass
class Told:
    """The answers to clients, each with its position in the log of the shim."""

    log: Path
    events: list[tuple[int, str, str]] = field(default_factory=list)
    records: dict[str, list] = field(default_factory=lambda: defaultdict(list))
    kept: list[tuple[int, str, int]] = field(default_factory=list)
    """Place, run and seq of each record that must be on disk when it is shown, and with it all before it."""

    def place(self) -> int:
        return self.log.stat().st_size

    def missing(self, store, place: int) -> list[str]:
        """Acknowledged facts before this position that a store lacks."""
        problems = []
        with store.write() as transaction:
            for told_at, event_id, run_id in self.events:
                row = transaction.find_event("default", "chaos", event_id) if told_at <= place else None
                if told_at <= place and (row is None or row.run_id != run_id):
                    problems.append(f"event {event_id} was acknowledged as {run_id} and is {row}")
        shown = {run_id: seq for told_at, run_id, seq in self.kept if told_at <= place}
        for run_id, seq in shown.items():
            ledger = [_without_time(record) for record in ledger_of(store, run_id)[:seq]]
            if ledger != [_without_time(record) for record in self.records[run_id][:seq]]:
                problems.append(
                    f"{run_id}: a reader had {seq} records and the ledger has {len(ledger)} of them, or others"
                )
        return problems


def _without_time(record):
    return {**json.loads(record.json), "created_at": None}


class Recording:
    """A host recorded under load, and the answers to its clients."""

    def __init__(self, host, chaos, log: Path) -> None:
        self.host = host
        self.chaos = chaos
        self.told = Told(log)

    async def take(self, seconds: float, clients: int) -> None:
        await self.host.start()
        await self.host.ready("scripted")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(self._busy() for _ in range(clients)))
        await self.host.kill()
        self.ops = read_ops(self.told.log)

    async def _busy(self) -> None:
        while True:
            event_id = self.chaos.new_event()
            run_id = await self.chaos.deliver(event_id)
            self.told.events.append((self.told.place(), event_id, run_id))
            async with self.host.client.request("GET", f"/api/v1/runs/{run_id}/stream") as answer:
                async for record in answer.events():
                    self.told.records[run_id].append(record)
                    if record.type not in SHOWN_EARLY:
                        self.told.kept.append((self.told.place(), run_id, record.seq))

    def places(self, dice: random.Random, count: int) -> list[int]:
        """Instants for a power loss: anywhere, around a flush, or while the write-ahead log is copied."""
        first = self.told.events[0][0]
        ends = [op.end for op in self.ops if op.end > first]
        copying = [op.end for op in self.ops if op.path.endswith(".db") and op.kind in "wbe" and op.end > first]
        waiting = [op.end for op in self.ops if op.kind in "be" and op.end > first]
        return sorted(dice.choice(dice.choice([ends, copying or ends, waiting])) for _ in range(count))

    def images(self, places: list[int], dice: random.Random | None, folder: Path, *, flushes: bool = True):
        """For each place in turn an image of the disk."""
        disk, position = Disk(self.host.data, flushes=flushes), 0
        ends = [op.end for op in self.ops]
        for number, place in enumerate(places):
            upto = bisect_right(ends, place)
            for op in self.ops[position:upto]:
                disk.follow(op)
            position = upto
            disk.after_a_power_loss(dice, folder / f"image{number}")
            yield place, folder / f"image{number}"


def problems_of(image: Path, told: Told, place: int, key) -> list[str]:
    """Problems of an image when the product's own store opens it."""
    store = choose_store("", image, SystemClock())
    store.open()
    try:
        with contextlib.closing(sqlite3.connect(image / "bollard.db")) as raw:
            found = [
                f"the file is damaged: {row[0]}" for row in raw.execute("PRAGMA integrity_check") if row[0] != "ok"
            ]
        found += [*told.missing(store, place), *chain_problems(store, key)]
        before = store.dump_projections()
        rebuild(store)
        after = store.dump_projections()
        return found + [f"a rebuild changes {table}" for table in before if before[table] != after[table]]
    finally:
        store.close()


def artifacts_of(image: Path) -> set[str]:
    """The digests of contents that the records of an image name."""
    store = choose_store("", image, SystemClock())
    store.open()
    try:
        named = [json.loads(record.data or b"{}") for record in all_records(store) if record.type == "artifact.created"]
        return {data["sha256"] for data in named}
    finally:
        store.close()


@pytest.fixture(scope="module")
def recording(host_class, make_chaos, scripted, disk_shim, tmp_path_factory):
    """A host that was busy for some seconds, with everything it wrote."""
    folder = tmp_path_factory.mktemp("recorded")
    log, root = folder / "disk.log", folder / "data"
    watched = {"LD_PRELOAD": str(disk_shim), "CHAOS_DISK_ROOT": str(root), "CHAOS_DISK_LOG": str(log)}
    host = host_class(root, [scripted], environment=watched)
    made = Recording(host, make_chaos(host), log)
    asyncio.run(made.take(seconds=3.0, clients=6))
    return made


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    return folder


@pytest.mark.requirement("P05-27", "P05-29")
@pytest.mark.smoke
async def test_acknowledged_records_survive_a_power_loss_at_any_instant(recording, seed, rounds, images):
    dice = random.Random(seed)
    key = load_or_make_signing_key(recording.host.data / "keys" / "heads.ed25519").verify_key
    places = recording.places(dice, IMAGES * rounds // 4)
    for place, image in recording.images(places, dice, images):
        found = problems_of(image, recording.told, place, key)
        assert not found, (f"seed {seed}, place {place}, {image.name}", found[:5])
        shutil.rmtree(image)
    assert len(recording.told.events) > 20


@pytest.mark.requirement("P05-27", "P05-29")
async def test_a_host_after_a_power_loss_ends_every_run_and_forgets_none(
    recording, make_host, make_chaos, scripted, seed, repeats, images
):
    dice = random.Random(seed)
    for place, image in recording.images(recording.places(dice, 2 * repeats), dice, images):
        chaos = make_chaos(make_host(scripted))
        for name in ("bollard.db", "bollard.db-wal", "blobs"):
            if (image / name).exists():
                (image / name).rename(chaos.host.data / name)
        shutil.copytree(recording.host.data / "keys", chaos.host.data / "keys")
        shutil.copy(recording.host.data / "token", chaos.host.data)
        for told_at, event_id, run_id in recording.told.events:
            if told_at <= place:
                chaos.events[event_id] = recording.chaos.events[event_id]
                chaos.history.acknowledged("chaos", event_id, run_id)
        await chaos.host.start()
        await chaos.host.ready("scripted")
        await chaos.settle()
        await chaos.host.kill()
        assert not (found := chaos.problems()), (f"seed {seed}, place {place}", found[:5])


async def test_this_test_notices_a_disk_that_does_not_flush(recording, seed, images):
    dice = random.Random(seed)
    key = load_or_make_signing_key(recording.host.data / "keys" / "heads.ed25519").verify_key
    losses = 0
    for place, image in recording.images(recording.places(dice, IMAGES), dice, images, flushes=False):
        try:
            losses += bool(problems_of(image, recording.told, place, key))
        except (HostError, OSError, sqlite3.Error):  # there may be no file, or half of one
            losses += 1
    assert losses > IMAGES // 2


async def test_the_keys_of_a_host_survive_a_power_loss_after_its_last_acknowledgement(recording, images):
    keys = {path.name: path.read_bytes() for path in (recording.host.data / "keys").iterdir()}
    assert keys.keys() == {"admin-token.sha256", "cursors.secret", "heads.ed25519", "kept.key"}
    ((_, image),) = recording.images([recording.told.place()], None, images)
    assert {path.name: path.read_bytes() for path in image.glob("keys/*")} == keys


def test_the_data_directory_of_a_first_start_survives_a_power_loss(disk_shim, tmp_path):
    log, root = tmp_path / "disk.log", tmp_path / "disk"
    root.mkdir()
    watched = {"LD_PRELOAD": str(disk_shim), "CHAOS_DISK_ROOT": str(root), "CHAOS_DISK_LOG": str(log)}
    take = (
        "import sys; from pathlib import Path; from bollard.cli.operate.data_lock import DataLock;"
        " DataLock.take(Path(sys.argv[1]))"
    )
    command = [sys.executable, "-c", take, str(root / "state" / "data")]
    subprocess.run(command, check=True, env={**os.environ, **watched})
    disk = Disk(root)
    for op in read_ops(log):
        disk.follow(op)
    disk.after_a_power_loss(None, tmp_path / "image")
    assert (tmp_path / "image" / "state" / "data").is_dir()


async def test_contents_named_by_a_record_survive_a_power_loss(recording, images):
    ((_, image),) = recording.images([recording.told.place()], None, images)
    named, kept = artifacts_of(image), list(image.glob("blobs/sha256/*/*"))
    assert len(named) > 5
    assert named <= {path.name for path in kept if sha256(path.read_bytes()).hexdigest() == path.name}
