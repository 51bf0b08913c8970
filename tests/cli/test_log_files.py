"""The log of a host in files: daily, bounded, beside the console."""

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bollard.cli.operate.log_files import LogFiles
from bollard.host.errors import SettingsError

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Calendar:
    """A clock for days."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_each_day_has_its_file_and_a_restart_continues_it(tmp_path: Path, calendar: Calendar) -> None:
    for line in ("one", "two"):
        files = LogFiles(tmp_path / "logs", pytest.fail, now=calendar)
        files.write(line)
        files.close()
    files = LogFiles(tmp_path / "logs", pytest.fail, now=calendar)
    calendar.now += timedelta(days=1)
    files.write("three")
    files.close()
    assert names(tmp_path / "logs") == ["bollard-2026-03-01.log", "bollard-2026-03-02.log"]
    assert (tmp_path / "logs/bollard-2026-03-01.log").read_text() == "one\ntwo\n"
    assert (tmp_path / "logs/bollard-2026-03-02.log").stat().st_mode & 0o777 == 0o600


def test_a_full_file_is_followed_by_a_part_and_the_oldest_files_are_deleted(tmp_path: Path, calendar: Calendar) -> None:
    (tmp_path / "notes.txt").write_text("not ours")
    files = LogFiles(tmp_path, pytest.fail, now=calendar, file_bytes=10, files=3)
    for number in range(6):
        files.write(f"line {number}")  # 7 bytes: one for each file
    files.close()
    kept = ["bollard-2026-03-01.3.log", "bollard-2026-03-01.4.log", "bollard-2026-03-01.5.log"]
    assert names(tmp_path) == [*kept, "notes.txt"]
    calendar.now += timedelta(days=1)
    again = LogFiles(tmp_path, pytest.fail, now=calendar, file_bytes=10, files=3)
    again.write("x" * 100)  # a line is larger than a file
    again.close()
    assert names(tmp_path) == [*kept[1:], "bollard-2026-03-02.log", "notes.txt"]


def test_a_line_that_is_too_long_is_truncated_with_a_mark(tmp_path: Path, calendar: Calendar) -> None:
    files = LogFiles(tmp_path, pytest.fail, now=calendar, line_bytes=10)
    for line in ("x" * 10, "x" * 11, "汉字汉字"):
        files.write(line)
    files.close()
    written = (tmp_path / "bollard-2026-03-01.log").read_text("utf-8")
    assert written == f"{'x' * 10}\n{'x' * 10}… [1 bytes left out]\n汉字汉… [3 bytes left out]\n"


def test_ten_parts_of_a_day_are_deleted_in_numeric_order(tmp_path: Path, calendar: Calendar) -> None:
    files = LogFiles(tmp_path, pytest.fail, now=calendar, file_bytes=1, files=2)
    for number in range(12):
        files.write(str(number))
    files.close()
    assert names(tmp_path) == ["bollard-2026-03-01.10.log", "bollard-2026-03-01.11.log"]


def test_an_unusable_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"log_dir .* cannot be written") as refused:
        LogFiles(tmp_path / "file", pytest.fail)
    assert refused.value.details["reason"] == "log_dir_unwritable"


def test_a_failing_disk_is_reported_once_and_logging_continues(tmp_path: Path, calendar: Calendar) -> None:
    problems: list[OSError] = []
    files = LogFiles(tmp_path / "logs", problems.append, now=calendar)
    os.rename(tmp_path / "logs", tmp_path / "away")
    for _ in range(2):
        calendar.now += timedelta(days=1)
        files.write("lost")
    os.rename(tmp_path / "away", tmp_path / "logs")
    files.write("back")
    files.close()
    assert [problem.strerror for problem in problems] == ["No such file or directory"]
    assert (tmp_path / "logs/bollard-2026-03-03.log").read_text() == "back\n"


@pytest.mark.full
def test_a_host_logs_to_the_console_and_to_its_folder(new_host: Any, bollard: Any, tmp_path: Path) -> None:
    host = new_host().start(BOLLARD_LOG_DIR=str(tmp_path / "logs"), BOLLARD_ACCESS_LOG="true")
    assert bollard("runs", **host.variables).code == 0
    host.signal(signal.SIGTERM)
    written = "".join(path.read_text(encoding="utf-8") for path in sorted((tmp_path / "logs").iterdir()))
    lines = [json.loads(line) for line in written.splitlines()]
    assert [line["operation"] for line in lines if line.get("operation") == "listRuns"] == ["listRuns"]
    assert "listRuns" in host.log
    assert host.token not in written


@pytest.mark.full
def test_a_folder_that_the_host_cannot_write_stops_its_start_with_a_hint(bollard: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused = bollard("up", "--data", str(tmp_path / "data"), BOLLARD_LOG_DIR=str(tmp_path / "file"))
    assert refused.code == 2
    assert "log_dir" in refused.err
    assert "leave log_dir empty" in refused.err
    chinese = bollard(
        "up", "--data", str(tmp_path / "data"), "--lang", "zh_Hans", BOLLARD_LOG_DIR=str(tmp_path / "file")
    )
    assert "无法写入 log_dir" in chinese.err
