"""The page of settings is written from the code; the page of metrics has a row for each."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any


def _describe(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "scripts/describe"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_the_page_of_settings_matches_the_code(root: Path) -> None:
    done = _describe(root, "--check")
    assert done.returncode == 0, done.stderr


CONFINE = ("confine/errors.py", "confine/limits.py", "confine/order.py", "confine/probe.py", "confine/worker_level.py")
"""The modules of the confinement that the settings name."""


def test_a_changed_setting_is_noticed(root: Path, tmp_path: Path) -> None:
    for name in ("scripts/describe", "src/bollard/cli/operate/up.py", "docs/reference/settings.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((root / name).read_bytes())
    (tmp_path / "src/bollard/host").mkdir(parents=True)
    code = (root / "src/bollard/host/settings.py").read_text(encoding="utf-8")
    changed = code.replace("Worker processes per plugin", "Something else")
    assert changed != code
    (tmp_path / "src/bollard/host/settings.py").write_text(changed, encoding="utf-8")
    (tmp_path / "src/bollard/confine").mkdir()
    needed = ("host/__init__.py", "host/errors.py", "host/limits.py", "host/exposure.py")
    for name in ("__init__.py", *needed, "confine/__init__.py", *CONFINE):
        (tmp_path / "src/bollard" / name).write_bytes((root / "src/bollard" / name).read_bytes())
    done = _describe(tmp_path, "--check")
    assert done.returncode == 1
    assert "docs/reference/settings.md is not what the code says\nhint: run scripts/describe" in done.stderr


def test_every_metric_has_its_row_with_its_kind_and_its_description(
    pages: dict[str, Any], families: dict[str, Any]
) -> None:
    prose = pages["docs/reference/metrics.md"].prose
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|([^|]*)\| (.+) \|$", prose, re.MULTILINE)
    assert [row[0] for row in rows] == list(families)
    for name, kind, _, said in rows:
        assert (kind, said) == (families[name].kind, families[name].help), name
