"""F34: names that try to leave a folder, times every call that takes a path; with the kernel's walk and by hand."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bollard.confine.errors import ConfineError, OverLimit, PathNotFound, PathRefused, WrongFileKind
from bollard.confine.folder import Folder, remove_tree
from bollard.confine.limits import DEPTH, FILE_BYTES
from bollard.confine.paths import Wildcard, split_path

LEAVING = [
    "",
    "..",
    "../outside/secret.txt",
    "../inside-sibling/secret.txt",
    "folder/../../outside/secret.txt",
    "folder/../file.txt",
    "./file.txt",
    "folder//file.txt",
    "/etc/passwd",
    "//etc/passwd",
    "~root/../x/",
    "file.txt\0.png",
    "\0",
    "%2e%2e/outside/secret.txt",
    "..%2foutside%2fsecret.txt",
    "%2E%2E%2Foutside",
    "..%5coutside",
    "..\\outside\\secret.txt",
    "folder\\file.txt",
    "C:\\windows",
    "\\\\server\\share",
    "file.txt.",
    "file.txt ",
    "file.txt. .",
    "folder./file.txt",
    "folder /file.txt",
    "...",
    ". .",
    ".. /outside/secret.txt",
    "a\nb",
    "a\rb",
    "a\x7fb",
    "a\x1bb",
    "\ud800",
    "x" * 256,
    "ü" * 128,
    "a/" * 600 + "b",
    "/".join("d" * 200 for _ in range(6)),
    "/".join("d" for _ in range(DEPTH + 1)),
    "link",
    "link-to-folder/secret.txt",
    "link-to-above/outside/secret.txt",
    "absolute-link",
    "link-in-folder/secret.txt",
    "dangling",
    "round-and-round",
    "round-and-round/x",
    "proc-link/root/etc/passwd",
]
"""Every one of them is refused, and with the same words. Names are judged as text; links by the kernel."""


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    inside, outside, sibling = (tmp_path / name for name in ("inside", "outside", "inside-sibling"))
    for made in (inside, inside / "folder", outside, sibling):
        made.mkdir()
    for secret in (outside / "secret.txt", sibling / "secret.txt"):
        secret.write_text("canary")
    (inside / "file.txt").write_text("mine")
    (inside / "folder" / "file.txt").write_text("mine")
    for name, target in {
        "link": outside / "secret.txt",
        "link-to-folder": outside,
        "link-to-above": "..",
        "absolute-link": "/etc/passwd",
        "folder/up": "../../outside",
        "link-in-folder": "folder/up",
        "dangling": outside / "new",
        "round-and-round": "round-and-round",
        "proc-link": "/proc/self",
    }.items():
        (inside / name).symlink_to(target)
    before = picture(tmp_path)
    yield inside
    assert picture(tmp_path) == before, "something outside was made, changed or removed"


def picture(root: Path) -> dict[str, object]:
    """Everything outside the folder, and everything inside it."""
    return {
        str(path): (path.lstat().st_mode, path.read_text() if path.is_file() else "")
        for path in sorted(root.rglob("*"))
        if "inside/" not in f"{path}/"
    }


CALLS: dict[str, Callable[[Folder, str], object]] = {
    "read": lambda folder, path: folder.read(path),
    "write": lambda folder, path: folder.write(path, b"written"),
    "remove": lambda folder, path: folder.remove(path),
    "entries": lambda folder, path: folder.entries(path),
    "walk": lambda folder, path: list(folder.walk(path)),
}


@pytest.mark.parametrize("call", CALLS)
def test_no_name_leaves_the_folder_and_all_refusals_are_alike(place: Path, call: str):
    sentences = set()
    with Folder(place) as folder:
        for path in LEAVING:
            with pytest.raises(PathRefused) as refused:
                CALLS[call](folder, path)
            sentences.add((refused.value.message, refused.value.hint))
    assert len(sentences) == 1


def test_a_kernel_without_openat2_gives_the_same_answers(place: Path):
    """The same corpus in a process for which `openat2` does not exist."""
    code = f"""
import errno, json, sys
from pathlib import Path
from bollard.confine.errors import ConfineError
from bollard.confine.folder import Folder
from bollard.confine.kernel import openat2
from bollard.confine.seccomp import build_filter, install
install(build_filter({{"openat2": errno.ENOSYS}}))
try:
    openat2(0, b".", 0)
except OSError as error:
    assert error.errno == errno.ENOSYS
calls = dict(read=Folder.read, write=lambda folder, path: folder.write(path, b"x"), entries=Folder.entries,
    remove=Folder.remove, walk=lambda folder, path: list(folder.walk(path)))
found = []
with Folder(Path({str(place)!r})) as folder:
    for path in json.loads(sys.stdin.read()):
        for name, call in calls.items():
            try:
                call(folder, path)
                found.append([name, path, "reached"])
            except ConfineError as error:
                if type(error).__name__ != "PathRefused":
                    found.append([name, path, type(error).__name__])
    assert folder.read("folder/file.txt") == b"mine"
    assert [entry.path for entry in folder.entries("folder")] == ["folder/file.txt", "folder/up"]
