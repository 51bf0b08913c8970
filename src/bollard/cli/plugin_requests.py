"""What the plugin commands ask a host: the requests, and the yes that some of them need. Prints only the question."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote, urlencode

from bollard.cli.errors import HostRefusal, UsageProblem
from bollard.cli.host_client import HostClient
from bollard.cli.plugin_packing import ARCHIVE, Packed, pack_plugin
from bollard.cli.upload_bar import uploading

if TYPE_CHECKING:
    from bollard.protocol import JsonObject

__all__ = ["PLUGINS", "Consenting", "all_plugins", "install", "one", "update", "with_consent"]

PLUGINS: Final = "/api/v1/plugins"
Consenting = Callable[[dict[str, Any]], bool]
"""Shown the details of a refusal; whether the person says yes."""


def one(plugin_id: str) -> str:
    """The path of a plugin; raises `UsageProblem` for a word that is no `author/name`."""
    author, slash, name = plugin_id.partition("/")
    if not (author and slash and name) or "/" in name:
        raise UsageProblem("error.plugin_id", "hint.plugin_id", word=plugin_id)
    return f"{PLUGINS}/{quote(author, safe='')}/{quote(name, safe='')}"


async def all_plugins(client: HostClient) -> AsyncIterator[dict[str, Any]]:
    """Every plugin of the workspace, page by page. Raises `HostProblem`."""
    cursor: str | None = None
    while True:
        query = "?limit=100" if cursor is None else f"?limit=100&cursor={quote(cursor, safe='')}"
        page = cast("dict[str, Any]", await client.get(f"{PLUGINS}{query}"))
        for item in page["items"]:
            yield item
        cursor = page.get("next_cursor")
        if cursor is None:
            return


async def with_consent(asked: Callable[[str | None], Awaitable[JsonObject]], consenting: Consenting) -> JsonObject:
    """Ask; where the host wants a yes, ask the person, and then the host again. Raises `HostProblem`."""
    try:
        return await asked(None)
    except HostRefusal as refusal:
        if refusal.code != "consent_needed" or not consenting(refusal.details):
            raise
        consent = str(refusal.details["consent"])
    return await asked(consent)


async def install(
    client: HostClient, source: str, consenting: Consenting, *, package: bool, workers: int
) -> JsonObject:
    """Raises `CliError`."""
    if package:
        body: JsonObject = {"package": source, "workers": workers}
        return await with_consent(lambda consent: client.post(PLUGINS, _agreed(body, consent)), consenting)
    packed = pack_plugin(Path(source))
    return await with_consent(lambda consent: _send(client, "POST", PLUGINS, packed, consent, workers), consenting)


async def update(client: HostClient, source: str, consenting: Consenting, *, package: str | None) -> JsonObject:
    """Another version of a plugin; `source` is its id where `package` names the package. Raises `CliError`."""
    if package is not None:
        path, body = one(source), cast("JsonObject", {"package": package})
        return await with_consent(lambda consent: client.put(path, _agreed(body, consent)), consenting)
    packed = pack_plugin(Path(source))
    path = one(packed.described.plugin_id)
    return await with_consent(lambda consent: _send(client, "PUT", path, packed, consent, None), consenting)


def _agreed(body: JsonObject, consent: str | None) -> JsonObject:
    return body if consent is None else {**body, "consent": consent}


async def _send(
    client: HostClient, method: str, path: str, packed: Packed, consent: str | None, workers: int | None
) -> JsonObject:
    query = {"source": packed.source[:256]}
    if consent is not None:
        query["consent"] = consent
    if workers is not None:
        query["workers"] = str(workers)
    with uploading(len(packed.data)) as sent:
        return await client.upload(method, f"{path}?{urlencode(query)}", packed.data, ARCHIVE, sent)
