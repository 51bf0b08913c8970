"""ARCHITECTURE.md agrees with the code and the import contracts."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.docs.pages import every_page

ROW = re.compile(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", re.MULTILINE)


@pytest.fixture
def table(pages: dict[str, Any]) -> dict[str, set[str]]:
    """Each package and the packages it may import, from the page."""
    section = pages["ARCHITECTURE.md"].text.split("## The tree\n")[1].split("\n## ")[0]
    return {name: set(re.findall(r"`(\w+)`", may)) for name, may in ROW.findall(section)}


def test_every_package_of_the_table_exists(table: dict[str, set[str]], root: Path) -> None:
    packages = {file.parent.name for file in (root / "src/bollard").glob("*/__init__.py")}
    assert set(table) <= packages


def test_no_package_imports_more_than_its_row_allows(table: dict[str, set[str]], root: Path) -> None:
    exceptions = _exceptions(root)
    for name, may in table.items():
        imported: set[str] = set()
        for file in (root / "src/bollard" / name).rglob("*.py"):
            imported |= set(re.findall(r"^\s*(?:from|import) bollard\.(\w+)", file.read_text("utf-8"), re.MULTILINE))
        extra = imported - may - {name} - {imports for importer, imports in exceptions if importer == name}
        assert not extra, f"{name} imports {sorted(extra)}, which its row does not allow"


def _exceptions(root: Path) -> set[tuple[str, str]]:
    """The pairs of packages of which import-linter ignores some imports."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    ignored = next(contract for contract in contracts if contract["type"] == "layers").get("ignore_imports", [])
    pairs = [re.findall(r"bollard\.(\w+)", line) for line in ignored]
    return {(importer, imports) for importer, imports in pairs}


def test_every_exception_of_the_import_table_is_in_its_row(root: Path) -> None:
    lines = (root / "ARCHITECTURE.md").read_text("utf-8").splitlines()
    row = next(line for line in lines if line.startswith("| `runtime` |"))
    assert _exceptions(root) == {("runtime", "host")}
    assert "the relay also `host.workers` and `host.egress`" in row


def test_the_table_matches_import_linter(table: dict[str, set[str]], root: Path) -> None:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    rank = {
        name.strip().removeprefix("bollard."): height
        for height, layer in enumerate(reversed(layers))
        for name in re.split(r"[:|]", layer)
    }
    assert set(rank) == set(table)
    for name, may in table.items():
        upward = {other for other in may if rank[other] >= rank[name]}
        assert not upward, f"{name} may not import {sorted(upward)}: that is upward or sideways"
    for contract in contracts:
        for source in contract.get("source_modules", []):
            forbidden = {name.removeprefix("bollard.") for name in contract["forbidden_modules"]}
            assert not table[source.split(".")[1]] & forbidden, contract["name"]


def test_the_list_of_the_host_matches_import_linter(pages: dict[str, Any], root: Path) -> None:
    section = pages["ARCHITECTURE.md"].text.split("Inside `host` imports go down this list")[1].split("\n## ")[0]
    told = [
        re.split(r"\s{2,}", line.strip())[0].split(" · ") for line in section.splitlines() if line.startswith("    ")
    ]
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    layers = next(c["layers"] for c in settings["tool"]["importlinter"]["contracts"] if c["name"].startswith("inside"))
    checked = [[name.strip().removeprefix("bollard.host.") for name in re.split(r"[:|]", layer)] for layer in layers]
    leaves = [*checked[-2], *checked[-1]]
    assert [set(row) for row in told] == [set(row) for row in [*checked[:-2], leaves]]


@every_page
def test_every_module_named_by_a_page_exists(page: Any, root: Path) -> None:
    named = set(
        re.findall(
            r"`((?:src/)?bollard/[\w/]+\.py|(?:wire|runtime|sdk|protocol|cli|conformance|trust|host(?:/\w+)?)/\w+\.py)`",
            page.text,
        )
    )
    missing = [
        name
        for name in named
        if not (root / "src" / name).is_file()
        and not (root / name).is_file()
        and not (root / "src/bollard" / name).is_file()
    ]
    assert not missing, missing
