"""F36 for archives of ours: bombs, lies, overlaps, links and foreign members stop at the door."""

import hashlib
import json
import struct
import zipfile
import zlib

import pytest

from bollard.host.archive.manifest import Column, Manifest, Table
from bollard.host.archive.reader import FORMAT, UNSIGNED_FORMAT, ArchiveReader
from bollard.host.archive.writer import ArchiveWriter
from bollard.host.errors import BadArchive, NotFound
from bollard.host.limits import ARCHIVE_DIRECTORY_BYTES
from bollard.trust.keys import SigningKey

LINES = [b"[1]", b"[2]", b"[3]"]
TABLE = {"name": "notes", "columns": [["id", "integer"]]}


def manifest_of(writer, **more):
    fields = {"kind": "backup", "format": FORMAT, "version": "0", "created_ms": 0, "revision": "0001", "tables": ()}
    return Manifest(**{**fields, "members": writer.members, "blobs": writer.blobs, **more})


def plain(members, blobs=(), **more):
    """A manifest that any author can write."""
    noted = {
        name: {"size": len(body), "sha256": hashlib.sha256(body).hexdigest(), "lines": body.count(b"\n")}
        for name, body in members.items()
    }
    fields = {"kind": "backup", "format": UNSIGNED_FORMAT, "version": "0", "created_ms": 0, "revision": "0001"}
    return json.dumps({**fields, "tables": [TABLE], "members": noted, "blobs": len(blobs), **more}).encode()


@pytest.fixture
def rows():
    return {"tables/notes.jsonl": b"\n".join(LINES) + b"\n"}


@pytest.fixture
def zipped(tmp_path):
    def write(members, name="hostile.zip"):
        path = tmp_path / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for entry, body in members.items():
                archive.writestr(entry, body)
        return path

    return write


def read(path, **options):
    with ArchiveReader(path, "backup", **options) as reader:
        found = [line for table in reader.manifest.tables for line in reader.lines(table.member)]
        return found, [b"".join(reader.blob(sha256)) for sha256 in reader.blobs]


def test_a_written_archive_is_read_back(tmp_path):
    content = b"content" * 1000
    digest = hashlib.sha256(content).hexdigest()
    path = tmp_path / "whole.zip"
    with ArchiveWriter(path) as writer:
        with writer.member("tables/notes.jsonl") as member:
            for line in LINES:
                member.line(line)
        writer.blob(digest, [content[:10], content[10:]])
        table = Table(name="notes", columns=(Column("id", "integer"),))
        writer.finish(manifest_of(writer, tables=(table,)), SigningKey(bytes(32)))
        assert not path.exists()
        writer.name()
    assert read(path) == (LINES, [content])
    assert sorted(file.name for file in tmp_path.iterdir()) == ["whole.zip"]


def test_a_valid_archive_of_another_writer_is_read(zipped, rows):
    assert read(zipped({**rows, "manifest.json": plain(rows)}))[0] == LINES


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("../tables/notes.jsonl", "an unexpected member"),
        ("/etc/passwd", "an unexpected member"),
        ("tables/../../x", "an unexpected member"),
        ("tables/sub/notes.jsonl", "an unexpected member"),
        ("tables\\notes.jsonl", "an unexpected member"),
        ("blobs/short", "an unexpected member"),
        ("tables/", "an unexpected member"),
        ("tables/new\n", "an unexpected member"),
        ("tables/extra.jsonl", "differ from the manifest"),
    ],
)
def test_an_unexpected_member_is_refused(zipped, rows, name, problem):
    with pytest.raises(BadArchive, match=problem):
        read(zipped({**rows, name: b"x", "manifest.json": plain(rows)}))


def test_a_missing_or_duplicate_member_is_refused(zipped, rows, tmp_path):
    with pytest.raises(BadArchive, match="differ from the manifest"):
        read(zipped({"manifest.json": plain(rows)}))
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", plain(rows))
        archive.writestr("tables/notes.jsonl", rows["tables/notes.jsonl"])
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("tables/notes.jsonl", b"[4]\n")
    with pytest.raises(BadArchive, match="an unexpected member"):
        read(path)


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        (b"", "no manifest"),
        (b"{}", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b'{"kind": "backup", "kind": 1}', "cannot be read"),
    ],
)
def test_an_invalid_manifest_is_refused(zipped, rows, manifest, problem):
    with pytest.raises(BadArchive, match=problem):
        read(zipped({**rows, "manifest.json": manifest}))


def test_an_archive_of_another_kind_or_format_is_refused_with_a_hint(zipped, rows):
    with pytest.raises(BadArchive, match="archive of a workspace") as caught:
        read(zipped({**rows, "manifest.json": plain(rows, kind="workspace")}))
    assert "bollard import" in caught.value.hint
    with pytest.raises(BadArchive, match="format 3"):
        read(zipped({**rows, "manifest.json": plain(rows, format=3)}))


