"""Every accepted value is written so that it reads the same again: one strategy, derived from the annotations."""

import json
from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from bollard.protocol import (
    LEGACY_FORM_TYPES,
    SELECTOR_TYPES,
    AgentRunnerDiscovery,
    AgentRunnerManifest,
    FormItem,
    JsonValue,
    Shape,
    limits,
    runner_id,
)
from bollard.protocol.export import SHAPES

Wire = st.SearchStrategy[Any]

INTEGERS = st.integers(-limits.INTEGER_MAX, limits.INTEGER_MAX)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXT = st.text(max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=2)
LOCALES = st.dictionaries(st.sampled_from(["en_US", "zh_Hans", "ja_JP"]), TEXT, max_size=2)


class Bounds:
    """The limits in the metadata of an annotation."""

    def __init__(self, metadata: tuple[Any, ...]) -> None:
        self.pattern: str | None = None
        self.low: float | None = None
        self.high: float | None = None
        self.shortest = 0
        self.longest: int | None = None
        self.needs_english = False
        self.checks: list[Callable[[str], str]] = []
        for item in flattened(metadata):
            self._take(item)

    def _take(self, item: Any) -> None:
        match item:
            case Ge(ge=value):
                self.low = value
            case Gt(gt=value):  # only integers have it
                self.low = value + 1
            case Le(le=value):
                self.high = value
            case Lt(lt=value):
                self.high = value - 1
            case MinLen(min_length=value):
                self.shortest = value
            case MaxLen(max_length=value):
                self.longest = value
            case AfterValidator(func=check):
                self.checks.append(check)
                self.needs_english |= check.__name__ == "_has_default_locale"
            case _:
                self.pattern = getattr(item, "pattern", None) or self.pattern


def flattened(metadata: tuple[Any, ...]) -> list[Any]:
    return [
        inner
        for item in metadata
        for inner in (flattened(tuple(item.metadata)) if isinstance(item, FieldInfo) else [item])
    ]


def text(bounds: Bounds) -> Wire:
    longest = bounds.longest or 4096
    if bounds.pattern is None:
        return st.text(min_size=bounds.shortest, max_size=min(longest, bounds.shortest + 12))
    anchorless = bounds.pattern.removeprefix("^").removesuffix("$")

    def is_accepted(value: str) -> bool:
        try:
            return bounds.shortest <= len(value) <= longest and all(check(value) == value for check in bounds.checks)
        except PydanticCustomError:
            return False

    return st.from_regex(anchorless, fullmatch=True).filter(is_accepted)


def numbers(kind: type, bounds: Bounds) -> Wire:
    if kind is int:
        low = -limits.INTEGER_MAX if bounds.low is None else int(bounds.low)
        return st.integers(low, limits.INTEGER_MAX if bounds.high is None else int(bounds.high))
    return st.floats(bounds.low, bounds.high, allow_nan=False, allow_infinity=False)


def mappings(value_type: Any, bounds: Bounds) -> Wire:
    if value_type is JsonValue:
        return OBJECT
    if get_args(value_type)[:1] == (str,):
        english = st.fixed_dictionaries({"en_US": st.text(min_size=1, max_size=12).filter(str.strip)})
        return st.builds(lambda some, one: {**some, **one}, LOCALES, english) if bounds.needs_english else LOCALES
    return st.dictionaries(TEXT, values(value_type), max_size=2)


def values(annotation: Any, metadata: tuple[Any, ...] = ()) -> Wire:
    """JSON values that a field with this annotation accepts."""
    if annotation is JsonValue:
        return JSON
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return values(arguments[0], (*metadata, *arguments[1:]))
    bounds = Bounds(metadata)
    if origin in (Union, UnionType):
        return st.one_of(*(values(member, metadata) for member in arguments))
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        longest = min(bounds.longest or 2, bounds.shortest + 2)
        return st.lists(values(arguments[0]), min_size=bounds.shortest, max_size=longest)
    if origin is dict:
        return mappings(arguments[1], bounds)
    if annotation is NoneType:
        return st.none()
    if annotation is bool:
        return st.booleans()
    if annotation is str:
        return text(bounds)
    if annotation in (int, float):
        return numbers(annotation, bounds)
    if isinstance(annotation, type) and issubclass(annotation, Shape):
        return wires(annotation)
    raise AssertionError(f"no strategy for {annotation!r}: teach this builder the new kind of field")


def is_tag(info: FieldInfo) -> bool:
    return get_origin(info.annotation) is Literal and len(get_args(info.annotation)) == 1


def named_once(manifest: dict[str, Any]) -> bool:
    names = [item["name"] for item in manifest.get("config_schema", [])]
    return len(names) == len(set(names))


def consistent(item: dict[str, Any]) -> dict[str, Any]:
    """A display row shows a text, and only a value that is no choice of people is locked."""
    if item["type"] == "display":
        kept = {name: item[name] for name in ("name", "type", "label", "description", "show_if") if name in item}
        return {**kept, "default": "{host_url}"}
    if item.get("locked") is not None and (
        item["type"] in {*SELECTOR_TYPES, *LEGACY_FORM_TYPES, "secret"} or item.get("default") is None
    ):
        return {name: value for name, value in item.items() if name != "locked"}
    return item


def with_its_id(discovery: dict[str, Any]) -> dict[str, Any]:
    name = discovery["runner_name"]
    computed = runner_id(discovery["plugin_author"], discovery["plugin_name"], name)
    return {**discovery, "manifest": {**discovery["manifest"], "id": computed, "name": name}}


@cache
def wires(shape: type[Shape]) -> Wire:
    """JSON objects that this shape accepts; fields that may be absent sometimes are."""
    # A field with one possible value tells the members of a union apart, so it is always there.
    always = {
        name: values(info.annotation, tuple(info.metadata))
        for name, info in shape.model_fields.items()
        if info.is_required() or is_tag(info)
    }
    sometimes = {
        name: values(info.annotation, tuple(info.metadata))
        for name, info in shape.model_fields.items()
        if name not in always
    }
    if shape.__name__ == "OtherContent":
        always["type"] = st.sampled_from(["hologram", "", "文本", "TEXT"])
    drawn = st.fixed_dictionaries(always, optional=sometimes)
    if shape is AgentRunnerManifest:
        return drawn.filter(named_once)
    if shape is FormItem:
        return drawn.map(consistent)
    return drawn.map(with_its_id) if shape is AgentRunnerDiscovery else drawn


@pytest.mark.requirement("P01-09")
@pytest.mark.parametrize("name", SHAPES)
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(data=st.data())
def test_a_written_shape_reads_back_the_same(name: str, data: st.DataObject) -> None:
    shape = SHAPES[name]
    value = shape.from_wire(data.draw(wires(shape)))
    wire = value.to_wire()
    assert shape.from_wire(wire) == value
    text_of_wire = json.dumps(wire, ensure_ascii=False, allow_nan=False)
    assert json.dumps(json.loads(text_of_wire), ensure_ascii=False) == text_of_wire
    assert shape.from_wire(json.loads(text_of_wire)).to_wire() == wire
