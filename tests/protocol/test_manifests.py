"""Manifests, names and forms: strict, and read by people who must not be fooled (§2)."""

import typing

import pytest
from pydantic import ValidationError
from tests.tables import for_each

from bollard.protocol import (
    LEGACY_FORM_TYPES,
    SELECTOR_TYPES,
    AgentRunnerDiscovery,
    AgentRunnerManifest,
    AgentRunnerPermissions,
    FormItem,
    FormType,
    PluginIdentity,
    PluginManifest,
    PluginMetadata,
    PluginRunner,
    PluginSandbox,
    PluginTool,
    ToolDefinition,
    limits,
    runner_id,
)
from bollard.protocol.form import unknown_placeholders, with_display_texts

MANIFEST = {"id": "plugin:acme/helpdesk/default", "name": "default", "label": {"en_US": "Help desk"}}
DISCOVERY = {"plugin_author": "acme", "plugin_name": "helpdesk", "runner_name": "default", "manifest": MANIFEST}
ITEM = {"name": "tone", "type": "string", "label": {"en_US": "Tone"}}
DISPLAY = {"name": "callback", "type": "display", "label": {"en_US": "Callback URL"}, "default": "{host_url}/x"}

LOOK_ALIKES = {
    "empty": "",
    "upper case": "Acme",
    "cyrillic a": "\u0430cme",
    "greek omicron": "g\u03bf\u03bfgle",
    "full width": "\uff41cme",
    "mathematical bold": "\U0001d41acme",
    "dotless i": "l\u0131nk",
    "long s": "\u017fhop",
    "combining mark": "cafe\u0301",
    "composed accent": "caf\u00e9",
    "chinese": "客服",
    "bidi override": "acme\u202eexe",
    "bidi isolate": "acme\u2066x",
    "right-to-left mark": "acme\u200f",
    "zero-width space": "ac\u200bme",
    "zero-width joiner": "ac\u200dme",
    "byte order mark": "\ufeffacme",
    "soft hyphen": "ac\u00adme",
    "tag character": "acme\U000e0041",
    "variation selector": "acme\ufe0f",
    "non-ascii digit": "acme\u0661",
    "non-ascii hyphen": "ac\u2010me",
    "escape": "acme\x1b[31m",
    "null": "acme\x00",
    "line end": "acme\n",
    "space": "ac me",
    "slash": "acme/other",
    "path upward": "../acme",
    "hidden": ".acme",
    "dash first": "-acme",
    "colon": "acme:x",
    "too long": "a" * (limits.NAME_CHARACTERS + 1),
}


def refused(shape, wire) -> list[str]:
    with pytest.raises(ValidationError) as refusal:
        shape.from_wire(wire)
    return [".".join(str(step) for step in error["loc"]) for error in refusal.value.errors()]


@pytest.mark.requirement("P02-11")
@for_each("name", LOOK_ALIKES.values(), ids=LOOK_ALIKES)
@for_each(
    ("shape", "field"),
    [
        (AgentRunnerDiscovery, "plugin_author"),
        (AgentRunnerDiscovery, "plugin_name"),
        (AgentRunnerDiscovery, "runner_name"),
        (AgentRunnerManifest, "name"),
        (PluginMetadata, "author"),
        (PluginMetadata, "name"),
        (PluginRunner, "name"),
        (PluginTool, "name"),
        (PluginIdentity, "author"),
        (PluginIdentity, "name"),
        (ToolDefinition, "name"),
    ],
)
def test_a_confusable_name_is_refused(shape, field, name, goldens) -> None:
    assert field in refused(shape, {**goldens[shape.__name__].minimal, field: name})


@for_each("name", ["a", "0", "help-desk", "help.desk_2", "a" * limits.NAME_CHARACTERS])
def test_plain_names_are_accepted(name, goldens) -> None:
    assert PluginTool.from_wire({**goldens["PluginTool"].minimal, "name": name}).name == name


