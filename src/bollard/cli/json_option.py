"""An option whose value is a JSON object, written there or in a file (`@file`)."""

import json
from pathlib import Path
from typing import cast

from bollard.cli.errors import UsageProblem
from bollard.protocol import JsonObject

__all__ = ["read_json_object"]


def read_json_object(option: str, given: str) -> JsonObject:
    """The object; raises `UsageProblem`."""
    source = given
    if given.startswith("@"):
        try:
            source = Path(given[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageProblem("error.json_file", "hint.json", option=option, path=given[1:], detail=error) from error
    try:
        value = json.loads(source)
    except ValueError as error:
        raise UsageProblem("error.json_text", "hint.json", option=option, detail=error) from error
    if not isinstance(value, dict):
        raise UsageProblem("error.json_object", "hint.json", option=option)
    return cast("JsonObject", value)
