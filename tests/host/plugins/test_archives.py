"""Archives that want more than they are given: bombs, lies, links, names that lead away (F36, S52)."""

import io
import os
import random
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.host.plugins.conftest import Raw, deflated, files_of, raw_zip, zip_of

from bollard.host.errors import HostError, InvalidRequest
from bollard.host.limits import PLUGIN_BYTES, PLUGIN_ENTRIES, PLUGIN_RATIO_FREE_BYTES
from bollard.host.plugins.archive import unpack
from bollard.host.plugins.code_store import CodeStore

MIB = 1024 * 1024


def refusal(shelf: CodeStore, archive: bytes) -> str:
    """Why an archive is not taken; and nothing of it is left."""
    before = left_of(shelf)
    with pytest.raises(InvalidRequest) as caught:
        shelf.add_archive(io.BytesIO(archive))
    assert caught.value.hint
    assert left_of(shelf) == before
    return caught.value.message


def left_of(shelf: CodeStore) -> list[str]:
    folder: Path = shelf._folder
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def plugin(*more: Raw) -> list[Raw]:
    return [*(Raw(name.encode(), content) for name, content in files_of().items()), *more]


def test_a_valid_archive_is_stored_completely(shelf: CodeStore) -> None:
    files = {**files_of(), "data/words.txt": b"polly " * 10_000, "data/empty": b""}
    shelved = shelf.add_archive(io.BytesIO(zip_of(files)))
    assert shelved.described.plugin_id == "acme/parrot"
    found = {path.relative_to(shelved.path).as_posix(): path for path in shelved.path.rglob("*") if path.is_file()}
    assert {name: path.read_bytes() for name, path in found.items()} == files
    assert {stat.S_IMODE(path.stat().st_mode) for path in found.values()} == {0o444}
    assert shelf.find(shelved.digest) == shelved
    assert shelf.add_archive(io.BytesIO(raw_zip(plugin(), comment=b"made by hand"))).described.version == "1.0.0"


@pytest.mark.parametrize("prefix", ["", "parrot-main/"])
def test_the_only_folder_of_an_archive_is_the_plugin(shelf: CodeStore, prefix: str) -> None:
    again = shelf.add_archive(io.BytesIO(zip_of(files_of(), prefix)))
    assert again.digest == shelf.add_archive(io.BytesIO(zip_of(files_of()))).digest


def test_a_zip_bomb_is_stopped_while_it_unpacks(shelf: CodeStore) -> None:
    content = bytes(20 * MIB)
    packed = deflated(content)
    assert len(content) / len(packed) > 1000
    bomb = Raw(b"bomb", content, packed=packed, method=8)
    assert "more than 100 times its compressed size" in refusal(shelf, raw_zip(plugin(bomb)))


def test_a_zip_bomb_with_a_false_size_is_stopped_at_that_size(shelf: CodeStore, tmp_path: Path) -> None:
    content = bytes(64 * MIB)
    packed = deflated(content)
    into = tmp_path / "into"
    into.mkdir()
    lie = raw_zip([Raw(b"bomb", content, packed=packed, method=8, size=10)])
    with pytest.raises(InvalidRequest, match="larger than its declared size"):
        unpack(io.BytesIO(lie), into)
    assert (into / "bomb").stat().st_size <= PLUGIN_RATIO_FREE_BYTES
    larger = Raw(b"small", b"abc", packed=deflated(b"abc"), method=8, size=1000)
    assert "damaged" in refusal(shelf, raw_zip(plugin(larger)))


def test_files_too_large_together_are_refused_before_they_are_written(shelf: CodeStore) -> None:
    each = PLUGIN_BYTES // 10 + 1
    many = [Raw(f"f{number}".encode(), b"", packed=b"x" * 1000, method=8, size=each) for number in range(10)]
    assert "in total" in refusal(shelf, raw_zip(plugin(*many)))
    assert "is larger than" in refusal(shelf, raw_zip(plugin(Raw(b"f", b"", size=PLUGIN_BYTES + 1))))


def test_an_archive_within_an_archive_is_a_plain_file(shelf: CodeStore) -> None:
    inner = raw_zip([Raw(b"bomb", bytes(20 * MIB), packed=deflated(bytes(20 * MIB)), method=8)])
    shelved = shelf.add_archive(io.BytesIO(raw_zip(plugin(Raw(b"inner.zip", inner)))))
    assert (shelved.path / "inner.zip").read_bytes() == inner


