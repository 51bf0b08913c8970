"""Schemas, compiled. Loaded by name when the first call with arguments comes: it costs 8 MiB that an idle host does not
pay. Patterns run on an engine whose time is linear in the text, and nothing is fetched."""

from typing import Final

import jsonschema_rs

from bollard.host.limits import PATTERN_BYTES
from bollard.protocol import JsonObject

_PATTERNS: Final = jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES, dfa_size_limit=PATTERN_BYTES)


def compiled(schema: JsonObject) -> jsonschema_rs.Validator:
    """Raises `ValueError` for what is no schema that can be checked here."""
    try:
        return jsonschema_rs.validator_for(schema, offline=True, pattern_options=_PATTERNS)
    except jsonschema_rs.ReferencingError as error:
        raise ValueError(str(error)) from error


def problem_of(validator: jsonschema_rs.Validator, arguments: JsonObject) -> tuple[str, str] | None:
    """Where the first problem is, and what; nothing where there is none."""
    error = next(iter(validator.iter_errors(arguments)), None)
    if error is None:
        return None
    return ".".join(str(part) for part in error.instance_path), error.message
