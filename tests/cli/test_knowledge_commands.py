"""`bollard knowledge` against a real host: files go in, are indexed, asked, and forgotten."""

from pathlib import Path
from typing import Any

import pytest

from bollard.cli.agents.knowledge import document_id_of, read_files
from bollard.cli.errors import UsageProblem


@pytest.fixture
def ask(bollard: Any, steady_host: Any) -> Any:
    """Run a command on the host of these tests."""
    return lambda *arguments, **more: bollard("knowledge", *arguments, **{**steady_host.variables, **more})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two documents, and files that must not be sent."""
    made = tmp_path / "handbook"
    (made / "more").mkdir(parents=True)
    (made / "leave.md").write_text("# Leave\n\nEverybody has thirty days of leave a year.\n", encoding="utf-8")
    (made / "more" / "差旅.md").write_text("# 差旅\n\n出差坐火车。\n", encoding="utf-8")
    (made / ".hidden.md").write_text("canary", encoding="utf-8")
    (tmp_path / "key").write_text("canary", encoding="utf-8")
    (made / "link.md").symlink_to(tmp_path / "key")
    return made


@pytest.mark.full
def test_documents_are_uploaded_queried_listed_and_deleted(ask: Any, folder: Path) -> None:
    added = ask("add", "handbook", "--name", "Handbook", "--description", "How we work.", "--text")
    assert (added.code, added.out.splitlines()[0]) == (0, "saved knowledge base handbook, revision 1"), added.err
    changed = ask("add", "handbook", "--flow", "private,untrusted")
    assert (changed.json["name"], changed.json["flow"]) == ("Handbook", ["private", "untrusted"])
    put = ask("put", "handbook", str(folder), "--meta", "language=en", "--meta", "language=zh", "--source", "wiki")
    assert put.code == 0, put.err
    items = {item["name"]: item for item in put.json["items"]}
    assert {name: item["status"] for name, item in items.items()} == {"leave.md": "ready", "more/差旅.md": "ready"}
    assert items["leave.md"]["metadata"] == {"language": ["en", "zh"]}
    found = ask("ask", "handbook", "how", "many", "days", "off", "--where", "language=en", "--text")
    assert found.out.splitlines()[0].startswith("[1] wiki › Leave ("), found.out
    assert "thirty days of leave" in found.out
    assert "出差坐火车" in ask("ask", "handbook", "出差怎么走").out
    assert ask("ask", "handbook", "train", "--where", "language=fr", "--text").out == "No results.\n"
    listed = ask("documents", "handbook", "--text", BOLLARD_LANG="zh_Hans").out
    assert "leave.md" in listed
    assert "已索引 1 个分块" in listed
    assert ask("list", "--text").out.count("Handbook") == 1
    shown = ask("show", "handbook", "--text").out
    assert "data flow of runs that read it: private, untrusted" in shown
    assert ask("reindex", "handbook").json == {"kb_id": "handbook"}
    gone = ask("forget", "handbook", "leave.md", "--text")
    assert gone.out == "deleted leave.md from handbook\n"
    assert ask("forget", "handbook", "leave.md").code == 4
    assert ask("remove", "handbook", "--text").out == "removed knowledge base handbook with all its documents\n"
    assert ask("show", "handbook").code == 4


def test_a_folder_is_uploaded_without_its_other_files(ask: Any, folder: Path) -> None:
    (folder / "film.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
    (folder / "more" / "tool.exe").write_bytes(b"MZ\x90\0")
    assert ask("add", "mixed").code == 0
    put = ask("put", "mixed", str(folder), "--text")
    assert put.code == 1
    sent, skipped = put.out.splitlines()[:2], put.out.splitlines()[2:]
    assert sent == ["leave.md: 1 chunks indexed", "more/差旅.md: 1 chunks indexed"]
    assert [line.split(":")[0] for line in skipped] == ["film.mp4", "more/tool.exe"]
    assert all("skipped" in line for line in skipped)
    assert put.err.splitlines()[0] == "bollard: files that are not documents: 2; sent: 2"
    chinese = ask("put", "mixed", str(folder), "--text", BOLLARD_LANG="zh_Hans")
    assert "film.mp4：已跳过" in chinese.out
    again = ask("put", "mixed", str(folder))
    assert [each["name"] for each in again.json["skipped"]] == ["film.mp4", "more/tool.exe"]
    assert {item["name"] for item in again.json["items"]} == {"leave.md", "more/差旅.md"}
    assert ask("remove", "mixed").code == 0


def test_an_unreadable_file_fails_the_command_with_the_reason(ask: Any, tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing more")
    assert ask("add", "broken").code == 0
    put = ask("put", "broken", str(tmp_path / "broken.pdf"), "--text")
    first, second = put.out.splitlines()
    assert (put.code, first.startswith("broken.pdf: failed: it is not a valid PDF: ")) == (1, True), put.err
    assert second == "  hint: save it as PDF again"
    assert "documents that could not be indexed: 1" in put.err
    listed = ask("documents", "broken", "--text", BOLLARD_LANG="zh_Hans").out
    assert "失败：不是有效的 PDF " in listed, listed
    (tmp_path / "picture.png").write_bytes(b"no text")
    refused = ask("put", "broken", str(tmp_path / "picture.png"), "--text", BOLLARD_LANG="zh_Hans")
    assert refused.code == 1
    assert refused.out == "picture.png：已跳过：不支持 application/octet-stream 类型的文档\n"
    assert "请转换为文本、Markdown、HTML、PDF 或 DOCX" in refused.err
    assert ask("remove", "broken").code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("put", "handbook", "no-such-file"),
        ("add", "handbook", "--embedding", "elsewhere"),
        ("add", "handbook", "--flow", "out"),
        ("ask", "handbook", "x", "--where", "nothing"),
    ],
)
def test_an_invalid_command_is_refused_before_any_request(bollard: Any, arguments: tuple[str, ...]) -> None:
    refused = bollard("knowledge", *arguments, BOLLARD_URL="http://127.0.0.1:9", BOLLARD_TOKEN="x")
    assert refused.code == 2, refused.err


def test_hidden_files_and_links_are_not_sent(folder: Path) -> None:
    given = read_files([folder, folder / "leave.md"], None, {})
    assert [each.path.name for each in given] == ["leave.md", "差旅.md", "leave.md"]
    with pytest.raises(UsageProblem):
        read_files([folder / "more" / "nothing"], None, {})


def test_the_same_name_has_the_same_id_and_another_name_another_id() -> None:
    assert document_id_of("leave.md") == "leave.md"
    odd = ["差旅.md", "a b.md", "a-b.md", "a/b.md", ".x", "x" * 300, "x" * 301, "..", "-"]
    ids = [document_id_of(name) for name in odd]
    assert len({*ids}) == len(odd)
    assert all(0 < len(each) <= 128 and each.isascii() and each[0].isalnum() for each in ids)
    assert ids == [document_id_of(name) for name in odd]
