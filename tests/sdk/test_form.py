"""A configuration model as a form, and a configuration as its instance."""

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, SecretStr
from tests.tables import for_each

from bollard.protocol import FormItem
from bollard.sdk import (
    ConfigError,
    DeclarationError,
    Display,
    EmbeddingModel,
    FallbackModels,
    File,
    Files,
    Form,
    KnowledgeBases,
    ModelFallback,
    ModelSelector,
    Outpost,
    Prompt,
    RerankModel,
    Text,
    Tools,
    form_of,
    parse_config,
)


class Colour(Enum):
    DARK_RED = "red"
    BLUE = "blue"


class Nested(BaseModel):
    x: int = 1


class Everything(BaseModel):
    name: str
    story: Text = ""
    prompt: Prompt = "You are kind."
    key: SecretStr = SecretStr("hidden")
    max_tokens: int = 100
    temperature: float | None = None
    loud: bool = False
    mode: Literal["fast", "deep"] = "fast"
    colour: Colour = Colour.BLUE
    tags: list[str] = Field(default_factory=list)
    colours: set[Literal["a", "b"]] = Field(default_factory=set)
    extra: dict[str, Any] = Field(default_factory=dict)
    nested: Nested = Nested()
    either: int | str = 1
    model: ModelSelector = None
    models: ModelFallback = None
    rerank: RerankModel = None
    embed: EmbeddingModel = None
    bases: KnowledgeBases = ()
    tools: Tools = ()
    outpost: Outpost = None
    file: File = None
    files: Files = ()


EXPECTED_TYPES = {
    "name": "string",
    "story": "text",
    "prompt": "prompt-editor",
    "key": "secret",
    "max_tokens": "integer",
    "temperature": "float",
    "loud": "boolean",
    "mode": "select",
    "colour": "select",
    "tags": "array[string]",
    "colours": "multi-select",
    "extra": "json",
    "nested": "json",
    "either": "json",
    "model": "llm-model-selector",
    "models": "model-fallback-selector",
    "rerank": "rerank-model-selector",
    "embed": "embedding-model-selector",
    "bases": "knowledge-base-multi-selector",
    "tools": "tool-multi-selector",
    "outpost": "outpost-selector",
    "file": "file",
    "files": "array[file]",
}


def item(model: type[BaseModel], name: str) -> FormItem:
    return next(found for found in form_of(model) if found.name == name)


def test_each_type_has_its_form_type():
    assert {found.name: found.type for found in form_of(Everything)} == EXPECTED_TYPES


def test_a_field_can_be_locked_and_a_text_displayed():
    class Settings(BaseModel):
        region: Annotated[str, Form(locked={"en_US": "Agreed.", "zh_Hans": "已约定。"})] = "eu"
        depth: Annotated[int, Form(locked="Agreed.")] = 3
        callback: Display = "{host_url}/hooks/x"

    assert item(Settings, "region").locked == {"en_US": "Agreed.", "zh_Hans": "已约定。"}
    assert item(Settings, "depth").locked == {"en_US": "Agreed."}
    assert (item(Settings, "callback").type, item(Settings, "callback").default) == ("display", "{host_url}/hooks/x")
    assert parse_config(Settings, {"region": "eu", "depth": 3}).callback == "{host_url}/hooks/x"


def test_a_lock_is_inherited_by_a_field_of_the_same_type():
    class Settings(BaseModel):
        region: Annotated[str, Form(locked="Agreed.")] = "eu"

    class Narrower(Settings):
        region: str = "eu-central"

    assert item(Narrower, "region").locked == {"en_US": "Agreed."}


def test_a_lock_without_a_default_is_refused():
    class Settings(BaseModel):
        region: Annotated[str, Form(locked="Agreed.")]

    with pytest.raises(DeclarationError, match="needs a default"):
        form_of(Settings)


def test_required_and_default_follow_the_model():
    assert item(Everything, "name").required
    assert item(Everything, "name").default is None
    assert not item(Everything, "max_tokens").required
    assert item(Everything, "max_tokens").default == 100
    assert item(Everything, "colour").default == "blue"
    assert item(Everything, "nested").default == {"x": 1}


def test_the_default_of_a_secret_never_leaves_the_code():
    assert item(Everything, "key").default is None


def test_choices_are_options_with_labels():
    assert [(option.value, option.label) for option in item(Everything, "colour").options or ()] == [
        ("red", {"en_US": "Dark red"}),
        ("blue", {"en_US": "Blue"}),
    ]
    assert [option.value for option in item(Everything, "colours").options or ()] == ["a", "b"]


