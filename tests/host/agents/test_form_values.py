"""A configuration against its form: all problems at once, defaults, and hidden fields without effect."""

from typing import Any, get_args

import pytest
from tests.tables import for_each

from bollard.host.agents.config_form import CONFIG_BYTES, EXPECTED, KEPT, config_from_wire, masked_config, secret_fields
from bollard.host.errors import InvalidRequest
from bollard.protocol import FormItem, FormType
from bollard.protocol.form import default_config, with_locked_values

OPTIONS = [{"value": "red"}, {"value": 1}, {"value": None}]


def item(name: str, kind: str = "string", **more: Any) -> FormItem:
    return FormItem.from_wire({"name": name, "type": kind, "label": {"en_US": name}, **more})


def problems_of(given: Any, *form: FormItem, before: Any = None) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as caught:
        config_from_wire(given, form, before=before)
    found: Any = caught.value.details["problems"]
    assert caught.value.details["field"] == found[0]["field"]
    assert all(problem["field"] in caught.value.message for problem in found)
    return {problem["field"]: problem["problem"] for problem in found}


GOOD: dict[str, list[Any]] = {
    "string": ["", "a"],
    "text": ["a\nb"],
    "secret": ["hunter2"],
    "prompt-editor": ["You are a parrot."],
    "integer": [0, -3, 2**53],
    "float": [0, 1.5, -2],
    "boolean": [True, False],
    "select": ["red", 1],
    "multi-select": [[], ["red", 1]],
    "array[string]": [[], ["a", ""]],
    "json": [0, "a", [1, {"b": None}], {}],
    "file": ["f1", "", "__none__"],
    "array[file]": [[], ["f1", "f2"], "__none__"],
    "llm-model-selector": ["m", "", "__none__"],
    "model-fallback-selector": [{"primary": "m", "fallbacks": ["n"]}, {}, {"primary": None, "fallbacks": []}, ""],
    "rerank-model-selector": ["r"],
    "embedding-model-selector": ["e"],
    "knowledge-base-multi-selector": [["k"], [], ""],
    "tool-multi-selector": [["search"], []],
    "outpost-selector": ["laptop"],
}
BAD: dict[str, list[Any]] = {
    "string": [1, True, ["a"], {}],
    "text": [1],
    "secret": [1, ["a"], KEPT],
    "prompt-editor": [[{"role": "system"}]],
    "integer": [1.0, "1", True, 2**53 + 1],
    "float": ["1", True, float("nan"), float("inf"), 10**400],
    "boolean": [0, 1, "true"],
    "select": ["blue", True, 2, ["red"]],
    "multi-select": ["red", ["blue"], [True], ["red"] * 1001],
    "array[string]": ["a", [1], ["a"] * 1001],
    "json": [],
    "file": [1, ["f1"], "f\u202e1", "x" * 257],
    "array[file]": ["f1", [1], ["f1"] * 1001],
    "llm-model-selector": [1, {"primary": "m"}, "m\u200b"],
    "model-fallback-selector": ["m", {"primary": 1}, {"fallbacks": "m"}, {"secondary": "m"}, {"fallbacks": [1]}],
    "rerank-model-selector": [["r"]],
    "embedding-model-selector": [False],
    "knowledge-base-multi-selector": ["k", [["k"]]],
    "tool-multi-selector": ["search", [None]],
    "outpost-selector": [{}],
}


def test_every_form_type_is_known() -> None:
    kinds = set(get_args(FormType)) - {"display"}  # it has no value
    assert set(GOOD) == set(BAD) == set(EXPECTED) == kinds


@for_each(("kind", "value"), [(kind, value) for kind, values in GOOD.items() for value in values])
def test_a_value_of_the_right_type_is_unchanged(kind: str, value: Any) -> None:
    form = item("x", kind, options=OPTIONS if kind in ("select", "multi-select") else None)
    assert config_from_wire({"x": value}, [form]) == {"x": value}