def test_content_that_differs_from_the_manifest_is_refused(zipped, rows):
    lies = plain({"tables/notes.jsonl": b"[1]\n[2]\n[4]\n"})
    with pytest.raises(BadArchive, match="was changed"):
        read(zipped({**rows, "manifest.json": lies}))
    longer = plain({"tables/notes.jsonl": b"[1]\n"})
    with pytest.raises(BadArchive, match="was changed"):
        read(zipped({**rows, "manifest.json": longer}))
    unended = {"tables/notes.jsonl": b"[1]\n[2]"}
    with pytest.raises(BadArchive, match="differs from the manifest"):
        read(zipped({**unended, "manifest.json": plain(unended)}))


def test_a_zip_bomb_stops_at_the_size_limit_and_at_its_declared_size(zipped, rows, tmp_path):
    bomb = {"tables/notes.jsonl": b"0" * (8 << 20)}
    path = zipped({**bomb, "manifest.json": plain(bomb)})
    assert path.stat().st_size < 20_000
    with pytest.raises(BadArchive, match="holds more than"):
        read(path, max_bytes=1 << 20)
    # A false size in the list of members, too: only the declared bytes are taken.
    data = bytearray(path.read_bytes())
    at = data.rfind(b"PK\1\2", 0, data.rfind(b"PK\1\2"))
    struct.pack_into("<L", data, at + 24, 100)
    path.write_bytes(data)
    with pytest.raises(BadArchive):
        read(path, max_bytes=1 << 20)


def test_members_that_share_their_bytes_are_refused(rows, tmp_path):
    path = tmp_path / "overlap.zip"
    kernel = zlib.compressobj(9, zlib.DEFLATED, -15)
    body = kernel.compress(b"0" * 100_000) + kernel.flush()
    names = [f"blobs/{number:064x}" for number in range(20)]
    with path.open("wb") as file:
        header = struct.pack(
            "<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 33, zlib.crc32(b"0" * 100_000), len(body), 100_000, 70, 0
        )
        file.write(header + names[0].encode() + body)
        start = file.tell()
        for name in names:
            file.write(
                struct.pack(
                    "<4s6H3L5H2L",
                    *(b"PK\1\2", 20, 20, 0, 8, 0, 33, zlib.crc32(b"0" * 100_000), len(body), 100_000),
                    *(70, 0, 0, 0, 0, 0, 0),
                )
                + name.encode()
            )
        size = file.tell() - start
        file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(names), len(names), size, start, 0))
    with pytest.raises(BadArchive, match="shares its bytes"):
        read(path)


def test_a_file_of_another_format_is_refused(tmp_path):
    path = tmp_path / "x.zip"
    for content in (b"", b"hello", b"PK\5\6", b"PK\5\6" + b"\xff" * 18, b"PK\3\4" * 1000):
        path.write_bytes(content)
        with pytest.raises(BadArchive) as caught:
            read(path)
        assert caught.value.hint
    with pytest.raises(NotFound):
        read(tmp_path / "absent.zip")
    with pytest.raises(BadArchive, match="cannot be read"):
        read(tmp_path)


def test_data_after_the_end_of_the_archive_is_refused(zipped, rows):
    path = zipped({**rows, "manifest.json": plain(rows)})
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(BadArchive, match="follows its end"):
        read(path)


@pytest.mark.parametrize(
    "table",
    [
        {"name": "notes", "columns": [["id) SELECT 1 --", "integer"]]},
        {"name": "notes", "columns": [["", "integer"]]},
        {"name": "notes", "columns": [["id", "integer"], ["id", "integer"]]},
        {"name": "notes", "columns": [["ID", "integer"]]},
    ],
    ids=["a statement", "empty", "twice", "another case"],
)
def test_a_table_name_with_sql_is_refused(zipped, rows, table):
    with pytest.raises(BadArchive, match="has an invalid table"):
        read(zipped({**rows, "manifest.json": plain(rows, tables=[table])}))


def test_the_zip64_end_record_is_checked_too(zipped, rows):
    """Python's reader believes the record before the end whenever there is one."""
    path = zipped({**rows, "manifest.json": plain(rows)})
    content = path.read_bytes()
    at = content.rfind(b"PK\5\6")
    start = struct.unpack_from("<L", content, at + 16)[0]
    large = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 2, 2, ARCHIVE_DIRECTORY_BYTES + 1, start)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, at, 1)
    path.write_bytes(content[:at] + large + locator + content[at:])
    with pytest.raises(BadArchive, match="too long"):
        read(path)
    path.write_bytes(content[:at] + large + struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1) + content[at:])
    with pytest.raises(BadArchive, match="its end is broken"):
        read(path)
