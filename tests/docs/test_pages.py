"""Rules of every page: links have targets, words follow the style, no text names a machine."""

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.docs.pages import every_page

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?: \"[^\"]*\")?\)|(?:src|href|srcset)=\"([^\"]+)\"")
CLAIMS = re.compile(r"\b(secure(?:ly)?|tamper[- ]?proof|exactly[- ]once|guarantee[ds]?)\b", re.IGNORECASE)
NOT_OURS = {".git", ".venv", ".uv", "__pycache__", "node_modules", "dist", "build", "data"}
SECTION = re.compile(r"^## +(.+)$", re.MULTILINE)


def _links(page: Any) -> Iterator[str]:
    for plain, attribute in LINK.findall(re.sub(r"`[^`\n]*`", "", page.prose)):
        yield plain or attribute


@every_page
def test_every_relative_link_and_anchor_has_a_target(page: Any, pages: dict[str, Any], root: Path) -> None:
    broken: list[str] = []
    for link in _links(page):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, fragment = link.partition("#")
        path = (page.path.parent / target).resolve() if target else page.path
        if not path.is_relative_to(root) or not path.exists():
            broken.append(link)
        elif fragment and path.suffix == ".md":
            name = path.relative_to(root).as_posix()
            if name not in pages or fragment not in pages[name].anchors:
                broken.append(link)
    assert not broken, broken


def test_every_page_of_docs_is_reached_from_the_index(pages: dict[str, Any], root: Path) -> None:
    index = pages["docs/README.md"]
    reached = {(index.path.parent / link.partition("#")[0]).resolve() for link in _links(index)}
    lost = [
        name for name, page in pages.items() if name.startswith("docs/") and page.path not in reached | {index.path}
    ]
    assert not lost, lost


@every_page
def test_no_page_makes_a_forbidden_claim(page: Any) -> None:
    prose = re.sub(r"`[^`\n]*`", "", page.prose)
    assert not (found := CLAIMS.findall(prose)), found


