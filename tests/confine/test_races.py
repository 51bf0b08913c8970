"""F35: a path is swapped repeatedly while it is used. Nothing outside is read, written or removed.

A slice of some seconds; `scripts/chaos` races for longer (`CHAOS_RACE_S`).
"""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

from bollard.confine.errors import ConfineError
from bollard.confine.folder import Folder
from bollard.confine.paths import Wildcard

RACE_S = float(os.environ.get("CHAOS_RACE_S", "3"))
WON = 100
"""Times that each side must have won, for it to be a race."""
PATIENCE_S = 120.0
SWAPPER = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
inside = sys.argv[1].encode()
pairs = [(b"/swapped", b"/link"), (b"/real/file.txt", b"/real/link.txt"), (b"/real", b"/other-link")]
print("swapping", flush=True)
while True:
    for one, other in pairs:
        libc.renameat2(-100, inside + one, -100, inside + other, 2)  # exchange: there is no moment without either
"""


def test_a_race_of_links_and_renames_reveals_nothing(tmp_path: Path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for made in (inside, inside / "swapped", inside / "real", outside):
        made.mkdir()
    for name in ("file.txt", "link.txt", "only-outside.txt"):
        (outside / name).write_text("canary")
    (inside / "swapped" / "file.txt").write_text("mine")
    (inside / "real" / "file.txt").write_text("mine")
    (inside / "link").symlink_to(outside)
    (inside / "other-link").symlink_to(outside)
    (inside / "real" / "link.txt").symlink_to(outside / "file.txt")
    before = {path.name: path.read_text() for path in outside.iterdir()}
    swapper = subprocess.Popen([sys.executable, "-c", SWAPPER, str(inside)], stdout=subprocess.PIPE)
    try:
        assert swapper.stdout is not None
        assert swapper.stdout.readline() == b"swapping\n"
        done, refused = race(inside)
    finally:
        swapper.kill()
        swapper.wait()
        if swapper.stdout is not None:
            swapper.stdout.close()
    assert done > WON, "the race was never won by us"
    assert refused > WON, "the race was never won by the swapper"
    assert {path.name: path.read_text() for path in outside.iterdir()} == before


def race(inside: Path) -> tuple[int, int]:
    """The number of successful and of refused calls. Each leak fails at once."""
    done = refused = 0
    begun = time.monotonic()
    wildcard = Wildcard("**/only-outside.txt")
    count = 0
    with Folder(inside) as folder:
        while time.monotonic() < begun + (RACE_S if min(done, refused) > WON else PATIENCE_S):
            count += 1
            for call in (
                lambda: folder.read("swapped/file.txt"),
                lambda: folder.read("real/file.txt"),
                lambda turn=count: folder.write(f"swapped/new{turn % 50}.txt", b"mine"),
                lambda: folder.write("real/file.txt", b"mine"),
                lambda: folder.write("real/made/in/it.txt", b"mine"),
                lambda turn=count: folder.remove(f"swapped/new{(turn + 25) % 50}.txt"),
                lambda: folder.entries("swapped"),
                lambda: [entry for entry in folder.walk() if wildcard.matches(entry.path)],
            ):
                try:
                    result = call()
                except ConfineError:
                    refused += 1
                else:
                    done += 1
                    assert b"canary" not in (result if isinstance(result, bytes) else b"")
                    if isinstance(result, list):
                        assert not [entry for entry in result if entry.path.endswith("only-outside.txt")]
            with contextlib.suppress(ConfineError):
                assert not folder.usage().over
    return done, refused