@pytest.mark.requirement("P02-02")
def test_the_id_of_a_runner_is_computed_and_never_trusted() -> None:
    assert runner_id("acme", "helpdesk", "default") == "plugin:acme/helpdesk/default"
    assert AgentRunnerDiscovery.from_wire(DISCOVERY).manifest.id == "plugin:acme/helpdesk/default"
    for stolen in ("plugin:bollard/official/default", "plugin:acme/helpdesk/other", "default", ""):
        with pytest.raises(ValidationError, match="this runner's id is 'plugin:acme/helpdesk/default'"):
            AgentRunnerDiscovery.from_wire({**DISCOVERY, "manifest": {**MANIFEST, "id": stolen}})


def test_a_manifest_cannot_name_another_runner_than_its_entry() -> None:
    with pytest.raises(ValidationError, match="runner_name is 'default'"):
        AgentRunnerDiscovery.from_wire({**DISCOVERY, "manifest": {**MANIFEST, "name": "other"}})


@pytest.mark.requirement("P02-04")
@for_each("label", [{}, {"zh_Hans": "客服台"}, {"en_US": ""}, {"en_US": " \t"}, {"en_us": "Help"}])
@for_each("shape", [AgentRunnerManifest, PluginMetadata, PluginRunner])
def test_a_label_needs_english(shape, label, goldens) -> None:
    assert refused(shape, {**goldens[shape.__name__].minimal, "label": label}) == ["label"]


def test_a_label_is_text_by_locale() -> None:
    assert refused(AgentRunnerManifest, {**MANIFEST, "label": "Help desk"}) == ["label"]
    assert refused(AgentRunnerManifest, {**MANIFEST, "label": {"en_US": 1}}) == ["label.en_US"]


def test_labels_and_descriptions_have_a_limit(goldens) -> None:
    longest = "长" * limits.TEXT_CHARACTERS
    for field in ("label", "description"):
        assert AgentRunnerManifest.from_wire({**MANIFEST, field: {"en_US": longest}})
        assert refused(AgentRunnerManifest, {**MANIFEST, field: {"en_US": longest + "!"}}) == [f"{field}.en_US"]
    for shape in (PluginTool, ToolDefinition):
        assert refused(shape, {**goldens[shape.__name__].minimal, "description": longest + "!"}) == ["description"]


@pytest.mark.requirement("P02-09")
def test_two_fields_of_a_form_cannot_share_a_name() -> None:
    with pytest.raises(ValidationError, match="config_schema names tone twice"):
        AgentRunnerManifest.from_wire({**MANIFEST, "config_schema": [ITEM, {**ITEM, "name": "other"}, ITEM]})


def test_a_form_has_a_limit() -> None:
    items = [{**ITEM, "name": f"item_{number}"} for number in range(limits.FORM_ITEMS + 1)]
    assert AgentRunnerManifest.from_wire({**MANIFEST, "config_schema": items[:-1]})
    assert refused(AgentRunnerManifest, {**MANIFEST, "config_schema": items}) == ["config_schema"]


@for_each("kind", typing.get_args(FormType))
def test_every_form_type_reads_back_the_same(kind) -> None:
    item = {**ITEM, "type": kind} if kind != "display" else {**DISPLAY}
    assert FormItem.from_wire(item).to_wire()["type"] == kind


@for_each("change", [{"default": None}, {"default": " "}, {"default": 1}, {"required": True}, {"options": []}])
def test_a_display_row_has_a_text_and_no_input(change) -> None:
    assert refused(FormItem, {**DISPLAY, **change}) == [""]


def test_the_host_fills_placeholders_of_a_display_row_and_leaves_others() -> None:
    row = FormItem.from_wire({**DISPLAY, "default": "{host_url}/x/{secret}/{"})
    [shown] = with_display_texts([row], {"host_url": "https://a.example"})
    assert shown.default == "https://a.example/x/{secret}/{"
    assert unknown_placeholders(row) == ["secret"]


@for_each("kind", [*SELECTOR_TYPES, "secret", "display"])
def test_what_people_choose_cannot_be_locked(kind) -> None:
    item = {**ITEM, "type": kind, "default": "x", "locked": {"en_US": "No."}}
    assert refused(FormItem, item) == [""]


def test_a_locked_field_needs_a_default() -> None:
    item = {"name": "region", "type": "string", "label": {"en_US": "Region"}, "locked": {"en_US": "Agreed."}}
    assert refused(FormItem, item) == [""]
    assert FormItem.from_wire({**item, "default": ""}).locked == {"en_US": "Agreed."}


