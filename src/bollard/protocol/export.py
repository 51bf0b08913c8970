"""The protocol as documents: JSON Schema of every shape, and the tables of methods, actions, limits and errors.

Pure: it builds values and writes no file. What it says is read from the front door, so nothing is listed twice. Not
part of the front door itself, because only tools and peers in other languages need it.
"""

import ast
import inspect
import json
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final, Literal, cast

from bollard.protocol import front_door, limits, shape
from bollard.protocol.api import ACTIONS, Action
from bollard.protocol.channel import METHODS, Method
from bollard.protocol.context import EVENT_MEANINGS
from bollard.protocol.errors import API_ERROR_RPC_CODE, ERROR_MEANINGS, FAILURE_MEANINGS, status_of_failure
from bollard.protocol.shape import JsonObject, JsonValue, Shape

__all__ = ["LIMITS", "SHAPES", "Strictness", "render", "schema_documents", "strictness_of", "unit_of"]

Strictness = Literal["strict", "tolerant", "loose"]
"""What a reader does with an unknown field: refuse it, ignore it, keep it."""

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_STRICTNESS: Final[Mapping[str | None, Strictness]] = MappingProxyType(
    {"forbid": "strict", "ignore": "tolerant", "allow": "loose"}
)
_ANSWERED_BY_ACTION: Final = "api/call"


def _public_shapes() -> Mapping[str, type[Shape]]:
    return MappingProxyType(
        {
            name: thing
            for name, thing in sorted(vars(front_door).items())
            if isinstance(thing, type) and issubclass(thing, Shape) and name not in shape.__all__
        }
    )


SHAPES: Final = _public_shapes()
"""Every public shape by name, in alphabetical order."""


def _meanings_of_limits() -> Mapping[str, str]:
    """The limits and the sentence below each of them; a constant without a sentence is a unit, not a limit."""
    body = ast.parse(inspect.getsource(limits)).body
    found: dict[str, str] = {}
    for statement, following in pairwise(body):
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        if not (isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)):
            continue
        if isinstance(following.value.value, str) and statement.target.id != "PROTOCOL_VERSION":
            found[statement.target.id] = following.value.value
    return MappingProxyType(found)


LIMITS: Final = _meanings_of_limits()
"""Every limit's meaning by name, in the order of the module."""


def unit_of(limit: str) -> str:
    """The unit that a limit's name ends with."""
    words = limit.removesuffix("_DEFAULT").split("_")
    if words[-2:] == ["PER", "S"]:
        return "per second"
    units = {"S": "seconds", "BYTES": "bytes", "CHARACTERS": "characters", "DEPTH": "levels", "MAX": "absolute value"}
    return units.get(words[-1], "count")


def strictness_of(kind: type[Shape]) -> Strictness:
    """What a reader of this shape does with a field it does not know."""
    return _STRICTNESS[kind.model_config.get("extra")]


def render(document: JsonObject) -> str:
    """The text of one document, as it is kept in a file."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def schema_documents() -> Mapping[str, JsonObject]:
    """Every document by file name: one JSON Schema for each shape, and the tables."""
    documents = {f"{name}.json": _schema(name, kind) for name, kind in SHAPES.items()}
    documents["actions.json"] = _document("actions", [_action(action) for action in ACTIONS.values()])
    documents["errors.json"] = _errors()
    documents["events.json"] = _document(
        "events", [{"name": name, "meaning": meaning} for name, meaning in EVENT_MEANINGS.items()]
    )
    documents["index.json"] = _document("shapes", [_entry(name, kind) for name, kind in SHAPES.items()])
    documents["limits.json"] = _document("limits", [_limit(name, meaning) for name, meaning in LIMITS.items()])
    documents["methods.json"] = _document("methods", [_method(method) for method in METHODS.values()])
    return MappingProxyType(documents)


def _document(rows_of: str, rows: list[JsonValue]) -> JsonObject:
    return {"protocol": limits.PROTOCOL_VERSION, rows_of: rows}


def _schema(name: str, kind: type[Shape]) -> JsonObject:
    # pydantic says dict[str, Any]; a JSON Schema is JSON by definition.
    body = cast("JsonObject", kind.model_json_schema(mode="validation"))
    return {"$schema": _DIALECT, "$id": f"urn:bollard:protocol:{limits.PROTOCOL_VERSION}:{name}", **body}


def _entry(name: str, kind: type[Shape]) -> JsonObject:
    return {
        "name": name,
        "file": f"{name}.json",
        "strictness": strictness_of(kind),
        "description": inspect.getdoc(kind) or "",
    }


def _action(action: Action) -> JsonObject:
    permission = action.permission
    return {
        "name": action.name,
        "params": action.params.__name__,
        "result": action.result.__name__,
        "permission": None if permission is None else {"key": permission[0], "value": permission[1]},
        "streamed": action.streamed,
    }


def _method(method: Method) -> JsonObject:
    by_action = method.name == _ANSWERED_BY_ACTION
    return {
        "name": method.name,
        "sent_by": method.sent_by,
        "kind": "notification" if method.result is None else "request",
        "params": method.params.__name__,
        "result": None if by_action or method.result is None else method.result.__name__,
        "result_by_action": by_action,
    }


def _limit(name: str, meaning: str) -> JsonObject:
    return {"name": name, "value": cast("JsonValue", getattr(limits, name)), "unit": unit_of(name), "meaning": meaning}


def _errors() -> JsonObject:
    return {
        "protocol": limits.PROTOCOL_VERSION,
        "rpc_code": API_ERROR_RPC_CODE,
        "api_errors": [{"code": code, "meaning": meaning} for code, meaning in ERROR_MEANINGS.items()],
        "run_failures": [
            {"code": code, "meaning": meaning, "status": status_of_failure(code)}
            for code, meaning in FAILURE_MEANINGS.items()
        ],
    }