@for_each(("kind", "value"), [(kind, value) for kind, values in BAD.items() for value in values])
def test_a_value_of_another_type_is_refused_and_not_repeated(kind: str, value: Any) -> None:
    form = item("x", kind, options=OPTIONS if kind in ("select", "multi-select") else None)
    found = problems_of({"x": value}, form)
    assert list(found) == ["config.x"]
    assert found["config.x"].startswith(("should be ", "has no secret to keep"))
    assert "hunter2" not in found["config.x"]


def test_all_problems_are_reported_at_once() -> None:
    form = (item("a", "integer"), item("b", required=True), item("c", "select", options=OPTIONS), item("d"))
    found = problems_of({"a": "x", "c": "blue", "d": "fine", "e": 1}, *form)
    assert found == {
        "config.e": "is not a field; the form has a, b, c, d",
        "config.a": "should be a whole number between -2^53 and 2^53",
        "config.b": "is required: a text",
        "config.c": 'should be one of "red", 1, null',
    }


def test_a_form_without_fields_accepts_no_values() -> None:
    assert config_from_wire({}, ()) == {}
    assert problems_of({"a": 1}) == {"config.a": "is not a field; the form has no fields"}


def test_a_select_without_options_cannot_be_set() -> None:
    assert "offers no options" in problems_of({"a": "x"}, item("a", "select"))["config.a"]


def test_defaults_fill_in_missing_and_null_values() -> None:
    form = (item("a", default="x"), item("b", "integer", default=0, required=True), item("c"), item("d", default="y"))
    assert config_from_wire({"a": None, "d": "z"}, form) == {"a": "x", "b": 0, "d": "z"}
    assert default_config(form) == {"a": "x", "b": 0, "d": "y"}


@for_each(
    ("kind", "empty"),
    [
        ("string", ""),
        ("string", None),
        ("array[string]", []),
        ("llm-model-selector", "__none__"),
        ("llm-model-selector", ""),
        ("tool-multi-selector", []),
        ("tool-multi-selector", ["", "__none__"]),
        ("tool-multi-selector", "__none__"),
        ("model-fallback-selector", {}),
        ("model-fallback-selector", {"primary": "__none__", "fallbacks": ["m"]}),
        ("model-fallback-selector", ""),
    ],
)
def test_an_empty_value_is_refused_for_a_required_field(kind: str, empty: Any) -> None:
    found = problems_of({"a": empty}, item("a", kind, required=True))
    assert found["config.a"].startswith("is required: ")


@pytest.mark.parametrize(("kind", "value"), [("integer", 0), ("boolean", False), ("float", 0.0)])
def test_zero_and_false_fill_in_a_required_field(kind: str, value: Any) -> None:
    assert config_from_wire({"a": value}, [item("a", kind, required=True)]) == {"a": value}


def test_a_default_does_not_override_the_choice_of_none() -> None:
    form = [item("model", "llm-model-selector", default="big")]
    assert config_from_wire({"model": "__none__"}, form) == {"model": "__none__"}


def test_a_hidden_field_is_not_required_and_its_value_has_no_effect() -> None:
    form = (
        item("kind", "select", options=[{"value": "plain"}, {"value": "smart"}], default="plain"),
        item("model", "llm-model-selector", required=True, show_if={"kind": "smart"}),
        item("tools", "tool-multi-selector", default=["rm"], show_if={"kind": ["smart", "wise"]}),
    )
    assert config_from_wire({"model": "big", "tools": "nonsense"}, form) == {"kind": "plain"}
    assert default_config(form) == {"kind": "plain"}
    assert list(problems_of({"kind": "smart"}, *form)) == ["config.model"]
    shown = config_from_wire({"kind": "smart", "model": "big"}, form)
    assert shown == {"kind": "smart", "model": "big", "tools": ["rm"]}


def test_a_field_that_depends_on_a_hidden_field_is_hidden() -> None:
    form = (
        item("a", "boolean"),
        item("b", "boolean", show_if={"a": True}, default=True),
        item("c", required=True, show_if={"b": True}),
    )
    assert config_from_wire({"a": False, "c": "x"}, form) == {"a": False}
    assert config_from_wire({"a": True, "c": "x"}, form) == {"a": True, "b": True, "c": "x"}


