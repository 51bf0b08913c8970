"""docs/reference/sdk.md lists every public name of the SDK as the code has it. `test_commands` runs its examples."""

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import bollard.sdk
import bollard.sdk.testing
from bollard.sdk import RunApi
from bollard.sdk.testing import MemoryHost, ScriptedModel


@pytest.fixture(scope="module")
def generator(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("sdk_reference", root / "scripts/sdk_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_page_matches_the_code(generator: ModuleType, pages: dict[str, Any]) -> None:
    assert pages["docs/reference/sdk.md"].text == generator.page(), "run scripts/describe"


def test_every_public_name_is_on_the_page(generator: ModuleType, pages: dict[str, Any]) -> None:
    text = pages["docs/reference/sdk.md"].text
    doors = generator.doors()
    assert doors[0] is bollard.sdk
    assert bollard.sdk.testing in doors
    for door in doors:
        assert f"## `{door.__name__}`" in text
        missing = [name for name in door.__all__ if not re.search(rf"^(### `{name}`|- `{name}\b)", text, re.MULTILINE)]
        assert not missing, (door.__name__, missing)


def test_every_example_is_on_the_page(pages: dict[str, Any], root: Path) -> None:
    examples = {file.read_text(encoding="utf-8") for file in (root / "examples/sdk").glob("*.py")}
    assert len(examples) >= 9
    assert examples == {block.text for block in pages["docs/reference/sdk.md"].blocks if block.language == "python"}


def test_a_name_without_a_docstring_fails_the_page(generator: ModuleType) -> None:
    with pytest.raises(SystemExit, match="silent has no docstring"):
        generator.documented("silent", None)


def test_every_call_that_returns_many_items_takes_a_limit() -> None:
    api = RunApi(None)  # type: ignore[arg-type]
    takes = {
        f"{family}.{name}"
        for family in ("models", "knowledge", "history", "events", "steering", "state")
        for name, method in inspect.getmembers(type(getattr(api, family)), inspect.isfunction)
        if not name.startswith("_") and "limit" in inspect.signature(method).parameters
    }
    assert takes == {
        "models.rerank",
        "knowledge.retrieve",
        "history.page",
        "history.search",
        "events.page",
        "steering.pull",
        "state.list",
    }


async def test_the_old_name_of_limit_is_accepted() -> None:
    documents = ["rain in Rome", "rain in Rome today", "snow"]
    counts: list[int] = []

    @bollard.sdk.runner(permissions={"models": ["rerank"], "knowledge_bases": ["retrieve"], "history": ["search"]})
    async def ask(ctx: bollard.sdk.RunContext) -> str:
        api = ctx.api
        for named in ({"limit": 1}, {"top_k": 1}, {"limit": 2, "top_k": 1}):
            counts.append(len(await api.models.rerank("small", "rain", documents, **named)))
            counts.append(len(await api.knowledge.retrieve("base", "rain", **named)))
            counts.append(len((await api.history.search("rain", **named)).items))
        counts.append(len(await api.knowledge.retrieve("base", "rain", 2)))
        return "asked"

    host = MemoryHost(
        models={"small": ScriptedModel([])},
        knowledge={"base": documents},
        history=[("user", text) for text in documents],
    )
    outcome = await host.run(ask, "go")
    assert outcome.status == "completed", outcome.error
    assert counts == [*[1] * 9, 2]
