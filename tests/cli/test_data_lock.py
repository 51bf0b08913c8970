"""A data directory is the owner's alone before anything is read from it or written to it."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from bollard.cli.errors import UsageProblem
from bollard.cli.operate.data_lock import DataLock

NOBODY = 65534


def test_a_directory_open_to_others_is_made_private(tmp_path: Path) -> None:
    for mode in (0o777, 0o755, 0o750, 0o2770, 0o701):
        tmp_path.chmod(mode)
        DataLock.take(tmp_path).close()
        assert tmp_path.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")
def test_an_open_directory_of_another_user_is_refused() -> None:
    data = Path(tempfile.mkdtemp())
    data.chmod(0o777)
    try:
        os.seteuid(NOBODY)
        with pytest.raises(UsageProblem) as refused:
            DataLock.take(data)
    finally:
        os.seteuid(0)
        left = sorted(path.name for path in data.iterdir())
        shutil.rmtree(data)
    assert refused.value.key == "error.data_open"
    assert left == []
