"""The configuration of an agent: validated against the form of its runner, completed with defaults, and masked.

A value that is `null` was not filled in. A field that `show_if` hides has no effect: it is not required, and what was
given for it is not kept, so that nothing a person cannot see selects a model or a tool. A locked field has its default,
and a `display` row has no value.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import msgspec

from bollard.host.agents.names import ID_CHARACTERS, visible
from bollard.host.errors import InvalidRequest
from bollard.host.secrets.references import is_chosen, is_reference, referred
from bollard.protocol import NOTHING_SELECTED, FormItem, FormType, JsonObject, JsonValue
from bollard.protocol.form import same_json, visible_fields
from bollard.protocol.limits import INTEGER_MAX, KIB

# --- values: a problem never contains the value, which may be a secret ---


LIST_ITEMS: Final = 1000
"""Items of one list in a configuration."""


def is_empty(kind: FormType, value: JsonValue) -> bool:
    """Whether the value counts as missing for `required`."""
    if kind == "model-fallback-selector" and isinstance(value, dict):
        return value.get("primary") in (None, *NOTHING_SELECTED)
    if kind in _MANY and isinstance(value, list):
        return not any(item not in NOTHING_SELECTED for item in value)
    if kind in _ONE or kind in _MANY:
        return value is None or value in NOTHING_SELECTED
    return value is None or value in ("", [])


class ConfigProblem:
    """One problem of a configuration: its type and the values of its text, by which translations are found, and the
    text."""

    def __init__(self, problem_type: str, text: str, /, **values: JsonValue) -> None:
        self.text = text
        self.details: JsonObject = {"problem": text, "problem_type": problem_type, **values}


def problem_of(item: FormItem, value: JsonValue) -> ConfigProblem | None:
    """The problem of a value, or `None`."""
    if item.type == "display":
        return ConfigProblem("display_only", "is display only; leave it out")
    if item.locked is not None and not same_json(value, item.default):
        value_text = msgspec.json.encode(item.default).decode()
        text = f"is locked at {value_text}; leave it out"
        return ConfigProblem("locked", text, value=value_text, locked={**item.locked})
    if item.type == "select":
        is_chosen_one = any(same_json(value, option) for option in _options(item))
        return None if is_chosen_one else _choose("choose_one", "one", item)
    if item.type == "multi-select":
        listed = isinstance(value, list) and len(value) <= LIST_ITEMS
        chosen = value if isinstance(value, list) else ()
        fits = listed and all(any(same_json(one, option) for option in _options(item)) for one in chosen)
        return None if fits else _choose("choose_some", "a list of some", item)
    if _FITS[item.type](value):
        return None
    return ConfigProblem(f"form.{item.type}", f"should be {EXPECTED[item.type]}", limit=LIST_ITEMS)


def _options(item: FormItem) -> list[JsonValue]:
    return [option.value for option in item.options or ()]


def _choose(problem_type: str, how_many: str, item: FormItem) -> ConfigProblem:
    options = ", ".join(msgspec.json.encode(option).decode() for option in _options(item))
    if not options:
        return ConfigProblem("no_options", "cannot be set: its form offers no options")
    return ConfigProblem(problem_type, f"should be {how_many} of {options}", options=options)


def _is_text(value: JsonValue) -> bool:
    return isinstance(value, str)


def _is_integer(value: JsonValue) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= INTEGER_MAX


def _is_number(value: JsonValue) -> bool:
    return _is_integer(value) or (isinstance(value, float) and math.isfinite(value))


def _is_texts(value: JsonValue) -> bool:
    return isinstance(value, list) and len(value) <= LIST_ITEMS and all(isinstance(one, str) for one in value)


def _is_id(value: JsonValue) -> bool:
    if not isinstance(value, str) or len(value) > ID_CHARACTERS:
        return False
    try:
        return visible(value) == value
    except ValueError:
        return False


def _is_ids(value: JsonValue) -> bool:
    if isinstance(value, str):
        return value in NOTHING_SELECTED
    return isinstance(value, list) and len(value) <= LIST_ITEMS and all(_is_id(one) for one in value)


def _is_fallback(value: JsonValue) -> bool:
    if isinstance(value, str):
        return value in NOTHING_SELECTED
    if not isinstance(value, dict) or not value.keys() <= {"primary", "fallbacks"}:
        return False
    primary, fallbacks = value.get("primary"), value.get("fallbacks")
    return (primary is None or _is_id(primary)) and (fallbacks is None or _is_ids(fallbacks))


_ONE: Final = frozenset(
    {"file", "llm-model-selector", "model-fallback-selector", "rerank-model-selector"}
    | {"embedding-model-selector", "outpost-selector"}
)
_MANY: Final = frozenset({"array[file]", "knowledge-base-multi-selector", "tool-multi-selector"})
_FITS: Final[Mapping[FormType, Callable[[JsonValue], bool]]] = MappingProxyType(  # all types with a value
    {
        "string": _is_text,
        "text": _is_text,
        "secret": _is_text,
        "prompt-editor": _is_text,
        "integer": _is_integer,
        "float": _is_number,
        "boolean": lambda value: isinstance(value, bool),
        "array[string]": _is_texts,
        "json": lambda _: True,
        "file": _is_id,
        "array[file]": _is_ids,
        "llm-model-selector": _is_id,
        "model-fallback-selector": _is_fallback,
        "rerank-model-selector": _is_id,
        "embedding-model-selector": _is_id,
        "knowledge-base-multi-selector": _is_ids,
        "tool-multi-selector": _is_ids,
        "outpost-selector": _is_id,
    }
)
EXPECTED: Final[Mapping[FormType, str]] = MappingProxyType(
    {
        "string": "a text",
        "text": "a text",
        "secret": "a text",
        "prompt-editor": "a text",
        "integer": "a whole number between -2^53 and 2^53",
        "float": "a number",
        "boolean": "true or false",
        "select": "one of its options",
        "multi-select": "a list of its options",
        "array[string]": f"a list of at most {LIST_ITEMS} texts",
        "json": "a JSON value",
        "file": "the id of a file",
        "array[file]": f"a list of at most {LIST_ITEMS} file ids",
        "llm-model-selector": "the id of a model",
        "model-fallback-selector": "an object with primary, the id of a model, and fallbacks, a list of them",
        "rerank-model-selector": "the id of a rerank model",
        "embedding-model-selector": "the id of an embedding model",
        "knowledge-base-multi-selector": f"a list of at most {LIST_ITEMS} knowledge base ids",
        "tool-multi-selector": f"a list of at most {LIST_ITEMS} tool names",
        "outpost-selector": "the id of an outpost",
    }
)


CONFIG_BYTES: Final = 256 * KIB
"""One configuration, as JSON."""
KEPT: Final = "__kept__"
"""Replaces a secret in responses. In a request it means the stored secret."""


def secret_fields(form: Sequence[FormItem]) -> frozenset[str]:
    """The fields with secret values."""
    return frozenset(item.name for item in form if item.type == "secret")


def masked_config(config: JsonObject, form: Sequence[FormItem]) -> JsonObject:
    """The configuration as people see it. What the form does not know may be a secret, so it is not shown either. Where
    a secret is kept under a name that people chose, the name is shown."""
    open_fields = {item.name for item in form} - secret_fields(form)
    return {
        name: value if name in open_fields or not value or _is_name(value) else KEPT for name, value in config.items()
    }


def _is_name(value: JsonValue) -> bool:
    return isinstance(value, str) and is_reference(value) and is_chosen(referred(value))


def unset_fields(config: JsonObject, form: Sequence[FormItem]) -> list[str]:
    """The required fields without a value. A saved configuration has none; the defaults of a runner may have some."""
    shown = visible_fields(form, config)
    return [
        item.name for item in form if item.required and shown(item.name) and is_empty(item.type, config.get(item.name))
    ]


def config_from_wire(given: JsonObject, form: Sequence[FormItem], *, before: JsonObject | None = None) -> JsonObject:
    """The complete configuration. Raises one error with all problems. `before` has the stored secrets."""
    filled = _with_kept_secrets(given, form, before or {})
    config: JsonObject = {}
    problems = _unknown(given, form)
    shown = visible_fields(form, filled)
    for item in form:
        if not shown(item.name):
            continue
        value = filled.get(item.name)
        if value is None:
            value = (
                None if item.type == "display" else item.default
            )  # defaults come from the plugin and are not checked
        elif problem := _problem(item, value):
            problems[item.name] = problem
            continue
        if item.required and is_empty(item.type, value):
            problems[item.name] = ConfigProblem("required", f"is required: {EXPECTED[item.type]}")
        elif value is not None:
            config[item.name] = value
    if problems:
        raise _refused({f"config.{name}": problem for name, problem in problems.items()}, _INVALID_CONFIG)
    if len(msgspec.json.encode(config)) > CONFIG_BYTES:
        text = f"is larger than {CONFIG_BYTES} bytes as JSON"
        raise _refused({"config": ConfigProblem("config_too_large", text, limit=CONFIG_BYTES)}, _INVALID_CONFIG)
    return config


def refuse_unknown_files(
    config: JsonObject, form: Sequence[FormItem], added: Iterable[str], is_there: Callable[[str], bool]
) -> None:
    """Refuse a configuration that names, or a policy that has `added`, a missing file. A model or a tool may be
    absent for a while; a deleted file does not return."""
    problems = {
        f"config.{item.name}": ConfigProblem("names_missing_file", "names a file that does not exist")
        for item in form
        if item.type in ("file", "array[file]")
        and config.get(item.name) != item.default  # defaults come from the plugin and are not checked
        and not all(map(is_there, _chosen(config.get(item.name))))
    }
    if not all(map(is_there, added)):
        added_file = ConfigProblem("adds_missing_file", "adds a file that does not exist")
        problems["policy.access.resources.files"] = added_file
    if problems:
        raise _refused(problems, ("unknown_files", "`bollard files list` lists them; upload the file first"))


def _chosen(value: JsonValue) -> list[str]:
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str) and each not in NOTHING_SELECTED]


_INVALID_CONFIG: Final = ("invalid_config", "correct this and save again")


def _refused(problems: dict[str, ConfigProblem], reason_and_hint: tuple[str, str]) -> InvalidRequest:
    reason, hint = reason_and_hint
    message = "; ".join(f"{path} {problem.text}" for path, problem in problems.items())
    error = InvalidRequest(message, reason=reason, hint=hint, field=next(iter(problems)), problem=message)
    error.details["problems"] = [{"field": path, **problem.details} for path, problem in problems.items()]
    return error


def _problem(item: FormItem, value: JsonValue) -> ConfigProblem | None:
    if item.type == "secret" and value == KEPT:
        return ConfigProblem("no_secret_to_keep", "has no secret to keep; enter it")
    return problem_of(item, value)


def _unknown(given: JsonObject, form: Sequence[FormItem]) -> dict[str, ConfigProblem]:
    names = [item.name for item in form]
    problem = ConfigProblem("form_without_fields", "is not a field; the form has no fields")
    if known := ", ".join(names):
        problem = ConfigProblem("not_a_form_field", f"is not a field; the form has {known}", known=known)
    return {name: problem for name in given if name not in names}


def _with_kept_secrets(given: JsonObject, form: Sequence[FormItem], before: JsonObject) -> JsonObject:
    kept = {name: before[name] for name in secret_fields(form) if given.get(name) == KEPT and name in before}
    return {**given, **kept}
