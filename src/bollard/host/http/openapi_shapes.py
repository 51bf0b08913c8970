"""The shapes that operations take and give, as components of an OpenAPI document: each once, under its name."""

from collections.abc import Iterable
from typing import Final, cast

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from bollard.host.http.openapi_parameters import parts_of
from bollard.host.http.operations import Operation
from bollard.protocol import JsonObject, JsonValue, Shape

__all__ = ["Shapes"]

_REF: Final = "#/components/schemas/{model}"


class _Untitled(GenerateJsonSchema):
    """Without the titles that only repeat a field's name, and without the mark of what is private to a module."""

    def normalize_name(self, name: str) -> str:
        return super().normalize_name(name).lstrip("_")

    def field_title_should_be_set(self, schema: object) -> bool:
        del schema
        return False


class Shapes:
    """Those of these operations."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        used = sorted(
            {each for operation in operations for each in _shapes_of(operation)}, key=lambda each: each.__name__
        )
        # Both ways as they are read: what is written is the same without what is absent.
        refs, found = models_json_schema(
            [(shape, "validation") for shape in used], ref_template=_REF, schema_generator=_Untitled
        )
        self._refs = {shape: cast("JsonObject", refs[shape, "validation"]) for shape in used}
        self.components = cast("JsonObject", found.get("$defs", {}))

    def of(self, shape: type[Shape] | JsonObject) -> JsonObject:
        """A shape as a reference; a schema as it is, where its parts that have a title are references."""
        return self._refs[shape] if isinstance(shape, type) else cast("JsonObject", self._named(shape))

    def _named(self, value: JsonValue) -> JsonValue:
        if isinstance(value, list):
            return [self._named(each) for each in value]
        if not isinstance(value, dict):
            return value
        schema = {name: self._named(each) for name, each in value.items()}
        title = schema.get("title")
        if not isinstance(title, str) or schema.get("type") != "object":
            return schema
        if self.components.setdefault(title, schema) != schema:
            raise ValueError(f"two shapes are called {title}")
        return {"$ref": _REF.format(model=title)}

    def needed(self, shape: type[Shape] | JsonObject, path: str) -> bool:
        """Whether there must be a body of this shape: none at all is read as an empty object. What the path says
        already need not be in it."""
        if not isinstance(shape, type):
            return bool(shape.get("required")) or shape.get("type") != "object"
        whole = cast("dict[str, list[str]]", self.components[str(self._refs[shape]["$ref"]).rpartition("/")[2]])
        if "required" in whole:
            whole["required"] = [name for name in whole["required"] if name not in parts_of(path)]
        return bool(whole.get("required"))


def _shapes_of(operation: Operation) -> list[type[Shape]]:
    said = [operation.body, *(part for each in operation.answers.values() for part in (each.schema, each.items))]
    return [each for each in said if isinstance(each, type)]
