"""`/catalogue`: search the catalogues of the host, and read one item.

Items are installed with the operations of plugins, skills and MCP servers.
"""

import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from bollard.host.catalogue.index import CatalogueItem
from bollard.host.catalogue.sources import Catalogue, CatalogueSource
from bollard.host.http.answers import JsonAnswer
from bollard.host.http.auth.callers import caller_of
from bollard.host.http.openapi.schemas import ANY, LABEL, TEXT, TIME, array_of, choice, fields, maybe
from bollard.host.http.operations import PAGE, QueryField
from bollard.host.http.queries import Pages
from bollard.host.http.resources.declaration import DeclaredResource, answer_body, operation
from bollard.host.identity.caller import Caller, Right
from bollard.host.mcp.server_repository import McpServerRepository
from bollard.host.plugins.fleet import PluginFleet
from bollard.host.plugins.repository import PluginRepository
from bollard.host.skills.repository import SkillRepository
from bollard.protocol import JsonObject, JsonValue

_KINDS: Final[dict[str, Right]] = {"plugin": "plugins.read", "skill": "skills.read", "mcp_server": "mcp.read"}
"""The kinds of items, and the right to know which ones a workspace has."""
_SECRET: Final = re.compile(r"secret:([A-Za-z0-9][A-Za-z0-9._-]{0,63})")
_LISTED: Final = answer_body(
    "CatalogueItem",
    {
        "ref": "bundled/support-desk",
        "kind": "plugin",
        "name": "local/support_desk",
        "version": "0",
        "label": {"en_US": "Support desk"},
        "description": {"en_US": "Answers customers from a handbook."},
        "tags": ["example"],
        "installed": None,
    },
    kind=choice(*_KINDS),
    label=LABEL,
    description=LABEL,
    installed=maybe(fields(version=TEXT, origin=choice("builtin", "settings", "installed", "dev", "remote", "saved"))),
)
_ITEM: Final = _LISTED.extended(
    "CatalogueItemWhole",
    {"readme": {"en_US": "# Support desk"}, "secrets": []},
    {"server": ANY, "skill": ANY},
    readme=LABEL,
    secrets=array_of(TEXT),
)
_SOURCE: Final = answer_body(
    "CatalogueSource",
    {
        "source": "bundled",
        "url": "",
        "name": "Bollard",
        "issued_at": 1794735484.0,
        "items": 9,
        "problem": None,
        "problem_details": {},
        "hint": "",
    },
    name=maybe(TEXT),
    issued_at=maybe(TIME),
    problem=maybe(TEXT),
    problem_details=ANY,
)