def test_true_is_not_one_when_a_field_is_shown() -> None:
    form = (item("a", "json"), item("b", default="x", show_if={"a": True}))
    assert config_from_wire({"a": 1}, form) == {"a": 1}
    assert config_from_wire({"a": True}, form) == {"a": True, "b": "x"}


def test_fields_that_show_each_other_do_not_loop() -> None:
    form = (item("a", show_if={"b": "y"}), item("b", show_if={"a": "x"}), item("c", show_if={"c": "z"}))
    assert config_from_wire({"a": "x", "b": "y", "c": "z"}, form) == {"a": "x", "b": "y", "c": "z"}
    assert config_from_wire({"b": "y", "c": "other"}, form) == {}


def test_a_field_that_depends_on_an_unknown_one_is_hidden() -> None:
    assert config_from_wire({}, [item("a", required=True, show_if={"nowhere": "x"})]) == {}


def test_a_configuration_has_a_maximum_size() -> None:
    found = problems_of({"a": "x" * CONFIG_BYTES}, item("a"))
    assert found == {"config": f"is larger than {CONFIG_BYTES} bytes as JSON"}


def test_secrets_are_masked_and_a_saved_mask_keeps_the_secret() -> None:
    form = (item("key", "secret"), item("name"), item("spare", "secret"))
    config = config_from_wire({"key": "hunter2", "name": "ada", "spare": ""}, form)
    assert secret_fields(form) == {"key", "spare"}
    masked = masked_config(config, form)
    assert masked == {"key": KEPT, "name": "ada", "spare": ""}
    assert config_from_wire(masked, form, before=config) == config
    assert config_from_wire({**masked, "key": "new"}, form, before=config)["key"] == "new"


def test_a_mask_without_a_secret_is_refused() -> None:
    found = problems_of({"key": KEPT}, item("key", "secret"), before={})
    assert found == {"config.key": "has no secret to keep; enter it"}


def test_a_value_without_a_form_field_is_masked() -> None:
    assert masked_config({"key": "hunter2", "name": "ada"}, [item("name")]) == {"key": KEPT, "name": "ada"}


WHY = {"en_US": "Agreed with the customer.", "zh_Hans": "已与客户约定。"}


def test_a_display_row_has_no_value() -> None:
    form = (item("callback", "display", default="{host_url}/x"), item("name", default="ada"))
    assert config_from_wire({}, form) == {"name": "ada"}
    assert default_config(form) == {"name": "ada"}
    assert problems_of({"callback": "x"}, *form) == {"config.callback": "is display only; leave it out"}


def test_a_locked_field_has_its_default_and_refuses_another_value_with_the_reason() -> None:
    form = (item("region", default="eu", locked=WHY), item("steps", "integer", default=3, locked=WHY))
    assert config_from_wire({}, form) == {"region": "eu", "steps": 3}
    assert config_from_wire({"region": "eu", "steps": None}, form) == {"region": "eu", "steps": 3}
    with pytest.raises(InvalidRequest) as caught:
        config_from_wire({"region": "us", "steps": True}, form)
    assert caught.value.details["problems"] == [
        {
            "field": "config.region",
            "problem": 'is locked at "eu"; leave it out',
            "problem_type": "locked",
            "value": '"eu"',
            "locked": WHY,
        },
        {
            "field": "config.steps",
            "problem": "is locked at 3; leave it out",
            "problem_type": "locked",
            "value": "3",
            "locked": WHY,
        },
    ]


def test_the_value_of_a_locked_field_decides_which_fields_are_shown() -> None:
    form = (item("mode", default="plain", locked=WHY), item("detail", default="x", show_if={"mode": "deep"}))
    assert list(problems_of({"mode": "deep", "detail": "y"}, *form)) == ["config.mode"]
    assert with_locked_values({"mode": "deep"}, form) == {"mode": "plain"}


def test_a_hidden_locked_field_has_no_value() -> None:
    form = (
        item("deep", "boolean", default=False),
        item("depth", "integer", default=9, locked=WHY, show_if={"deep": True}),
    )
    assert config_from_wire({}, form) == {"deep": False}
    assert with_locked_values({"deep": True}, form) == {"deep": True, "depth": 9}
