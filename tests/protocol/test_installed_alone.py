"""The wheel with pydantic and nothing else: the protocol stands on that alone."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

from bollard.protocol.export import render, schema_documents

NOT_THERE = ["msgspec", "yaml", "typer", "rich", "websockets"]
PROBE = f"""
import importlib.util, json, sys
import bollard.protocol
from bollard.protocol.export import render, schema_documents
documents = {{name: render(document) for name, document in schema_documents().items()}}
json.dump({{
    "from": bollard.protocol.__file__,
    "importable": [name for name in {NOT_THERE} if importlib.util.find_spec(name)],
    "loaded": [name for name in sys.modules if name.partition(".")[0] in {NOT_THERE}],
    "ours": sorted(name for name in sys.modules if name.startswith("bollard.")),
    "documents": documents,
}}, sys.stdout)
"""


@dataclass(frozen=True, kw_only=True)
class Installation:
    python: Path
    site: Path


def run(*command: str | Path, cwd: Path) -> str:
    # Nothing of this environment may leak into the empty one.
    leaky = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "UV_PROJECT_ENVIRONMENT"}
    environment = {name: value for name, value in os.environ.items() if name not in leaky}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def find_uv(repository: Path) -> str | None:
    """Where scripts/setup finds or puts it."""
    own = repository / ".uv" / "bin" / "uv"
    return shutil.which("uv") or (str(own) if own.exists() else None)


def from_the_cache_or_the_index(uv: str, *command: str | Path, cwd: Path) -> None:
    """What setup has just fetched is in the cache; the index is asked only for what is not."""
    offline = subprocess.run([uv, *map(str, command), "--offline"], cwd=cwd, capture_output=True, check=False)
    if offline.returncode != 0:
        run(uv, *command, cwd=cwd)


def install_with_uv(uv: str, repository: Path, folder: Path) -> Path:
    pinned = f"pydantic=={version('pydantic')}"
    from_the_cache_or_the_index(uv, "build", "--quiet", "--wheel", "--out-dir", folder / "dist", repository, cwd=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    run(uv, "venv", "--quiet", "--no-project", "--python", sys.executable, folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    install = ("pip", "install", "--quiet", "--python", python)
    run(uv, *install, "--no-deps", "--offline", wheel, cwd=folder)
    from_the_cache_or_the_index(uv, *install, pinned, cwd=folder)
    return python


def install_with_pip(repository: Path, folder: Path) -> Path:
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", repository, cwd=folder)
    run(python, "-m", "pip", "install", "--quiet", f"pydantic=={version('pydantic')}", cwd=folder)
    return python


@pytest.fixture(scope="module")
def installation(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    folder = tmp_path_factory.mktemp("alone")
    uv = find_uv(repository)
    python = install_with_uv(uv, repository, folder) if uv else install_with_pip(repository, folder)
    return Installation(python=python, site=folder / "venv")


@pytest.fixture(scope="module")
def probe(installation: Installation) -> dict[str, object]:
    return json.loads(run(installation.python, "-I", "-c", PROBE, cwd=installation.site))


def test_the_protocol_is_imported_from_the_wheel(probe, installation) -> None:
    assert str(probe["from"]).startswith(str(installation.site))


def test_nothing_but_pydantic_is_there_or_needed(probe) -> None:
    assert probe["importable"] == []
    assert probe["loaded"] == []


def test_no_other_package_of_ours_is_loaded(probe) -> None:
    assert [name for name in probe["ours"] if not name.startswith("bollard.protocol")] == []


def test_every_schema_can_be_built_there_and_is_the_same(probe) -> None:
    assert probe["documents"] == {name: render(document) for name, document in schema_documents().items()}


@pytest.fixture(scope="module")
def package(installation: Installation) -> Path:
    found = run(installation.python, "-I", "-c", "import bollard; print(bollard.__path__[0])", cwd=installation.site)
    return Path(found.strip())


def test_the_wheel_says_that_it_is_typed(package) -> None:
    assert (package / "py.typed").exists()


def test_the_wheel_has_the_texts_of_every_language(package, repository) -> None:
    source = repository / "src/bollard/cli/text"
    texts = {path.relative_to(source) for path in source.rglob("*.json")}
    assert texts == {path.relative_to(package / "cli/text") for path in package.rglob("cli/text/**/*.json")}
    assert texts
