"""Agents and bindings as JSON documents that people keep at a host: fetched, saved, deleted. Shows nothing itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, cast
from urllib.parse import quote, urlencode

import typer

from bollard.cli.errors import UsageProblem
from bollard.cli.host_client import HostClient
from bollard.cli.json_option import read_json_document
from bollard.protocol import limits

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = [
    "AGENTS",
    "BINDINGS",
    "CAPABILITIES",
    "CHANNELS",
    "FILES",
    "KNOWLEDGE",
    "RUNNERS",
    "SKILLS",
    "DocumentFile",
    "DocumentKind",
]

DocumentFile = Annotated[str, typer.Argument(metavar="FILE.json|-", help="documents.file")]


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentKind:
    """One kind of document: where the host has it, and which field names one."""

    path: str
    key: str

    async def all(self, client: HostClient) -> list[dict[str, Any]]:
        """Every one of them, page by page. Raises `HostProblem`."""
        found: list[dict[str, Any]] = []
        query: dict[str, Any] = {"limit": limits.PAGE_ITEMS}
        while True:
            page = cast("dict[str, Any]", await client.get(f"{self.path}?{urlencode(query)}"))
            found += page["items"]
            if not page.get("has_more"):
                return found
            query["cursor"] = page["next_cursor"]

    async def get(self, client: HostClient, name: str) -> JsonObject:
        """One of them. Raises `HostProblem`."""
        return await client.get(self._one(name))

    async def save(self, client: HostClient, given: str) -> JsonObject:
        """Save the document of a file under the name that it has itself. Raises `CliError`."""
        document = read_json_document(given)
        name = document.get(self.key)
        if not isinstance(name, str) or not name:
            raise UsageProblem("error.unnamed", "hint.unnamed", path=given, field=self.key)
        return await client.put(self._one(name), document)

    async def put(self, client: HostClient, name: str, document: JsonObject) -> JsonObject:
        """Save a document under a name. Raises `HostProblem`."""
        return await client.put(self._one(name), document)

    async def delete(self, client: HostClient, name: str) -> JsonObject:
        """Delete one. Raises `HostProblem`."""
        return await client.delete(self._one(name))

    def _one(self, name: str) -> str:
        return f"{self.path}/{quote(name, safe='')}"


AGENTS = DocumentKind(path="/api/v1/agents", key="agent_id")
RUNNERS = DocumentKind(path="/api/v1/runners", key="runner_id")
BINDINGS = DocumentKind(path="/api/v1/bindings", key="binding_id")
CHANNELS = DocumentKind(path="/api/v1/channels", key="channel_id")
SKILLS = DocumentKind(path="/api/v1/skills", key="skill_id")
FILES = DocumentKind(path="/api/v1/files", key="file_id")
KNOWLEDGE = DocumentKind(path="/api/v1/knowledge", key="kb_id")
CAPABILITIES = DocumentKind(path="/api/v1/capabilities", key="id")