@pytest.mark.requirement("P02-08")
@pytest.mark.parametrize(("old", "new"), LEGACY_FORM_TYPES.items())
def test_an_old_form_type_is_read_and_written_by_its_new_name(old, new) -> None:
    item = FormItem.from_wire({**ITEM, "type": old})
    assert item.type == item.to_wire()["type"] == new
    assert new in SELECTOR_TYPES


@pytest.mark.requirement("P02-08")
@for_each("kind", ["String", "number", "", None, 1, ["string"]])
def test_an_unknown_form_type_is_refused(kind) -> None:
    assert refused(FormItem, {**ITEM, "type": kind}) == ["type"]


@pytest.mark.requirement("P02-06")
@for_each("key", AgentRunnerPermissions.model_fields)
def test_a_permission_is_one_of_its_listed_values(key) -> None:
    for everything in (["*"], ["all"], ["INVOKE"], [True]):
        assert refused(AgentRunnerPermissions, {key: everything}) == [f"{key}.0"]
    assert refused(AgentRunnerPermissions, {key: "*"}) == [key]
    assert refused(AgentRunnerPermissions, {key: None}) == [key]


def test_an_unknown_permission_is_refused() -> None:
    assert refused(AgentRunnerPermissions, {"state": ["get"]}) == ["state"]


@pytest.mark.requirement("P02-10")
@for_each("entry", ["runner", "runner:", ":echo", "runner.py:echo()", "a/b:c", "a..b:c", "os:system;x"])
def test_an_entry_is_a_module_and_an_attribute(entry, goldens) -> None:
    assert refused(PluginRunner, {**goldens["PluginRunner"].minimal, "entry": entry}) == ["entry"]


@pytest.mark.requirement("P02-10")
@pytest.mark.parametrize(("field", "value"), [("apiVersion", "bollard/v2"), ("kind", "Agent"), ("kind", "plugin")])
def test_a_manifest_of_another_kind_is_refused(field, value, goldens) -> None:
    assert refused(PluginManifest, {**goldens["PluginManifest"].minimal, field: value}) == [field]


def test_a_tool_without_a_declared_flow_has_all_three_bits(goldens) -> None:
    tool = PluginTool.from_wire({**goldens["PluginTool"].minimal, "flow": {}})
    assert tool.flow is not None
    assert all(tool.flow.to_wire().values())


@for_each(
    ("sandbox", "field"),
    [
        ({"network": "all"}, "network.mode"),
        ({"network": []}, "network.names"),
        ({"network": ["a.org"] * (limits.SANDBOX_NAMES + 1)}, "network.names"),
        ({"network": ["Api.example.org"]}, "network.names.0"),
        ({"network": ["https://a.org"]}, "network.names.0"),
        ({"network": ["*"]}, "network.names.0"),
        ({"network": ["*.org"]}, "network.names.0"),
        ({"network": ["a.*.org"]}, "network.names.0"),
        ({"network": ["a.org:0"]}, "network.names.0"),
        ({"network": ["a.org:65536"]}, "network.names.0"),
        ({"network": ["a..org"]}, "network.names.0"),
        ({"read": ["srv"]}, "read.0"),
        ({"read": ["/"]}, "read.0"),
        ({"write": ["/srv/../etc"]}, "write.0"),
        ({"write": ["/srv/"]}, "write.0"),
        ({"write": ["/srv/a\nb"]}, "write.0"),
        ({"read": ["/a"] * (limits.SANDBOX_PATHS + 1)}, "read"),
        ({"memory_mib": 1}, "memory_mib"),
        ({"memory_mib": "512"}, "memory_mib"),
        ({"cpu": 0}, "cpu"),
        ({"disk": 1}, "disk"),
    ],
)
def test_a_need_outside_of_the_limits_is_refused(sandbox, field) -> None:
    assert refused(PluginSandbox, sandbox)[0] == field


def test_a_plugin_without_needs_has_no_network() -> None:
    assert PluginSandbox().network == "none"
    assert PluginSandbox.from_wire({"network": ["*.example.org:8443"]}).network == ("*.example.org:8443",)