@every_page
def test_a_page_is_in_its_language(page: Any) -> None:
    prose = re.sub(r"`[^`]*`", "", page.prose).replace("[简体中文]", "")
    foreign = re.findall(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+", prose)
    if page.is_chinese:
        sentences = re.sub(r"`[^`]*`|\]\([^)]*\)|^\|.*\|$", "", page.prose, flags=re.MULTILINE)
        assert foreign
        assert not (english := re.findall(r"[a-z]+(?: [a-z]+){2,}", sentences)), english
    else:
        assert not foreign, foreign


TRANSLATED = {
    "README.zh-CN.md": "README.md",
    "docs/zh-CN/approve-in-chat.md": "docs/guides/approve-in-chat.md",
    "docs/zh-CN/erase-a-person.md": "docs/guides/erase-a-person.md",
    "docs/zh-CN/first-agent.md": "docs/guides/first-agent.md",
    "docs/zh-CN/github-webhook.md": "docs/guides/github-webhook.md",
    "docs/zh-CN/images-and-files.md": "docs/guides/images-and-files.md",
    "docs/zh-CN/operate.md": "docs/guides/operate.md",
    "docs/zh-CN/run-a-host.md": "docs/guides/run-a-host.md",
    "docs/zh-CN/schedules.md": "docs/guides/schedules.md",
}


@pytest.mark.parametrize(("chinese", "english"), TRANSLATED.items())
def test_a_translated_page_has_the_commands_and_sections_of_the_english_one(
    pages: dict[str, Any], chinese: str, english: str
) -> None:
    assert _commands(pages[chinese]) == _commands(pages[english])
    assert len(SECTION.findall(pages[chinese].prose)) == len(SECTION.findall(pages[english].prose))


def _commands(page: Any) -> list[str]:
    """The commands without their comments and the words in quotes, which may be translated."""
    lines = [line for block in page.blocks if block.language in ("console", "sh") for line in block.lines]
    shown = [line for line in lines if line.startswith(("$ ", "    | ", "bollard "))]
    plain = [re.sub(r"""'[^']*'|"[^"]*"|#.*|BOLLARD_LANG=\w+""", "", line) for line in shown]
    return [re.sub(r"(--message|echo) [^\s|>-]+", r"\1", line).strip() for line in plain]


def test_the_readme_has_the_picture_the_two_commands_and_a_runner(pages: dict[str, Any], root: Path) -> None:
    readme = pages["README.md"]
    pictures = re.findall(r"!\[[^\]]+\]\((docs/images/[^)]+\.svg)\)", readme.prose)
    assert len(pictures) == 1
    picture = (root / pictures[0]).read_text(encoding="utf-8")
    assert "<title" in picture
    assert "prefers-color-scheme: dark" in picture
    shown = [line for block in readme.blocks for line in block.lines]
    assert {"$ make run", "$ make test"} <= {line.split("#")[0].strip() for line in shown}
    runner = next(block for block in readme.blocks if block.language == "python")
    assert "@runner" in runner.text
    assert len(runner.lines) <= 12
    assert len(readme.text.splitlines()) <= 124, "the README is short"


def test_the_changelog_has_one_line_for_each_effect(pages: dict[str, Any]) -> None:
    entries = re.split(r"\n(?=- |#)", pages["CHANGELOG.md"].text)
    words = [" ".join(entry.split()[:8]) for entry in entries if entry.startswith("- ")]
    assert not (twice := {each for each in words if words.count(each) > 1}), twice
    broken = [line for entry in entries[1:] for line in entry.splitlines()[1:] if line and not line.startswith("  ")]
    lines = pages["CHANGELOG.md"].text.splitlines()
    assert not broken, broken
    assert not (twice := {line for line in lines if len(line) > 40 and lines.count(line) > 1}), twice


def test_every_script_of_the_makefile_exists(root: Path) -> None:
    named = set(re.findall(r"\bscripts/\w+", (root / "Makefile").read_text(encoding="utf-8")))
    missing = sorted(name for name in named if not os.access(root / name, os.X_OK))
    assert not missing, missing


def test_every_decision_has_its_number_and_the_three_headings(pages: dict[str, Any]) -> None:
    decisions = [page for name, page in pages.items() if re.match(r"docs/decisions/\d", name)]
    assert [int(page.path.name[:4]) for page in decisions] == list(range(1, len(decisions) + 1))
    for page in decisions:
        assert re.match(r"# \d{4}: .+\n", page.text), page.name
        assert page.text.startswith(f"# {page.path.name[:4]}: "), page.name
        assert SECTION.findall(page.prose) == ["Context", "Decision", "Consequences"], page.name
        assert len(page.text.split()) <= 400, f"{page.name}: a decision is short"


def test_every_picture_has_a_title_and_is_readable_in_dark_mode(pages: dict[str, Any], root: Path) -> None:
    pictures = sorted([*(root / "docs/concepts").glob("*.svg"), *(root / "docs/images").glob("*.svg")])
    shown = {(page.path.parent / link).resolve() for page in pages.values() for link in _links(page)}
    assert len(pictures) >= 6
    for picture in pictures:
        drawn = picture.read_text(encoding="utf-8")
        assert "<title" in drawn, picture.name
        assert "prefers-color-scheme: dark" in drawn, picture.name
        assert picture in shown, f"no page shows {picture.name}"


def test_every_picture_of_the_console_exists_is_shown_and_is_small(pages: dict[str, Any], root: Path) -> None:
    made = {picture.resolve() for picture in (root / "docs/images").glob("*.png")}
    linked = {(page.path.parent / link).resolve() for page in pages.values() for link in _links(page)}
    assert made == {target for target in linked if target.suffix == ".png"}
    assert len(made) >= 4
    for picture in made:
        content = picture.read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n"), picture.name
        assert len(content) <= 250_000, picture.name


def test_the_readmes_open_with_the_console(pages: dict[str, Any]) -> None:
    for name in ("README.md", "README.zh-CN.md"):
        first = re.search(r"!\[[^\]]+\]\(([^)]+)\)", pages[name].prose)
        assert first is not None
        assert re.fullmatch(r"docs/images/console-chat[.\w-]*\.png", first[1]), name


def test_every_concept_has_its_own_picture(pages: dict[str, Any]) -> None:
    concepts = {name: page for name, page in pages.items() if re.match(r"docs/concepts/(?!index)", name)}
    shown = {name: re.findall(r"!\[[^\]]+\]\(([^)]+\.svg)\)", page.prose) for name, page in concepts.items()}
    assert {name: len(pictures) for name, pictures in shown.items()} == dict.fromkeys(concepts, 1)
    assert len({pictures[0] for pictures in shown.values()}) == len(shown)


def test_concepts_fit_on_a_page(pages: dict[str, Any]) -> None:
    long = {
        name: count
        for name, page in pages.items()
        if name.startswith("docs/concepts/")
        if (count := len(page.text.split())) > 700
    }
    assert not long, long


@every_page
def test_every_requirement_named_by_a_page_exists(page: Any, root: Path) -> None:
    known = {entry["id"] for entry in _requirements(root)}
    assert not (unknown := set(re.findall(r"\bP\d\d-\d\d\b", page.text)) - known), unknown


@cache
def _requirements(root: Path) -> list[dict[str, Any]]:
    return yaml.safe_load((root / "tests/conformance/requirements.yaml").read_text(encoding="utf-8"))


def test_every_promise_has_a_test(pages: dict[str, Any], root: Path) -> None:
    """SECURITY.md promises only requirements of this part; test_links.py checks that those have tests."""
    listed = _requirements(root)
    checked_now = {entry["id"] for entry in listed if entry["part"] == 1}
    promised = pages["SECURITY.md"].text.split("## The worker connection\n")[1].split("\n## ")[0]
    rows = [row for row in promised.splitlines() if row.startswith("| ") and not row.startswith("| promise")]
    assert len(rows) >= 8
    for row in rows:
        ids = set(re.findall(r"P\d\d-\d\d", row))
        assert ids, f"no test attacks this: {row}"
        assert ids <= checked_now, f"not checked yet: {row}"


def test_promises_of_the_host_name_existing_tests(pages: dict[str, Any], root: Path) -> None:
    promised = pages["SECURITY.md"].text.split("## The host\n")[1].split("\n## ")[0]
    rows = [row for row in promised.splitlines() if row.startswith("| ") and not row.startswith("| promise")]
    assert len(rows) >= 8
    for row in rows:
        tests = re.findall(r"`(tests/[\w/]+\.py)`", row)
        assert tests, f"no test attacks this: {row}"
        assert all((root / name).is_file() for name in tests), row


def _files(root: Path) -> Iterator[Path]:
    for entry in sorted(root.iterdir()):
        if entry.name in NOT_OURS or entry.name.endswith("cache") or entry.name.endswith((".pyc", "-cache")):
            continue
        if entry.name.startswith((".coverage", ".hypothesis", ".import_linter_cache")):
            continue
        if entry.is_dir():
            yield from _files(entry)
        else:
            yield entry


def test_no_file_names_a_machine_path_or_a_registry_host(root: Path) -> None:
    # Put together here, so that this file does not find itself.
    folders = ["work", "root", "opt", "Users", "mnt"]
    machine = "|".join(rf"(?<![\w.~-])/{name}/" for name in folders) + r"|(?<![\w.~-])/home/(?!user\b|me\b|you\b)\w+"
    hosts = "|".join(
        re.escape(".".join(parts)) for parts in (("pypi", "org"), ("files", "pythonhosted"), ("npmjs", "org"))
    )
    pattern = re.compile(f"{machine}|{hosts}")
    found: list[str] = []
    for file in _files(root):
        if file.name == "uv.lock" or file == Path(__file__):
            continue
        text = file.read_bytes().decode("utf-8", "replace")
        found += [f"{file.relative_to(root)}: {match[0]}" for match in pattern.finditer(text)]
    assert not found, found