def test_entries_that_share_their_bytes_are_refused(shelf: CodeStore) -> None:
    """The flat bomb: one packed kernel, and many entries of the table that all point at it."""
    kernel = Raw(b"kernel", b"", packed=deflated(bytes(MIB)), method=8, size=MIB)
    again = Raw(b"kernel", b"", packed=deflated(bytes(MIB)), method=8, size=MIB, at=0)
    other = Raw(b"other", b"", packed=deflated(bytes(MIB)), method=8, size=MIB, at=0)
    assert "two entries have the name" in refusal(shelf, raw_zip([kernel, again]))
    assert "differs from its local header" in refusal(shelf, raw_zip([kernel, other]))


def test_a_quine_of_headers_is_refused(shelf: CodeStore) -> None:
    """One file whose bytes claim to reach over the next one, as in a bomb without any nesting."""
    inner = Raw(b"b", b"y" * 100)
    header = 30 + len(inner.name)
    outer = Raw(b"a", b"", packed=b"x" * 10, size=10 + header + 100, packed_size=10 + header + 100, crc=0)
    message = refusal(shelf, raw_zip([outer, inner]))
    assert "overlap" in message


def test_a_million_entries_are_refused_by_their_count(shelf: CodeStore) -> None:
    assert f"{0xFFFF} entries" in refusal(shelf, raw_zip(plugin(), count=0xFFFF))
    many = [Raw(b"f%d" % number) for number in range(PLUGIN_ENTRIES + 1)]
    assert f"{PLUGIN_ENTRIES + 1} entries" in refusal(shelf, raw_zip(many))
    hidden = [Raw(b"f%d" % number) for number in range(20_000)]
    assert "does not hold the declared number" in refusal(shelf, raw_zip(hidden, count=3))
    assert refusal(shelf, raw_zip([Raw(b"f%d" % number) for number in range(70_000)]))


@pytest.mark.parametrize(
    "mode", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFDIR, 0xF000]
)
def test_links_and_devices_are_refused(shelf: CodeStore, mode: int) -> None:
    target = Raw(b"passwd", b"/etc/passwd", mode=mode | 0o777)
    wanted = "is a link" if mode == stat.S_IFLNK else "neither a file nor a folder"
    assert wanted in refusal(shelf, raw_zip(plugin(target)))


AWAY = [
    "../away",
    "a/../../away",
    "a/..",
    "/etc/cron.d/away",
    "//server/share",
    "C:/windows/away",
    "a\\..\\away",
    "..\\away",
    "a//b",
    "./a",
    "a/./b",
    "nul\0byte",
    "trailing.",
    "trailing ",
    "con",
    "aux.txt",
    "a/nul.py",
    "new\nline",
    "right\u202eleft.py",
    "zero\u200bwidth.py",
    "tag\U000e0041.py",
    "e\u0301.py",
    "x" * 300,
    "/".join(["deep"] * 40),
    "/".join(["d" * 100] * 6),
    "",
]


@pytest.mark.parametrize("name", AWAY)
def test_names_that_leave_the_folder_or_hide_are_refused(shelf: CodeStore, tmp_path: Path, name: str) -> None:
    outside = set(tmp_path.rglob("*"))
    assert refusal(shelf, raw_zip(plugin(Raw(name.encode("utf-8"), b"away"))))
    assert set(tmp_path.rglob("*")) == outside


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"words.txt", b"words.txt"),
        (b"words.txt", b"WORDS.txt"),
        ("straße".encode(), b"STRASSE"),
        ("ﬁle".encode(), b"file"),
        (b"a", b"a/b"),
        (b"A/x", b"a/y"),
        (b"a/", b"A/b"),
    ],
)
def test_names_that_collide_on_some_systems_are_refused(shelf: CodeStore, one: bytes, other: bytes) -> None:
    entries = [Raw(one, mode=stat.S_IFDIR if one.endswith(b"/") else stat.S_IFREG), Raw(other)]
    message = refusal(shelf, raw_zip(plugin(*entries)))
    assert "case is ignored" in message or "differ in case" in message or "both a file and a folder" in message