print(json.dumps(found))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(LEAVING),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_only_regular_files_are_opened(place: Path):
    """A pipe would block, a device would never end, a socket belongs to another program."""
    os.mkfifo(place / "pipe")
    special = ["pipe", "folder"]
    if os.geteuid() == 0:  # only root can create one
        os.mknod(place / "device", stat.S_IFCHR | 0o600, os.makedev(1, 5))
        special.append("device")
    with Folder(place) as folder:
        for name in special:
            with pytest.raises(WrongFileKind):
                folder.read(name)
            with pytest.raises((WrongFileKind, PathRefused)):
                folder.write(name, b"x")
        for name in ("file.txt/", "file.txt/x"):
            with pytest.raises(ConfineError):
                folder.write(name, b"x")
        with pytest.raises(WrongFileKind):
            folder.remove("folder")  # it is not empty
    assert stat.S_ISFIFO((place / "pipe").lstat().st_mode)


def test_names_are_case_sensitive_and_may_use_any_script(place: Path):
    with Folder(place) as folder:
        with pytest.raises(PathNotFound):
            folder.read("FILE.TXT")
        for name in ("文件.txt", "naïve", "-rf", "~", "$HOME", "a b", ".hidden", "con", "x" * 255, "%41", "'; rm"):
            assert folder.write(name, name.encode()) is True
            assert folder.read(name) == name.encode()
        assert folder.read("file.txt") == b"mine"


def test_a_write_is_atomic_and_creates_its_folders(place: Path):
    with Folder(place) as folder:
        assert folder.write("new/deep/file.txt", b"one") is True
        assert folder.write("new/deep/file.txt", b"two") is False
        with pytest.raises(OverLimit):
            folder.write("new/deep/file.txt", b"x" * (FILE_BYTES + 1))
        assert folder.read("new/deep/file.txt") == b"two"
        assert [entry.path for entry in folder.walk("new")] == ["new/deep", "new/deep/file.txt"]
        with pytest.raises(OverLimit):
            folder.read("new/deep/file.txt", limit=2)
        folder.remove("new/deep/file.txt")
        folder.remove("new/deep")
        with pytest.raises(PathNotFound):
            folder.read("new/deep/file.txt")
    assert os.listdir(place / "new") == []


def test_the_usage_of_a_folder_is_counted_and_an_uncountable_one_is_over_the_limit(tmp_path: Path):
    with Folder(tmp_path) as folder:
        folder.write("a/b.txt", b"x" * 10_000)
        used = folder.usage()
        assert (used.files, used.over) == (2, False)
        assert 10_000 <= used.bytes < 100_000
        deep = tmp_path
        for _ in range(DEPTH + 2):
            deep = deep / "d"
            deep.mkdir()
        assert folder.usage().over
        assert len(list(folder.walk(limit=5))) == 5
    remove_tree(tmp_path / "d")
    long = tmp_path
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(20):  # longer than any path may be, and not deep
        os.mkdir("n" * 255, dir_fd=here)
        following = os.open("n" * 255, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = following
    os.close(here)
    with Folder(long) as folder:
        assert folder.usage().over


def test_a_tree_of_any_depth_and_mode_is_removed_and_links_are_not_followed(tmp_path: Path, place: Path):
    root = tmp_path / "inside" / "tree"
    root.mkdir()
    here = os.open(root, os.O_RDONLY)
    for count in range(200):
        os.symlink(place.parent / "outside", f"link{count}", dir_fd=here)
        os.mkdir("d", dir_fd=here)
        following = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = following
    os.close(here)
    (root / "shut").mkdir()
    (root / "shut" / "file").write_text("x")
    (root / "shut").chmod(0)
    remove_tree(root)
    assert not root.exists()
    remove_tree(root)  # an absent tree counts as removed


def test_a_pattern_matches_names_in_linear_time():
    def means(pattern: str, *paths: str) -> list[bool]:
        wildcard = Wildcard(pattern)
        return [wildcard.matches(path) for path in paths]

    assert means("*.py", "a.py", "x/y/a.py", "a.pyc") == [True, True, False]
    assert means("src/*.py", "src/a.py", "src/b/a.py", "a.py") == [True, False, False]
    assert means("src/**/*.py", "src/a.py", "src/b/c/a.py", "lib/a.py") == [True, True, False]
    assert means("**", "a", "a/b") == [True, True]
    assert means("a?c*", "abc", "ac", "abcd/e", "axcyyy") == [True, False, False, True]
    assert means("[a]", "[a]", "a") == [True, False]
    assert means("a*" * 200 + "b", "a" * 255) == [False]
    assert means("**/" * 60 + "x", "/".join("y" * 60)) == [False]
    for pattern in ("", "/etc/*", "../*", "a/../b", "a\0"):
        with pytest.raises(PathRefused):
            Wildcard(pattern)
    with pytest.raises(OverLimit):
        Wildcard("*" * 600)


def test_a_dot_is_the_folder_and_a_slash_may_end_a_folder():
    assert (split_path("."), split_path("a/b/"), split_path("a")) == ((), ("a", "b"), ("a",))
