"""Compiled schemas. Loaded by name with the first call, because it takes 8 MiB that an idle host saves. Patterns run in
linear time, and nothing is fetched."""

from typing import Final

import jsonschema_rs

from bollard.host.limits import PATTERN_BYTES
from bollard.protocol import JsonObject

_PATTERNS: Final = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=PATTERN_BYTES)


def compiled(schema: JsonObject) -> jsonschema_rs.Validator:
    """Compile a schema. Raises `ValueError` if it is invalid or refers to a remote one."""
    try:
        return jsonschema_rs.validator_for(schema, offline=True, pattern_options=_PATTERNS)
    except jsonschema_rs.ReferencingError as error:
        raise ValueError(str(error)) from error


def problem_of(validator: jsonschema_rs.Validator, arguments: JsonObject) -> tuple[str, str] | None:
    """The path and the message of the first problem; nothing if the arguments are valid."""
    error = next(iter(validator.iter_errors(arguments)), None)
    if error is None:
        return None
    return ".".join(str(part) for part in error.instance_path), error.message
