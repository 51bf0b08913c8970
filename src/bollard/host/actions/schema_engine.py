"""Compiled schemas. Loaded by name with the first call, because it takes 8 MiB that an idle host saves. Patterns run in
linear time, and nothing is fetched."""

import jsonschema_rs

from bollard.host.limits import PATTERN_BYTES
from bollard.protocol import JsonObject


def compiled(schema: JsonObject, pattern_bytes: int = PATTERN_BYTES) -> jsonschema_rs.Validator:
    """Compile a schema. Raises `ValueError` if it is invalid, has a larger pattern, or refers to a remote one."""
    options = jsonschema_rs.RegexOptions(size_limit=pattern_bytes, dfa_size_limit=pattern_bytes)
    try:
        return jsonschema_rs.validator_for(schema, offline=True, pattern_options=options)
    except jsonschema_rs.ReferencingError as error:
        raise ValueError(str(error)) from error


def problem_of(validator: jsonschema_rs.Validator, arguments: JsonObject) -> tuple[str, str] | None:
    """The path and the message of the first problem; nothing if the arguments are valid."""
    error = next(iter(validator.iter_errors(arguments)), None)
    if error is None:
        return None
    return ".".join(str(part) for part in error.instance_path), error.message