def test_labels_come_from_the_form_the_title_or_the_name():
    class Labelled(BaseModel):
        max_tokens: int = 1
        b: int = Field(default=1, title="Second", description="what b is")
        c: Annotated[int, Form(label={"en_US": "Third", "zh_Hans": "第三"}, show_if={"b": [1, 2]})] = 1
        d: Annotated[Literal["x", "y"], Form(options={"x": {"en_US": "The x", "zh_Hans": "甲"}})] = "x"

    assert item(Labelled, "max_tokens").label == {"en_US": "Max tokens"}
    assert item(Labelled, "b").label == {"en_US": "Second"}
    assert item(Labelled, "b").description == {"en_US": "what b is"}
    assert item(Labelled, "c").label["zh_Hans"] == "第三"
    assert item(Labelled, "c").show_if == {"b": [1, 2]}
    options = item(Labelled, "d").options or ()
    assert [option.label for option in options] == [{"en_US": "The x", "zh_Hans": "甲"}, {"en_US": "y"}]


def test_a_selector_may_be_optional_and_have_its_own_label():
    class Selecting(BaseModel):
        one: ModelSelector | None = None
        two: Annotated[ModelSelector, Form(label="Judge")] = None

    assert item(Selecting, "one").type == "llm-model-selector"
    assert (item(Selecting, "two").type, item(Selecting, "two").label) == ("llm-model-selector", {"en_US": "Judge"})


def test_an_alias_is_the_name_in_the_form_and_in_the_configuration():
    class Aliased(BaseModel):
        model: ModelSelector = Field(default=None, alias="model-id")

    assert item(Aliased, "model-id").type == "llm-model-selector"
    assert parse_config(Aliased, {"model-id": "__none__"}).model is None


def test_a_default_that_is_not_json_is_refused_by_name():
    class Odd(BaseModel):
        thing: Any = object()

    with pytest.raises(DeclarationError) as caught:
        form_of(Odd)
    assert caught.value.subject == "configuration Odd.thing"
    assert caught.value.hint


def test_an_invalid_form_name_is_refused():
    class Odd(BaseModel):
        thing: int = Field(default=1, alias="not a name")

    with pytest.raises(DeclarationError, match="name"):
        form_of(Odd)


@pytest.mark.parametrize("nothing", ["", "__none__"])
def test_an_empty_selection_is_none_or_empty(nothing):
    config = parse_config(
        Everything,
        {
            "name": "n",
            "model": nothing,
            "models": {"primary": nothing, "fallbacks": [nothing, "b"]},
            "rerank": nothing,
            "embed": nothing,
            "outpost": nothing,
            "file": nothing,
            "bases": nothing,
            "tools": [nothing, "search"],
            "files": [],
        },
    )
    assert (config.model, config.rerank, config.embed, config.outpost, config.file) == (None,) * 5
    assert config.models == FallbackModels(primary=None, fallbacks=("b",))
    assert (config.bases, config.tools, config.files) == ((), ("search",), ())
    assert parse_config(Everything, {"name": "n", "models": nothing}).models is None


def test_an_empty_text_stays_an_empty_text():
    assert parse_config(Everything, {"name": "", "story": "__none__"}).story == "__none__"


def test_a_missing_required_selection_is_refused_by_name():
    class Needing(BaseModel):
        model: Annotated[str, Form("llm-model-selector")]

    assert parse_config(Needing, {"model": "gpt"}).model == "gpt"
    with pytest.raises(ConfigError) as caught:
        parse_config(Needing, {"model": ""})
    assert caught.value.field == "model"


@for_each(
    ("raw", "field"),
    [
        ({}, "name"),
        ({"name": 3}, "name"),
        ({"name": "n", "max_tokens": "many"}, "max_tokens"),
        ({"name": "n", "mode": "slow"}, "mode"),
        ({"name": "n", "nested": {"x": "y"}}, "nested.x"),
        ({"name": "n", "bases": "one"}, "bases"),
        ({"name": "n", "models": {"primary": 3}}, "models"),
        ({"name": "n", "tools": [3]}, "tools"),
    ],
)
def test_a_wrong_configuration_names_its_field(raw, field):
    with pytest.raises(ConfigError) as caught:
        parse_config(Everything, raw)
    assert caught.value.field.startswith(field)
    assert field in str(caught.value)


def test_a_wrong_secret_is_not_repeated_in_the_error():
    class Guarded(BaseModel):
        key: Annotated[SecretStr, Field(min_length=100)]

    with pytest.raises(ConfigError) as caught:
        parse_config(Guarded, {"key": "hunter2"})
    assert "hunter2" not in str(caught.value)
