"""Blobs: content-addressed, resumable, bounded, and never outside their folder."""

import errno
import hashlib
import os
import resource
import subprocess
import sys
import threading
import time
import tracemalloc

import pytest
from tests.doubles.manual_clock import ManualClock
from tests.tables import for_each

from bollard.host.errors import Conflict, InvalidRequest, NotFound, StorageFull, StorageUnavailable
from bollard.host.store.artifact_terms import MimeTypes
from bollard.host.store.blobs import BlobStore, disk_errors

DAY_S = 24 * 3600.0
PATHS = [
    "",
    ".",
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "a" * 63,
    "a" * 65,
    "A" * 64,
    "../" + "a" * 61,
    "a" * 62 + "\0x",
    "a" * 63 + "\n",
    "%2e%2e%2f" + "a" * 55,
    "aa/" + "a" * 61,
    "CON",
    "aux.txt",
    "a" * 63 + ".",
    "a" * 63 + " ",
    "ａ" * 64,
    "~root",
    "a" * 5000,
]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def root(tmp_path):
    return tmp_path / "blobs"


@pytest.fixture
def blobs(root) -> BlobStore:
    return BlobStore(root)


def files(root) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_content_is_read_by_its_digest(blobs):
    sha256 = blobs.put(b"hello")
    assert sha256 == digest(b"hello")
    assert (blobs.size(sha256), blobs.read(sha256)) == (5, b"hello")


def test_identical_content_is_stored_once(blobs, root):
    assert blobs.put(b"same") == blobs.put(b"same")
    blobs.put(b"other")
    assert sorted(files(root).values()) == [b"other", b"same"]


def test_a_range_reads_only_its_bytes(blobs):
    sha256 = blobs.put(bytes(range(100)))
    assert blobs.read(sha256, 10, 5) == bytes(range(10, 15))
    assert blobs.read(sha256, 98, 50) == bytes([98, 99])
    assert blobs.read(sha256, 100, 1) == blobs.read(sha256, 10_000, 1) == b""
    for offset, length in ((-1, 5), (0, 0), (0, -1)):
        with pytest.raises(InvalidRequest):
            blobs.read(sha256, offset, length)


