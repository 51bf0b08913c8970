"""Lists of runners and tools: an invalid entry gives a named problem and does not hide the others."""

from typing import Any

import pytest
from tests.tables import for_each

from bollard.protocol import PluginIdentity, limits
from bollard.wire.catalogue import read_runners, read_tools

PLUGIN = PluginIdentity(author="acme", name="helpdesk", version="1")


def runner(name: str = "default", author: str = "acme", plugin: str = "helpdesk", **manifest: Any) -> dict[str, Any]:
    described = {"id": f"plugin:{author}/{plugin}/{name}", "name": name, "label": {"en_US": name}, **manifest}
    return {"plugin_author": author, "plugin_name": plugin, "runner_name": name, "manifest": described}


def tool(name: str) -> dict[str, Any]:
    return {"name": name, "description": "does it", "input_schema": {"type": "object"}}


@pytest.mark.requirement("P02-13")
@for_each(
    "bad",
    [
        None,
        1,
        "x",
        [],
        {},
        {"runner_name": "bad"},
        runner("bad", unknown=1),
        runner("bad", label={}),
        runner("bad", id="plugin:acme/helpdesk/other"),
        runner("bad", author="other"),
        runner("bad", plugin="other"),
        runner("BAD"),
        runner("bad", config_schema=[{"name": "x"}]),
    ],
)
def test_one_invalid_runner_is_named_and_hides_no_other(bad: Any) -> None:
    for place in range(3):
        entries = [runner("first"), runner("second")]
        entries.insert(place, bad)
        read = read_runners({"runners": entries}, PLUGIN)
        assert [found.runner_name for found in read.runners] == ["first", "second"]
        assert len(read.problems) == 1
        assert read.problems[0].entry
        assert read.problems[0].problem


def test_a_forged_entry_does_not_hide_the_runner_of_that_name() -> None:
    read = read_runners({"runners": [runner(author="other"), runner()]}, PLUGIN)
    assert [found.plugin_author for found in read.runners] == ["acme"]
    assert [problem.field for problem in read.problems] == ["plugin_name"]


def test_the_first_of_two_runners_of_one_name_counts() -> None:
    read = read_runners({"runners": [runner(metadata={"n": 1}), runner(metadata={"n": 2})]}, PLUGIN)
    assert [found.manifest.metadata for found in read.runners] == [{"n": 1}]
    assert [problem.field for problem in read.problems] == ["runner_name"]


def test_runners_beyond_the_limit_are_not_read_and_reported() -> None:
    most = limits.RUNNERS_PER_PLUGIN
    read = read_runners({"runners": [runner(f"r{number}") for number in range(most + 1)]}, PLUGIN)
    assert len(read.runners) == most
    assert f"{most + 1} entries" in read.problems[0].problem
    assert not read_runners({"runners": [runner(f"r{number}") for number in range(most)]}, PLUGIN).problems


@for_each("answer", [None, [], 1, {}, {"runners": None}, {"runners": {}}, {"runners": "x"}])
def test_an_answer_without_a_list_is_one_problem(answer: Any) -> None:
    read = read_runners(answer, PLUGIN)
    assert not read.runners
    assert len(read.problems) == 1


def test_an_entry_with_an_endless_name_is_named_briefly() -> None:
    read = read_runners({"runners": [{"runner_name": "x" * 100_000}]}, PLUGIN)
    assert len(read.problems[0].entry) <= limits.NAME_CHARACTERS


@for_each("bad", [None, {}, {"name": "bad"}, {**tool("bad"), "unknown": 1}, {**tool("bad"), "input_schema": []}])
def test_one_invalid_tool_is_named_and_hides_no_other(bad: Any) -> None:
    read = read_tools({"tools": [tool("first"), bad, tool("second"), tool("first")]})
    assert [found.name for found in read.tools] == ["first", "second"]
    assert len(read.problems) == 2
    assert read.problems[1].field == "name"


def test_tools_beyond_the_limit_are_not_read_and_reported() -> None:
    most = limits.TOOLS_PER_PLUGIN
    read = read_tools({"tools": [tool(f"t{number}") for number in range(most + 1)]})
    assert len(read.tools) == most
    assert len(read.problems) == 1
