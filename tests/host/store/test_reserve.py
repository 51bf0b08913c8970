"""Space that is kept for a full disk."""

import subprocess
import sys

from bollard.host.store.reserve import ReserveFile


def test_the_space_is_really_taken_and_given_back(tmp_path):
    reserve = ReserveFile(tmp_path / "data" / "reserve", 1 << 20)
    assert not reserve.held
    assert reserve.hold()
    assert reserve.hold()
    assert reserve.held
    assert (tmp_path / "data" / "reserve").stat().st_blocks * 512 >= 1 << 20
    reserve.release()
    reserve.release()
    assert not reserve.held


def test_a_reserve_that_cannot_be_taken_leaves_nothing(tmp_path):
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


def test_a_reserve_in_a_place_that_cannot_be_is_not_held(tmp_path):
    (tmp_path / "file").write_text("")
    assert not ReserveFile(tmp_path / "file" / "reserve").hold()