def test_a_large_blob_is_never_completely_in_memory(blobs):
    upload, piece, total = blobs.begin(), b"\xab" * (1 << 20), 48 << 20
    tracemalloc.start()
    for offset in range(0, total, len(piece)):
        blobs.append(upload, offset, piece)
    whole = hashlib.sha256()
    for _ in range(total // len(piece)):
        whole.update(piece)
    sha256 = blobs.finish(upload, whole.hexdigest())
    received = sum(len(part) for part in blobs.stream(sha256))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert received == total
    assert peak < 8 << 20
    assert len(blobs.read(sha256, 0, total)) <= 1 << 20


def test_an_upload_continues_at_its_offset_even_in_another_process(blobs, root):
    upload = blobs.begin()
    assert blobs.append(upload, 0, b"one ") == 4
    again = BlobStore(root)
    assert again.received(upload) == 4
    assert again.append(upload, 4, b"two") == 7
    assert again.read(again.finish(upload, digest(b"one two"))) == b"one two"


def test_repeated_bytes_change_nothing_and_may_extend_the_upload(blobs):
    upload = blobs.begin()
    blobs.append(upload, 0, b"abcdef")
    assert blobs.append(upload, 0, b"abcdef") == 6
    assert blobs.append(upload, 2, b"cd") == 6
    assert blobs.append(upload, 3, b"defgh") == 8
    assert blobs.read(blobs.finish(upload, digest(b"abcdefgh"))) == b"abcdefgh"


def test_a_gap_or_other_bytes_are_refused_and_change_nothing(blobs):
    upload = blobs.begin()
    blobs.append(upload, 0, b"abc")
    with pytest.raises(Conflict, match="missing") as caught:
        blobs.append(upload, 5, b"x")
    assert caught.value.details["expected"] == 3
    for offset, content in ((0, b"abX"), (2, b"Xyz"), (1, b"XX")):
        with pytest.raises(Conflict, match="other bytes"):
            blobs.append(upload, offset, content)
    with pytest.raises(InvalidRequest):
        blobs.append(upload, -1, b"a")
    assert blobs.received(upload) == 3


def test_a_wrong_digest_is_refused_and_the_upload_stays(blobs):
    upload = blobs.begin()
    blobs.append(upload, 0, b"abc")
    with pytest.raises(Conflict, match="the digest of the content"):
        blobs.finish(upload, digest(b"abd"))
    with pytest.raises(NotFound):
        blobs.size(digest(b"abc"))
    assert blobs.finish(upload, digest(b"abc")) == digest(b"abc")


def test_an_upload_finishes_once(blobs):
    upload = blobs.begin()
    blobs.finish(upload, digest(b""))
    for use in (blobs.received, blobs.abandon, lambda name: blobs.append(name, 0, b"x")):
        with pytest.raises(NotFound):
            use(upload)
    with pytest.raises(NotFound):
        blobs.finish(upload, digest(b""))


def test_an_abandoned_upload_leaves_no_file(blobs, root):
    upload = blobs.begin()
    blobs.append(upload, 0, b"abc")
    blobs.abandon(upload)
    assert files(root) == {}


def test_content_above_the_limit_is_refused_at_its_first_excess_byte(root):
    blobs = BlobStore(root, max_bytes=10)
    upload = blobs.begin()
    blobs.append(upload, 0, b"x" * 10)
    with pytest.raises(InvalidRequest) as caught:
        blobs.append(upload, 10, b"x")
    assert caught.value.details["limit"] == 10
    with pytest.raises(InvalidRequest):
        blobs.put(b"x" * 11)
    assert blobs.received(upload) == 10


@pytest.mark.parametrize("name", PATHS)
def test_no_name_leaves_the_folder(blobs, root, tmp_path, name):
    blobs.put(b"inside")
    before = files(tmp_path)
    for use in (blobs.size, blobs.read, blobs.received, blobs.abandon, lambda name: list(blobs.stream(name))):
        with pytest.raises(NotFound):
            use(name)
    with pytest.raises(NotFound):
        blobs.append(name, 0, b"x")
    upload = blobs.begin()
    with pytest.raises(NotFound):
        blobs.finish(upload, name)
    blobs.abandon(upload)
    assert files(tmp_path) == before


def test_links_are_never_followed(blobs, root, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    sha256 = blobs.put(b"content")
    blob = root / "sha256" / sha256[:2] / sha256
    blob.unlink()
    blob.symlink_to(secret)
    with pytest.raises(StorageUnavailable):
        blobs.read(sha256)
    upload = root / "uploads" / ("f" * 32)
    upload.symlink_to(secret)
    with pytest.raises(StorageUnavailable):
        blobs.append("f" * 32, 6, b"!")
    assert blobs.put(b"content") == sha256
    assert blobs.read(sha256) == b"content"
    assert secret.read_bytes() == b"secret"


def test_a_linked_folder_is_refused(blobs, root, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root.mkdir()
    (root / "uploads").symlink_to(elsewhere)
    with pytest.raises(StorageUnavailable):
        blobs.put(b"content")
    assert list(elsewhere.iterdir()) == []


def test_a_sweep_removes_old_unreferenced_content(root):
    clock = ManualClock(now_ms=time.time_ns() // 1_000_000)
    blobs = BlobStore(root, clock=clock)
    wanted, unwanted = blobs.put(b"wanted"), blobs.put(b"unwanted")
    upload = blobs.begin()
    assert blobs.sweep([wanted]) == 0
    clock.advance(2 * 3600.0)
    assert blobs.sweep(iter([wanted])) == 1
    assert blobs.received(upload) == 0
    clock.advance(DAY_S)
    assert blobs.sweep([wanted]) == 1
    assert blobs.read(wanted) == b"wanted"
    for gone in (lambda: blobs.read(unwanted), lambda: blobs.received(upload)):
        with pytest.raises(NotFound):
            gone()


def test_a_sweep_spares_content_just_stored_again(root):
    clock = ManualClock(now_ms=time.time_ns() // 1_000_000)
    blobs = BlobStore(root, clock=clock)
    sha256 = blobs.put(b"again")
    path = root / "sha256" / sha256[:2] / sha256
    os.utime(path, (1, 1))
    blobs.put(b"again")
    assert blobs.sweep([]) == 0
    os.utime(path, (1, 1))
    assert blobs.sweep([]) == 1


def test_a_sweep_spares_an_upload_just_finished_long_after_its_last_piece(root):
    clock = ManualClock(now_ms=time.time_ns() // 1_000_000)
    blobs = BlobStore(root, clock=clock)
    upload = blobs.begin()
    blobs.append(upload, 0, b"slow")
    hours_ago = time.time() - 2 * 3600
    os.utime(root / "uploads" / upload, (hours_ago, hours_ago))
    sha256 = blobs.finish(upload, digest(b"slow"))
    assert blobs.sweep([]) == 0, "its artifact is about to be written"
    assert blobs.read(sha256) == b"slow"


def test_a_sweep_leaves_foreign_files(root):
    clock = ManualClock(now_ms=time.time_ns() // 1_000_000)
    blobs = BlobStore(root, clock=clock)
    blobs.put(b"x")
    strangers = [root / "sha256" / "README", root / "sha256" / "zz", root / "uploads" / "notes.txt"]
    for stranger in strangers:
        stranger.write_text("mine")
    clock.advance(30 * DAY_S)
    assert blobs.sweep([]) == 1
    assert all(stranger.read_text() == "mine" for stranger in strangers)


def test_many_threads_that_store_the_same_content_agree(blobs, root):
    content, found = os.urandom(100_000), []
    threads = [threading.Thread(target=lambda: found.append(blobs.put(content))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [digest(content)] * 8
    assert list(files(root).values()) == [content]


def test_of_many_concurrent_finishes_of_an_upload_one_succeeds(blobs):
    content, outcomes = os.urandom(50_000), []
    upload = blobs.begin()
    blobs.append(upload, 0, content)

    def work(index):
        try:
            if index % 2:
                outcomes.append(blobs.finish(upload, digest(content)))
            else:
                blobs.append(upload, 0, content + b"more")
        except (NotFound, Conflict):
            outcomes.append(None)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(1, 8, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count(digest(content)) == 1
    assert b"".join(blobs.stream(digest(content))) == content


def test_a_full_disk_is_reported_as_full():
    for number in (errno.ENOSPC, errno.EDQUOT):
        with pytest.raises(StorageFull) as caught, disk_errors():
            raise OSError(number, os.strerror(number))
        assert caught.value.retryable


def test_a_file_size_limit_is_reported_as_full_and_leaves_no_blob(root):
    """A real refused write: the process may not write files beyond a size."""
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from bollard.host.errors import StorageFull; from bollard.host.store.blobs import BlobStore\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))\n"
        "blobs = BlobStore(Path(sys.argv[1]))\n"
        "try: blobs.put(b'x' * 200_000)\n"
        "except StorageFull as error: print(error.code)\n"
    )
    result = subprocess.run([sys.executable, "-c", program, str(root)], capture_output=True, text=True, check=True)
    assert result.stdout == "storage_full\n"
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 65536
    assert not list((root).glob("sha256/*/*"))


@for_each(
    ("mime_type", "taken"),
    [
        ("image/png", True),
        ("IMAGE/PNG; charset=x", True),
        ("image/svg+xml", False),
        ("text/plain", True),
        ("text/html", False),
        ("application/zip", False),
        ("image", False),
        ("", False),
        ("*/*", False),
        ("image/*", False),
        ("image/png/x", False),
        ("image/\npng", False),
    ],
)
def test_only_listed_media_types_are_accepted(mime_type, taken):
    kinds = MimeTypes(allow=frozenset({"image/*", "text/plain"}), deny=frozenset({"image/svg+xml"}))
    assert kinds.admits(mime_type) is taken


def test_an_empty_list_of_media_types_accepts_nothing():
    assert not MimeTypes(allow=frozenset()).admits("text/plain")
    assert not MimeTypes(allow=frozenset({"*/*"}), deny=frozenset({"*/*"})).admits("text/plain")
