"""The golden examples of every shape."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from bollard.protocol import JsonObject
from bollard.protocol.export import schema_documents

GOLDEN = Path(__file__).parent / "golden"


@dataclass(frozen=True, kw_only=True)
class Golden:
    minimal: JsonObject
    written: JsonObject
    full: JsonObject


@pytest.fixture(scope="session")
def goldens() -> dict[str, Golden]:
    return {path.stem: Golden(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(GOLDEN.glob("*.json"))}


@pytest.fixture
def golden(request: pytest.FixtureRequest, goldens: dict[str, Golden]) -> Golden:
    """The golden of the shape that the test is parametrized with, as `name`."""
    return goldens[request.getfixturevalue("name")]


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).parents[2]


@pytest.fixture(scope="session")
def documents() -> Mapping[str, JsonObject]:
    return schema_documents()
