"""`bollard files` against a real host."""

from pathlib import Path
from typing import Any

import pytest

from bollard.cli.limits import FILE_BYTES
from bollard.host import limits


@pytest.fixture
def files(bollard: Any, steady_host: Any) -> Any:
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard("files", *arguments, **{**steady_host.variables, **more})


def test_a_file_is_added_listed_shown_and_removed(files: Any, tmp_path: Path) -> None:
    path = tmp_path / "prices.csv"
    path.write_bytes(b"rope,12\n")
    assert files("list", "--text").out == "The workspace has no files. Add one: bollard files add PATH\n"
    added = files("add", str(path), "--text")
    first, second = added.out.splitlines()
    file_id = first.split()[2].rstrip(":")
    assert (added.code, first) == (0, f"added file {file_id}: prices.csv, 8 bytes"), added.err
    assert "access.resources.files.add" in second
    assert "工作区" not in files("list", "--text").out
    listed = files("--text", BOLLARD_LANG="zh_Hans").out
    assert all(word in listed for word in (file_id, "prices.csv", "text/csv", "字节")), listed
    assert files("show", file_id).json["mime_type"] == "text/csv"
    assert f"file_id: {file_id}" in files("show", file_id, "--text").out
    assert files("remove", file_id, "--text").out == f"removed file {file_id}\n"
    gone = files("show", file_id)
    assert (gone.code, gone.out) == (4, "")


def test_a_file_may_have_another_name_and_type(files: Any, tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"x")
    made = files("add", str(path), "--name", "价格.csv", "--type", "text/csv; header=absent").json
    assert (made["name"], made["mime_type"]) == ("价格.csv", "text/csv; header=absent")
    odd = files("add", str(path)).json
    assert odd["mime_type"] == "application/octet-stream"
    for file in (made, odd):
        assert files("remove", file["file_id"]).code == 0


def test_an_unreadable_or_oversized_file_is_refused_before_the_upload(files: Any, tmp_path: Path) -> None:
    absent = files("add", str(tmp_path / "absent"))
    assert (absent.code, "cannot be read" in absent.err) == (2, True), absent.err
    assert files("add", str(tmp_path)).code == 2
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(FILE_BYTES + 1)
    refused = files("add", str(large))
    assert (refused.code, f"larger than {FILE_BYTES} bytes" in refused.err) == (2, True), refused.err


def test_the_command_line_and_the_host_agree_on_the_largest_file() -> None:
    assert FILE_BYTES == limits.FILE_BYTES
