"""Plugins as folders, archives good and bad, and shelves to put them on."""

import io
import stat
import struct
import textwrap
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bollard.host.plugins.code_store import CodeStore

MANIFEST = """
apiVersion: bollard/v1
kind: Plugin
metadata: {{author: {author}, name: {name}, version: {version}, label: {{en_US: Parrot}}}}
spec:
  env: {env}
  sandbox: {sandbox}
  runners:
    - {{name: default, label: {{en_US: Parrot}}, permissions: {permissions}, entry: "runner:parrot"}}
"""
RUNNER = """
from bollard.sdk import RunContext, runner


@runner(label="Parrot")
async def parrot(ctx: RunContext):
    yield ctx.delta("{says} " + (ctx.input.text or ""))
"""


def files_of(
    author: str = "acme",
    name: str = "parrot",
    version: str = "1.0.0",
    *,
    permissions: str = "{}",
    env: str = "[]",
    sandbox: str = "{}",
    says: str = "hello",
) -> dict[str, bytes]:
    """The files of a small plugin."""
    manifest = MANIFEST.format(
        author=author, name=name, version=version, permissions=permissions, env=env, sandbox=sandbox
    )
    return {"manifest.yaml": manifest.encode(), "runner.py": RUNNER.replace("{says}", says).encode()}


def zip_of(files: Mapping[str, bytes], prefix: str = "") -> bytes:
    """An honest archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(prefix + name, content)
    return out.getvalue()


@dataclass
class Raw:
    """One entry of an archive that need not be honest: every field can be falsified."""

    name: bytes
    content: bytes = b""
    packed: bytes | None = None
    method: int = 0
    flags: int = 0x800
    size: int | None = None
    crc: int | None = None
    mode: int = stat.S_IFREG | 0o644
    at: int | None = None
    """Where the table says that it is."""
    local_name: bytes | None = None
    packed_size: int | None = None


def raw_zip(
    entries: list[Raw],
    *,
    count: int | None = None,
    comment: bytes = b"",
    before: bytes = b"",
    table_shift: int = 0,
    disk: int = 0,
) -> bytes:
    """An archive, byte by byte."""
    out = bytearray(before)
    table = bytearray()
    for entry in entries:
        packed = entry.content if entry.packed is None else entry.packed
        size = len(entry.content) if entry.size is None else entry.size
        crc = zlib.crc32(entry.content) if entry.crc is None else entry.crc
        at = len(out) if entry.at is None else entry.at
        held = len(packed) if entry.packed_size is None else entry.packed_size
        local = entry.name if entry.local_name is None else entry.local_name
        if entry.at is None:
            out += struct.pack(
                "<4s5H3L2H", b"PK\x03\x04", 20, entry.flags, entry.method, 0, 0, crc, held, size, len(local), 0
            )
            out += local + packed
        table += struct.pack(
            "<4s6H3L5H2L",
            b"PK\x01\x02",
            (3 << 8) | 20,
            20,
            entry.flags,
            entry.method,
            0,
            0,
            crc,
            held,
            size,
            len(entry.name),
            0,
            0,
            0,
            0,
            entry.mode << 16,
            at,
        )
        table += entry.name
    number = len(entries) if count is None else count
    end = struct.pack(
        "<4s4H2LH",
        b"PK\x05\x06",
        disk,
        disk,
        number & 0xFFFF,
        number & 0xFFFF,
        len(table),
        len(out) + table_shift,
        len(comment),
    )
    return bytes(out + table + end + comment)


def deflated(content: bytes, level: int = 9) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(content) + packer.flush()


@pytest.fixture
def shelf(tmp_path: Path) -> CodeStore:
    made = CodeStore(tmp_path / "plugins")
    made.open()
    return made


@pytest.fixture
def write_folder(tmp_path: Path) -> Callable[..., Path]:
    """A plugin's folder on disk."""

    def write(name: str = "parrot", files: Mapping[str, bytes] | None = None, **more: Any) -> Path:
        folder = tmp_path / "sources" / name
        for file, content in (files or files_of(name=name, **more)).items():
            path = folder / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return folder

    return write


@pytest.fixture
def write_file(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, code: str) -> Path:
        path = tmp_path / name
        path.write_text(textwrap.dedent(code), encoding="utf-8")
        return path

    return write
