"""An option whose value is a JSON object, written there or in a file (`@file`)."""

import json
from pathlib import Path
from typing import Any, cast

from bollard.cli.errors import UsageProblem

__all__ = ["read_json_object"]


def read_json_object(given: str, problem: str, hint: str) -> dict[str, Any]:
    """The object; raises `UsageProblem` with the sentence `problem`, which has the field `detail`."""
    try:
        source = Path(given[1:]).read_text(encoding="utf-8") if given.startswith("@") else given
        value = json.loads(source)
    except (OSError, ValueError) as error:  # a file that is no UTF-8 is a ValueError too
        raise UsageProblem(problem, hint, detail=error) from error
    if not isinstance(value, dict):
        raise UsageProblem(problem, hint, detail=type(value).__name__)
    return cast("dict[str, Any]", value)
