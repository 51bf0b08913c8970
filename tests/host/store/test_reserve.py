"""Space that is kept for a full disk."""

import subprocess
import sys

import pytest

from bollard.host.store.reserve import ReserveFile


def test_the_reserve_takes_and_returns_space(tmp_path):
    reserve = ReserveFile(tmp_path / "data" / "reserve", 1 << 20)
    assert not reserve.held
    assert reserve.hold()
    assert reserve.hold()
    assert reserve.held
    assert (tmp_path / "data" / "reserve").stat().st_blocks * 512 >= 1 << 20
    reserve.release()
    reserve.release()
    assert not reserve.held


def test_a_failed_reserve_leaves_no_file(tmp_path):
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from bollard.host.store.reserve import ReserveFile\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))\n"
        "print(ReserveFile(Path(sys.argv[1]), 1 << 20).hold())\n"
    )
    path = tmp_path / "reserve"
    result = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
    assert not path.exists()


def test_a_reserve_at_an_impossible_path_is_not_held(tmp_path):
    (tmp_path / "file").write_text("")
    assert not ReserveFile(tmp_path / "file" / "reserve").hold()


class SmallDisk:
    """A tmpfs in a user namespace, with a program in it that reports the behaviour of a reserve there."""

    def __init__(self, folder, mebibytes):
        self._folder = folder
        self._size = mebibytes << 20

    def tell(self, program):
        script = 'mount -t tmpfs -o size="$1" tmpfs "$2" && exec "$3" -c "$4" "$2"'
        whole = f"import os, sys; from pathlib import Path\n{IMPORTS}\nfolder = Path(sys.argv[1])\n{program}"
        command = ["unshare", "-Urm", "sh", "-c", script, "sh", str(self._size), str(self._folder), sys.executable]
        result = subprocess.run([*command, whole], capture_output=True, text=True, check=False)
        if "mount" in result.stderr or "unshare" in result.stderr:
            pytest.skip(f"a tmpfs in a user namespace is missing: {result.stderr.strip()}")
        assert result.returncode == 0, result.stderr
        return result.stdout.split()


IMPORTS = "from bollard.host.store.reserve import ReserveFile"
HOLD = "reserve = ReserveFile(folder / 'reserve'); print(reserve.hold(), reserve.held, end=' ')\n"
SIZE = "print((folder / 'reserve').stat().st_blocks // 2048 if (folder / 'reserve').exists() else None)\n"


@pytest.mark.parametrize(("mebibytes", "taken"), [(1, None), (3, 1), (4, 2), (7, 2), (8, 4), (12, 4), (16, 8), (24, 8)])
def test_a_small_disk_has_a_smaller_reserve_and_free_space(tmp_path, mebibytes, taken):
    held = str(taken is not None)
    assert SmallDisk(tmp_path, mebibytes).tell(HOLD + SIZE) == [held, held, str(taken)]


def test_a_reserve_grows_when_space_returns(tmp_path):
    program = (
        "(folder / 'filler').write_bytes(bytes(21 << 20))\n"
        f"{HOLD}{SIZE}"
        "(folder / 'filler').unlink()\n"
        f"{HOLD}{SIZE}"
        "reserve.release(); print(reserve.held)\n"
    )
    assert SmallDisk(tmp_path, 24).tell(program) == ["True", "True", "1", "True", "True", "8", "False"]