@pytest.mark.parametrize(
    ("archive", "why"),
    [
        (b"", "not a zip"),
        (b"PK\x05\x06", "not a zip"),
        (b"\x1f\x8b" + os.urandom(100), "not a zip"),
        (raw_zip(plugin(), disk=1), "one part of a split archive"),
        (raw_zip(plugin(), table_shift=-1), "not at the declared offset"),
        (raw_zip(plugin(), before=b"#!/bin/sh\n" * 3, table_shift=-30), "not at the declared offset"),
        (raw_zip(plugin(Raw(b"e", b"x", flags=0x801))), "encrypted"),
        (raw_zip(plugin(Raw(b"e", b"x", flags=0x840))), "encrypted"),
        (raw_zip(plugin(Raw(b"l", b"x", method=14))), "unsupported compression"),
        (raw_zip(plugin(Raw(b"z", b"x", size=0xFFFFFFFF))), "is larger than"),
        (raw_zip(plugin(Raw(b"n\xff", b"x"))), "not UTF-8"),
        (raw_zip(plugin(Raw("é".encode(), b"x", flags=0))), "not UTF-8"),
        (raw_zip(plugin(Raw(b"one", b"x", local_name=b"two"))), "differs from its local header"),
        (raw_zip(plugin(Raw(b"c", b"x", crc=1))), "damaged"),
        (raw_zip(plugin(Raw(b"d", b"xyz", packed=b"\xff\xff\xff", method=8))), "damaged"),
        (raw_zip(plugin(Raw(b"d", b"xyz", packed=deflated(b"xyz")[:-2], method=8))), "damaged"),
        (raw_zip(plugin(Raw(b"d", b"xyz", packed=deflated(b"xyz") + b"more", method=8))), "bytes follow the end"),
        (raw_zip(plugin(Raw(b"f/", b"content", mode=stat.S_IFDIR))), "has content"),
        (raw_zip(plugin(Raw(b"o", b"x", packed_size=10**6))), "outside"),
        (raw_zip(plugin(Raw(b"o", b"x", at=10**6))), "not at the declared offset"),
        (raw_zip([Raw(b"__pycache__/a.pyc", b"x")]), "it has no files"),
        (raw_zip([Raw(b"readme.txt", b"x")]), "no plugin at its top"),
    ],
)
def test_archives_with_false_metadata_are_refused_with_the_reason(shelf: CodeStore, archive: bytes, why: str) -> None:
    assert why in refusal(shelf, archive)


def test_caches_and_hidden_files_are_not_stored(shelf: CodeStore) -> None:
    plain = shelf.add_archive(io.BytesIO(zip_of(files_of())))
    left = {"__pycache__/runner.pyc": b"x", ".git/HEAD": b"x", "sub/.env": b"KEY=1", "node_modules/a.js": b"x"}
    assert shelf.add_archive(io.BytesIO(zip_of({**files_of(), **left}))).digest == plain.digest


def test_a_full_disk_leaves_no_partial_archive(shelf: CodeStore, monkeypatch: Any) -> None:
    def full(place: Path) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bollard.host.plugins.archive.write_new", full)
    with pytest.raises(HostError) as caught:
        shelf.add_archive(io.BytesIO(zip_of(files_of())))
    assert caught.value.code == "storage_full"
    assert left_of(shelf) == [".incoming"]


@given(seed=st.integers(0, 2**32), flips=st.integers(1, 8))
def test_a_damaged_archive_is_stored_completely_or_refused(seed: int, flips: int, tmp_path_factory: Any) -> None:
    dice = random.Random(seed)
    content = bytes(dice.randrange(256) for _ in range(200)) * 3
    archive = bytearray(raw_zip(plugin(Raw(b"data", content, packed=deflated(content), method=8))))
    for _ in range(flips):
        archive[dice.randrange(len(archive))] ^= 1 << dice.randrange(8)
    into = tmp_path_factory.mktemp("into")
    try:
        unpack(io.BytesIO(bytes(archive)), into)
    except HostError:
        return
    for path in into.rglob("*"):
        assert path.resolve().is_relative_to(into.resolve())
        assert path.is_file() or path.is_dir()