class CatalogueRoutes(DeclaredResource):
    """The catalogues of the host."""

    tag = "catalogue"

    def __init__(
        self,
        catalogue: Catalogue,
        *,
        plugins: PluginRepository,
        fleet: PluginFleet,
        skills: SkillRepository,
        servers: McpServerRepository,
        pages: Pages,
    ) -> None:
        self._catalogue = catalogue
        self._plugins = plugins
        self._fleet = fleet
        self._saved = {"skill": skills, "mcp_server": servers}
        self._pages = pages

    @operation(
        "GET /api/v1/catalogue",
        name="listCatalogue",
        summary="List the plugins, MCP servers and skills of the catalogues.",
        description="A catalogue that cannot be fetched has no items; `GET /api/v1/catalogue-sources` has its problem.",
        right="plugins.read",
        query=(
            *PAGE,
            QueryField(name="search", summary="Words that an item has in its name, texts or tags.", example="desk"),
            QueryField(name="kind", summary="Items of one kind.", choices=tuple(_KINDS)),
        ),
        answers={200: _LISTED.page("items")},
    )
    async def list(self, request: Request) -> Response:
        caller, query = caller_of(request), request.query_params
        words, kind = query.get("search", "").casefold().split(), query.get("kind")
        found: list[tuple[str, CatalogueItem]] = []
        for source in self._catalogue.sources:
            index = (await source.state()).index
            found += [
                (f"{source.name}/{item.item_id}", item)
                for item in (() if index is None else index.items)
                if kind in (None, item.kind) and _matches(item, words)
            ]
        found.sort(key=_ref)
        return self._pages.of_all(
            request, "catalogue.list", found, _ref, lambda each: self._listed(caller, each[0], each[1])
        )

    @operation(
        "GET /api/v1/catalogue-sources",
        name="listCatalogueSources",
        summary="List the catalogues: the bundled one, and that of the setting `catalogue_url`.",
        right="plugins.read",
        query=PAGE,
        answers={200: _SOURCE.page("catalogues")},
    )
    async def list_sources(self, request: Request) -> Response:
        shown = [await _source(source) for source in self._catalogue.sources]
        return self._pages.of_all(
            request, "catalogue.sources", shown, lambda each: str(each["source"]), lambda each: each
        )

    @operation(
        "GET /api/v1/catalogue/{source}/{item_id}",
        name="getCatalogueItem",
        summary="Show one item of a catalogue, with its README.",
        description="To install a plugin, send its `ref` as `catalogue` to `POST /api/v1/plugins`. To install an MCP "
        "server or a skill, save `server` or `skill` with the operation of its kind; with `revision: 0` an existing "
        "one is not replaced. `secrets` names the secrets that a server needs.",
        right="plugins.read",
        answers={200: _ITEM.answer("The item.")},
        errors=("not_found", "catalogue_unavailable"),
    )
    async def get(self, request: Request) -> Response:
        ref = f"{request.path_params['source']}/{request.path_params['item_id']}"
        source, item = await self._catalogue.find(ref)
        readme: JsonObject = {language: await source.readme(file) for language, file in item.readme.items()}
        body: JsonObject = {**self._listed(caller_of(request), ref, item), "readme": readme, "secrets": _secrets(item)}
        if item.server is not None:
            body["server"] = item.server
        if item.kind == "skill":
            body["skill"] = await source.skill(item)
        return JsonAnswer(body)

    def _listed(self, caller: Caller, ref: str, item: CatalogueItem) -> JsonObject:
        return {
            "ref": ref,
            "kind": item.kind,
            "name": item.name,
            "version": item.version,
            "label": {**item.label},
            "description": {**item.description},
            "tags": [*item.tags],
            "installed": self._installed(caller.workspace, item) if caller.may(_KINDS[item.kind]) else None,
        }

    def _installed(self, workspace: str, item: CatalogueItem) -> JsonObject | None:
        """What the workspace has under the item's name; `None` for nothing."""
        if item.kind == "plugin":
            placement = self._fleet.find(workspace, item.name)
            if placement is not None:
                return {"version": placement.version or "", "origin": placement.origin}
            installed = self._plugins.find(workspace, item.name)
            return None if installed is None else {"version": installed.current.version, "origin": "installed"}
        is_saved = self._saved[item.kind].find(workspace, item.name) is not None
        return {"version": "", "origin": "saved"} if is_saved else None


def _ref(each: tuple[str, CatalogueItem]) -> str:
    return each[0]


def _matches(item: CatalogueItem, words: list[str]) -> bool:
    texts = (item.item_id, item.name, *item.tags, *item.label.values(), *item.description.values())
    text = " ".join(texts).casefold()
    return all(word in text for word in words)


def _secrets(item: CatalogueItem) -> list[JsonValue]:
    """The names of secrets in the values of a server."""
    server = item.server or {}
    named = [server.get("env"), server.get("headers")]
    values = [str(value) for each in named if isinstance(each, dict) for value in each.values()]
    return [*dict.fromkeys(name for value in values for name in _SECRET.findall(value))]


async def _source(source: CatalogueSource) -> JsonObject:
    state = await source.state()
    index, problem = state.index, state.problem
    return {
        "source": source.name,
        "url": source.address,
        "name": None if index is None else index.name,
        "issued_at": None if index is None else index.issued_at,
        "items": 0 if index is None else len(index.items),
        "problem": None if problem is None else problem.message,
        "problem_details": {} if problem is None else {"code": problem.code, **problem.details},
        "hint": "" if problem is None else problem.hint,
    }
