"""JSON documents that commands read from files and options, and the resources that a host saves. Prints nothing."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode

from bollard.cli.errors import UsageProblem
from bollard.protocol import limits

if TYPE_CHECKING:
    from bollard.cli.client.host_client import HostClient
    from bollard.protocol import JsonObject


# --- JSON from an option, a file (`@file`) or a document ---


def read_json_object(option: str, given: str) -> JsonObject:
    """Parse a JSON object. Raises `UsageProblem`."""
    source = given
    if given.startswith("@"):
        try:
            source = Path(given[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageProblem("error.json_file", "hint.json", option=option, path=given[1:], detail=error) from error
    return _object(option, source, "hint.json")


def read_json_document(given: str) -> JsonObject:
    """The object in a JSON or YAML file, or as JSON on stdin for `-`. Raises `UsageProblem`."""
    try:
        source = sys.stdin.read() if given == "-" else Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem("error.document", "hint.document", path=given, detail=error) from error
    return parse_document(given, source)


def parse_document(name: str, source: str) -> JsonObject:
    """The object in the text of a document; YAML if its name ends like that. Raises `UsageProblem`."""
    if not name.endswith((".yaml", ".yml")):
        return _object(name, source, "hint.document")
    import yaml  # not needed for JSON

    try:
        value: Any = yaml.safe_load(source)
        json.dumps(value, allow_nan=False)  # dates, sets and not-a-number exist in YAML alone
    except (yaml.YAMLError, ValueError, TypeError) as error:
        said = ValueError(" ".join(str(error).split()))
        raise UsageProblem("error.yaml_text", "hint.yaml", path=name, detail=said) from error
    if not isinstance(value, dict):
        raise UsageProblem("error.json_object", "hint.document", option=name)
    return cast("JsonObject", value)


def _object(named: str, source: str, hint: str) -> JsonObject:
    try:
        value = json.loads(source)
    except ValueError as error:
        raise UsageProblem("error.json_text", hint, option=named, detail=error) from error
    if not isinstance(value, dict):
        raise UsageProblem("error.json_object", hint, option=named)
    return cast("JsonObject", value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A kind of saved resource: its path and its id field."""

    path: str
    key: str

    def one(self, name: str, rest: str = "") -> str:
        """The path of one resource, with its id escaped."""
        return f"{self.path}/{quote(name, safe='')}{rest}"

    async def all(self, client: HostClient) -> list[dict[str, Any]]:
        """All resources, page by page. Raises `HostProblem`."""
        found: list[dict[str, Any]] = []
        query: dict[str, Any] = {"limit": limits.PAGE_ITEMS}
        while True:
            page = cast("dict[str, Any]", await client.get(f"{self.path}?{urlencode(query)}"))
            found += page["items"]
            if not page.get("has_more"):
                return found
            query["cursor"] = page["next_cursor"]


AGENTS = Resource(path="/api/v1/agents", key="agent_id")
RUNNERS = Resource(path="/api/v1/runners", key="runner_id")
BINDINGS = Resource(path="/api/v1/bindings", key="binding_id")
BOTS = Resource(path="/api/v1/bots", key="bot_id")
CHANNELS = Resource(path="/api/v1/channels", key="channel_id")
SCHEDULES = Resource(path="/api/v1/schedules", key="schedule_id")
HOOKS = Resource(path="/api/v1/hooks", key="hook_id")
SUBSCRIPTIONS = Resource(path="/api/v1/subscriptions", key="subscription_id")
SECRETS = Resource(path="/api/v1/secrets", key="secret_name")
