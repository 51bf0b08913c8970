"""Files of a chat: options, commands and pasted paths, against a real host."""

from pathlib import Path
from typing import Any

import pytest
from tests.tables import for_each

from bollard.cli.runs.chat_files import named_file, pasted_file

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in {"notes one.txt": b"one two", "chart.png": PNG, "empty.txt": b"", "lie.png": b"text"}.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


def refs(bollard: Any, host: Any, conversation: str) -> list[Any]:
    shown = bollard("conversations", "show", conversation, "--json", **host.variables).json["items"]
    return [(ref["name"], ref["mime_type"]) for item in reversed(shown) for ref in item.get("artifact_refs") or ()]


def test_files_of_the_options_go_with_the_first_message(bollard, host, folder: Path) -> None:
    files = ["--file", str(folder / "notes one.txt"), "--file", str(folder / "chart.png")]
    words = ["--message", "look", "--message", "again"]
    done = bollard("chat", "--agent", "echo", "--conversation", "with-files", *files, *words, **host.variables)
    assert (done.code, done.err) == (0, ""), done.err
    assert refs(bollard, host, "with-files") == [("notes one.txt", "text/plain"), ("chart.png", "image/png")]


@for_each("name", ["empty.txt", "absent.txt", ".", "lie.png"])
def test_a_file_that_cannot_be_sent_sends_nothing(bollard, host, folder: Path, name: str) -> None:
    done = bollard(
        "chat", "--conversation", "no-files", "--file", str(folder / name), "--message", "hi", **host.variables
    )
    assert done.code != 0
    assert "hint: " in done.err
    assert bollard("conversations", "show", "no-files", **host.variables).code != 0, "no message was sent"


def test_a_pasted_line_is_a_file_only_if_there_is_one(folder: Path) -> None:
    path = folder / "notes one.txt"
    escaped = str(path).replace(" ", "\\ ")
    for line in (str(path), f"'{path}'", f'"{path}"', f" {path} ", escaped, path.as_uri()):
        assert pasted_file(line) == path, line
    for line in (
        f"look at {path}",
        f"{path} please",
        str(folder),
        str(folder / "absent"),
        "notes one.txt",
        "",
        "/",
        "\0",
    ):
        assert pasted_file(line) is None, line
    assert named_file("notes one.txt") == Path("notes one.txt")


@pytest.mark.full
def test_commands_for_files(screen, host, folder: Path) -> None:
    shell = screen("chat", "--agent", "echo", **host.variables)
    shell.expect("^›")
    shell.send("/files\n")
    shell.expect("This conversation has no files.")
    shell.send("/attach\n")
    shell.expect("Name the file: /attach PATH")
    shell.send(f"/attach {folder / 'absent.txt'}\n")
    shell.expect(r"is not a\s+file")
    shell.send(f"/attach {folder / 'chart.png'}\n")
    shell.expect(r"chart.png, 48 bytes: goes with the next message.")
    shell.send(f"{folder / 'notes one.txt'}\n")
    shell.expect(r"notes one.txt is a file: /attach")
    shell.send("/attach\n")
    shell.expect("notes one.txt, 7 bytes")
    shell.send("/files\n")
    shell.expect(r"notes one.txt \(goes with the next message\)")
    shell.send("look\n")
    shell.expect("you said: look")
    shell.send("/files\n")
    shell.expect(r"user: chart.png 48 bytes, art_msg_")
    shell.send(f"{folder / 'chart.png'}\n")
    shell.expect("chart.png is a file")
    shell.send(f"{folder / 'chart.png'}\n")
    shell.expect(r"you said:\s+/")
    shell.send("/quit\n")
    assert shell.end() == 0
