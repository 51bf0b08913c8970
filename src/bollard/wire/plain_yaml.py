"""YAML that is JSON in nicer clothes: UTF-8, no aliases, no tags, no duplicate keys, no dates, text keys only."""
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# PyYAML's composer and constructor are untyped where they are extended here.

from typing import Any, cast

import yaml
from yaml.constructor import ConstructorError

__all__ = ["YamlError", "load_plain_yaml"]


class YamlError(Exception):
    """The text is not plain YAML: where, and why."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problem = problem


class _PlainLoader(yaml.SafeLoader):
    """Aliases can blow a small file up; of two equal keys one would be lost without a word."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ConstructorError(None, None, "aliases are not allowed", self.peek_event().start_mark)
        if self.peek_event().tag is not None:  # the constructors behind them make bytes, dates and worse
            raise ConstructorError(None, None, "tags are not allowed", self.peek_event().start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise ConstructorError(None, None, "a key must be text", key_node.start_mark)
            if key in seen:
                raise ConstructorError(None, None, f"the key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


_PlainLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def load_plain_yaml(data: bytes) -> object:
    """The one document in `data`; raises `YamlError`."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise YamlError(f"byte {error.start}", "not UTF-8") from error
    try:
        return cast("object", yaml.load(text, Loader=_PlainLoader))  # noqa: S506 -- a SafeLoader with fewer features
    except yaml.MarkedYAMLError as error:
        place = f"line {error.problem_mark.line + 1}" if error.problem_mark else "the file"
        raise YamlError(place, error.problem or "not YAML") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise YamlError("the file", f"not YAML: {type(error).__name__}") from error
