"""A JSON object that a command is given: as an option, in a file (`@file`), or as a document on its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

from bollard.cli.errors import UsageProblem

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["read_json_document", "read_json_object"]


def read_json_object(option: str, given: str) -> JsonObject:
    """The object; raises `UsageProblem`."""
    source = given
    if given.startswith("@"):
        try:
            source = Path(given[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageProblem("error.json_file", "hint.json", option=option, path=given[1:], detail=error) from error
    return _object(option, source, "hint.json")


def read_json_document(given: str) -> JsonObject:
    """The object in a file, or on stdin for `-`; raises `UsageProblem`."""
    try:
        source = sys.stdin.read() if given == "-" else Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        detail = error.strerror if isinstance(error, OSError) else error
        raise UsageProblem("error.document", "hint.document", path=given, detail=detail) from error
    return _object(given, source, "hint.document")


def _object(named: str, source: str, hint: str) -> JsonObject:
    try:
        value = json.loads(source)
    except ValueError as error:
        raise UsageProblem("error.json_text", hint, option=named, detail=error) from error
    if not isinstance(value, dict):
        raise UsageProblem("error.json_object", hint, option=named)
    return cast("JsonObject", value)
