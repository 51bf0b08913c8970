"""Arguments of a call, by type. The executor held them against the schema; what is wrong here is a bug, or a call that
went another way."""

from bollard.host.errors import InvalidRequest
from bollard.protocol import JsonObject

__all__ = ["flag", "number", "words", "words_or"]


def words(arguments: JsonObject, name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise InvalidRequest(f"{name} must be text", hint="look at the tool's schema", field=name)
    return value


def words_or(arguments: JsonObject, name: str, otherwise: str) -> str:
    return otherwise if arguments.get(name) is None else words(arguments, name)


def number(arguments: JsonObject, name: str, otherwise: int) -> int:
    value = arguments.get(name)
    if value is None:
        return otherwise
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise InvalidRequest(f"{name} must be a whole number", hint="look at the tool's schema", field=name)
    return int(value)


def flag(arguments: JsonObject, name: str) -> bool:
    value = arguments.get(name)
    if value is not None and not isinstance(value, bool):
        raise InvalidRequest(f"{name} must be true or false", hint="look at the tool's schema", field=name)
    return bool(value)
