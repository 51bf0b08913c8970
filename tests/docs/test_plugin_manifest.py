"""docs/reference/plugin-manifest.md has a row for every field of manifest.yaml, and agrees with the code."""

import re
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from bollard.protocol import (
    LEGACY_FORM_TYPES,
    SELECTOR_TYPES,
    AgentRunnerCapabilities,
    AgentRunnerPermissions,
    FlowBits,
    FormItem,
    FormOption,
    FormType,
    PluginManifest,
    PluginMetadata,
    PluginRunner,
    PluginSpec,
    PluginTool,
)

SECTIONS: dict[str, type[BaseModel]] = {
    "The file": PluginManifest,
    "metadata": PluginMetadata,
    "spec": PluginSpec,
    "spec.runners[]": PluginRunner,
    "spec.runners[].capabilities": AgentRunnerCapabilities,
    "spec.runners[].permissions": AgentRunnerPermissions,
    "spec.runners[].config_schema[]": FormItem,
    "spec.runners[].config_schema[].options[]": FormOption,
    "spec.tools[]": PluginTool,
    "spec.tools[].flow": FlowBits,
}


@pytest.fixture
def manifest_page(pages: dict[str, Any]) -> Any:
    return pages["docs/reference/plugin-manifest.md"]


@pytest.fixture
def rows(manifest_page: Any) -> dict[str, dict[str, list[str]]]:
    """For each heading, the cells of each row after its first cell."""
    found: dict[str, dict[str, list[str]]] = {}
    for part in re.split(r"^## ", manifest_page.prose, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        table = [
            [cell.strip() for cell in line.strip("| ").split(" | ")] for line in body.splitlines() if line[:3] == "| `"
        ]
        found[title.replace("`", "")] = {cells[0].strip("`"): cells[1:] for cells in table}
    return found


@pytest.mark.parametrize("title", SECTIONS)
def test_every_field_has_its_row_and_no_other(rows: dict[str, dict[str, list[str]]], title: str) -> None:
    assert list(rows[title]) == list(SECTIONS[title].model_fields)


@pytest.mark.parametrize("title", [title for title in SECTIONS if "permissions" not in title])
def test_every_row_gives_required_or_the_default(rows: dict[str, dict[str, list[str]]], title: str) -> None:
    for name, field in SECTIONS[title].model_fields.items():
        said = rows[title][name][1]
        if field.is_required():
            assert said == "required", f"{title}.{name}"
        elif isinstance(field.default, bool):
            assert said == f"`{str(field.default).lower()}`", f"{title}.{name}"
        elif field.default is None:
            assert said == "absent", f"{title}.{name}"
        else:
            assert said == "empty", f"{title}.{name}"
            assert field.default in ((), PydanticUndefined)


def test_every_permission_is_listed_with_its_operations(rows: dict[str, dict[str, list[str]]]) -> None:
    for name, field in AgentRunnerPermissions.model_fields.items():
        operations = get_args(get_args(field.annotation)[0])
        assert re.findall(r"`(\w+)`", rows["spec.runners[].permissions"][name][0]) == list(operations)


def test_every_form_type_is_listed_with_its_selection(rows: dict[str, dict[str, list[str]]]) -> None:
    listed = rows["Form types"]
    assert list(listed) == list(get_args(FormType))
    assert {name for name, cells in listed.items() if cells[1] == "yes"} == SELECTOR_TYPES


def test_the_old_names_of_form_types_are_documented(manifest_page: Any) -> None:
    for old, current in LEGACY_FORM_TYPES.items():
        assert f"`{old}` is `{current}`" in manifest_page.prose


def test_the_example_is_a_manifest(manifest_page: Any) -> None:
    examples = [block for block in manifest_page.blocks if block.language == "yaml"]
    assert len(examples) == 1
    PluginManifest.from_wire(yaml.safe_load(examples[0].text))
