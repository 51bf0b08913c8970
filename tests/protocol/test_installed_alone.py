"""The wheel with pydantic and nothing else: the protocol needs no more."""

import json
from importlib.metadata import version
from pathlib import Path

import pytest
from tests.environments import Environment, run

from bollard.protocol.export import render, schema_documents

pytestmark = pytest.mark.full  # a wheel is built and installed
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


@pytest.fixture(scope="module")
def installation(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment(repository, tmp_path_factory.mktemp("alone"))
    made.install(made.build_wheel(), deps=False)
    made.install(f"pydantic=={version('pydantic')}")
    return made


@pytest.fixture(scope="module")
def probe(installation: Environment) -> dict[str, object]:
    return json.loads(run(installation.python, "-I", "-c", PROBE, cwd=installation.site))


def test_the_protocol_is_imported_from_the_wheel(probe, installation) -> None:
    assert str(probe["from"]).startswith(str(installation.site))


def test_only_pydantic_is_installed_and_needed(probe) -> None:
    assert probe["importable"] == []
    assert probe["loaded"] == []


def test_no_other_package_of_ours_is_loaded(probe) -> None:
    assert [name for name in probe["ours"] if not name.startswith("bollard.protocol")] == []


def test_every_schema_can_be_built_there_and_is_the_same(probe) -> None:
    assert probe["documents"] == {name: render(document) for name, document in schema_documents().items()}


@pytest.fixture(scope="module")
def package(installation: Environment) -> Path:
    found = run(installation.python, "-I", "-c", "import bollard; print(bollard.__path__[0])", cwd=installation.site)
    return Path(found.strip())


def test_the_wheel_is_marked_as_typed(package) -> None:
    assert (package / "py.typed").exists()


def test_the_wheel_has_the_texts_of_every_language(package, repository) -> None:
    source = repository / "src/bollard/cli/text"
    texts = {path.relative_to(source) for path in source.rglob("*.json")}
    assert texts == {path.relative_to(package / "cli/text") for path in package.rglob("cli/text/**/*.json")}
    assert texts
