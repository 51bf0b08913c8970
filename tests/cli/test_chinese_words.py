"""Chinese texts use the words of the glossary (`docs/zh-CN/README.md`), and address people with 你."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs/zh-CN/README.md"
FOLDERS = (
    "src/bollard/cli/text/zh_Hans",
    "src/bollard/cli/templates",
    "src/bollard/host",
    "src/bollard/sdk",
    "console/src",
    "catalogue",
)
PLUGINS = ("plugins", "examples")
PAGES = ("README.zh-CN.md", "docs/zh-CN")
KINDS = {".json", ".md", ".mjs", ".py", ".toml", ".ts", ".tsx", ".txt", ".yaml"}
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def _glossary() -> list[tuple[str, str, list[str]]]:
    """English, Chinese, and the words that are not used."""
    rows = [line.split("|")[1:-1] for line in GLOSSARY.read_text("utf-8").splitlines() if re.match(r"\| [a-z]", line)]
    cells = [[cell.strip() for cell in row] for row in rows]
    return [(english, chinese, [word for word in unused.split("、") if word]) for english, chinese, unused in cells]


def _texts() -> Iterator[tuple[Path, int, str]]:
    """Every line with Chinese words that a person reads: texts, labels, templates and pages."""
    for name in (*FOLDERS, *PLUGINS, *PAGES):
        place = ROOT / name
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if (
                path.suffix not in KINDS
                or "generated" in path.parts
                or ".test." in path.name
                or path.name.startswith("test_")
                or "tests" in path.parts[len(ROOT.parts) :]
            ):
                continue
            for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
                if CHINESE.search(line) and not (path == GLOSSARY and line.startswith("|")):
                    yield path.relative_to(ROOT), number, line


def test_the_glossary_has_one_word_for_each_concept() -> None:
    rows = _glossary()
    assert len(rows) > 30
    assert {"渠道", "权限", "你", "运行", "会话", "插件", "智能体", "知识库", "机密", "密钥"} <= {
        row[1] for row in rows
    }
    unused = [word for _, _, words in rows for word in words]
    assert len(unused) == len({*unused}) > 25
    assert not [word for word in unused for _, chinese, _ in rows if word in chinese]


def test_no_chinese_text_uses_a_synonym() -> None:
    wanted = {word: chinese for _, chinese, words in _glossary() for word in words}
    lines = list(_texts())
    assert len(lines) > 2000
    assert {path.parts[0] for path, _, _ in lines} == {
        *("README.zh-CN.md", "catalogue", "console", "docs", "examples", "plugins", "src")
    }
    found = [
        f"{path}:{number}: {word}, use {chinese}"
        for path, number, line in lines
        for word, chinese in wanted.items()
        if word in line
    ]
    assert not found, "\n".join(found)


def test_chinese_texts_quote_values_in_chinese() -> None:
    found = [f"{path}:{number}" for path, number, line in _texts() if "zh_Hans" in path.parts and "!r}" in line]
    assert found == [], found


def test_chinese_sentences_use_full_width_punctuation() -> None:
    """After a Chinese character a comma, a colon or a parenthesis is Chinese too, except in a quoted format."""
    narrow = re.compile(r"[\u4e00-\u9fff][,;:!?(][ \u4e00-\u9fff]")
    texts = [each for each in _texts() if "zh_Hans" in each[0].parts or each[0].parts[0] in ("README.zh-CN.md", "docs")]
    found = [f"{path}:{number}" for path, number, line in texts if narrow.search(re.sub(r"“[^”]*”", "", line))]
    assert not found, found
